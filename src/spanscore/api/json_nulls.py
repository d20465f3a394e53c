"""Where JSON has null in place of a list or a map, which protobuf's own parser reads as an empty
one.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.protobuf.descriptor import Descriptor

from spanscore.model.json import loads
from spanscore.otlp.json import is_repeated

_FREE_FORM: Final = "google.protobuf."
"""Messages of this package have JSON of their own, in which null may have a meaning."""


def refuse_null_lists(text: bytes, message: Descriptor) -> None:
    """Raise ValueError, which names the field, where a list or a map of a message is null.

    `text` is its JSON.
    """
    if b"null" not in text:
        return
    try:
        given = loads(text)
    except ValueError:
        return  # the parser says what is wrong
    place = next(_null_lists(given, message), None)
    if place is not None:
        raise ValueError(
            f"{place}: null is no list or object; leave the field out, or write what it contains"
        )


def _null_lists(given: Any, message: Descriptor) -> Iterator[str]:
    """The places, as in `target.traceIds`, of nulls that stand for lists and maps."""
    if not isinstance(given, dict) or message.full_name.startswith(_FREE_FORM):
        return
    for name, value in given.items():
        field = message.fields_by_camelcase_name.get(name) or message.fields_by_name.get(name)
        if field is None:
            continue
        if value is None and is_repeated(field):
            yield name
        elif (inner := field.message_type) is not None:
            yield from (f"{name}{place}" for place in _within(value, inner))


def _within(value: Any, message: Descriptor) -> Iterator[str]:
    """The places of such nulls below a field of messages, each with what stands between it and the
    field's name.
    """
    if message.GetOptions().map_entry:
        held = message.fields_by_name["value"].message_type
        if held is not None and isinstance(value, Mapping):
            for key, entry in value.items():
                yield from (f".{key}.{place}" for place in _null_lists(entry, held))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from (f"[{number}].{place}" for place in _null_lists(item, message))
    else:
        yield from (f".{place}" for place in _null_lists(value, message))
