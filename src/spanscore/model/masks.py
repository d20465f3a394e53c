"""Find masks that others put in the place of hidden values."""

import re

from spanscore.model.json import Json, dumps

_IN_BRACKETS = re.compile(
    r"""
    [\[<](?:REDACTED|FILTERED|MASKED|ELIDED)(?:[\s:_-][^\]>]{0,60})?[\]>]
    # of a kind, as Presidio and LLM Guard write them
    | [\[<](?P<kind>
        (?:[A-Z]+_)*(?:PERSON|EMAIL|PHONE|LOCATION|IBAN|SSN|PASSPORT)(?:_[A-Z]+)*
        | [A-Z]+_(?:ID|NUMBER|ADDRESS|NAME|CARD|CODE|KEY|DATE)
        | [A-Z]+(?:_[A-Z]+)*_(?=\d)
    )(?:_?\d+)?[\]>]
    """,
    re.VERBOSE,
)
_ASTERISKS = re.compile(
    r"""
    (?<=\w)\*{3,}\w?@(?=\w) # of an address, whose domain was left
    | (?<=\S[ ])\*{4,}(?!\*) | (?<!\*)\*{4,}(?=\d) # of a number, whole or but for its end
    """,
    re.VERBOSE,
)
_BEGINNING = re.compile(r"[\[<][A-Z]")


def is_masked(text: str) -> bool:
    """Whether a mark stands for hidden content inside of a text.

    >>> is_masked("Cancel order [ORDER_ID_1]."), is_masked("Cancel ****."), is_masked("See [1].")
    (True, True, False)
    """
    if "***" in text and _ASTERISKS.search(text) is not None:
        return True
    if _BEGINNING.search(text) is None:
        return False
    return any(
        x["kind"] is None or f"</{x['kind']}" not in text for x in _IN_BRACKETS.finditer(text)
    )


_HIDDEN_STRING = re.compile(r'"\*{3,}"')


def hides_values(value: Json) -> bool:
    """Whether a mask stands for a hidden value in what a tool was given or returned.

    >>> (
    ...     hides_values({"email": "<EMAIL_ADDRESS>"}),
    ...     hides_values(["***"]),
    ...     hides_values("***bold***"),
    ... )
    (True, True, False)
    """
    text = dumps(value)
    return is_masked(text) or _HIDDEN_STRING.search(text) is not None
