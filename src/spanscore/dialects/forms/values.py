"""The facts of a span, and plain values and ids."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypedDict, cast

from spanscore.dialects.keys import SESSION_ID, USER_ID
from spanscore.model.json import Json
from spanscore.model.span import Attributes, Value
from spanscore.model.step import Message, StepFact, StepKind
from spanscore.model.trace import Expected, Tool

Side: TypeAlias = Literal["input", "output"]
"""The facts that are messages: what a model or agent was given, and what it produced."""

TokenCount: TypeAlias = Literal["input_tokens", "output_tokens"]
"""The facts that are numbers of tokens."""


class Facts(TypedDict, total=False):
    """The fields of a `Step` that a span records: `kind` always, any of the others."""

    kind: StepKind
    agent_name: str | None
    session_id: str | None
    user_id: str | None
    input: tuple[Message, ...] | None
    input_is_part: bool
    output: tuple[Message, ...] | None
    input_text: str | None
    output_text: str | None
    output_json: str | None
    system: str | None
    tools: tuple[Tool, ...] | None
    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    response_id: str | None
    finish_reasons: tuple[str, ...]
    call_id: str | None
    tool_name: str | None
    arguments: Json
    positional: tuple[Json, ...]
    result: Json
    has_result: bool
    error: str | None
    runs_agent: str | None
    query: str | None
    documents: tuple[Json, ...]
    plan: str | None
    expected: Expected | None
    damaged: frozenset[StepFact]


class GivenFacts(Facts, total=False):
    """Facts with the session and user that whoever started a program gave it; they rank above all
    others.
    """

    given_session_id: str | None
    given_user_id: str | None


NO_CONTENT: Final[Facts] = {
    "input": None,
    "output": None,
    "input_text": None,
    "output_text": None,
    "output_json": None,
}
"""Replaces what a span records as given and produced, where a turn was not given and did not
produce it.
"""

NOT_RECORDED: Final = (None, (), False)
"""The values of a Step's fields where the span did not record any."""


def pop_given(facts: Facts) -> tuple[str | None, str | None]:
    """Take the session and user that were given out of `facts`, which are then the fields of a
    Step.
    """
    given = cast("GivenFacts", facts)
    return given.pop("given_session_id", None), given.pop("given_user_id", None)


def step_facts(names: Iterable[str]) -> frozenset[StepFact]:
    """The facts of these names, for `damaged`; each has to be one."""
    return frozenset(cast("Iterable[StepFact]", names))


def add_damaged(facts: Facts, *damaged: StepFact) -> None:
    """Record that these facts arrived cut or redacted, beside those recorded before."""
    facts["damaged"] = facts.get("damaged", frozenset()).union(damaged)


def add_missing(facts: Facts, found: Facts, *, missing: tuple[object, ...] = (None,)) -> None:
    """Add what `found` contains and `facts` does not, or contains as one of the values `missing`.

    What of `found` arrived cut or redacted is added to that of `facts`.
    """
    if damaged := found.get("damaged"):
        add_damaged(facts, *damaged)
    known = cast("dict[str, object]", facts)
    known.update(
        (name, x) for name, x in found.items() if x is not None and known.get(name) in missing
    )


def change_messages(facts: Facts, change: Callable[[Message], Message]) -> None:
    """Put what `change` makes of it in the place of each message, on both sides."""
    if given := facts.get("input"):
        facts["input"] = tuple(map(change, given))
    if produced := facts.get("output"):
        facts["output"] = tuple(map(change, produced))


def objects(value: object) -> list[dict[str, Any]]:
    """The objects in a list; none for what is no list.

    >>> objects([{"a": 1}, "b", None]), objects("b")
    ([{'a': 1}], [])
    """
    return [x for x in value if isinstance(x, dict)] if isinstance(value, list) else []


def text(value: object) -> str | None:
    """`value` where it is text that is not empty, else None."""
    return value if isinstance(value, str) and value else None


def first_value(attributes: Attributes, keys: tuple[str, ...]) -> Value:
    """The first of the attributes `keys` that the span has, else None."""
    for key in keys:  # for every span: a generator would take twice as long
        value = attributes.get(key)
        if value is not None:
            return value
    return None


def first_text(attributes: Attributes, keys: tuple[str, ...]) -> str | None:
    """The first of the attributes `keys` that is text and not empty, else None."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def first_count(attributes: Mapping[str, Any], keys: Iterable[str]) -> int | None:
    """The first of the attributes `keys` that is a number of tokens, else None."""
    for key in keys:
        value = attributes.get(key)
        if value is not None and (found := count(value)) is not None:
            return found
    return None


def count(value: object) -> int | None:
    """A number of tokens, which some write as text; None for anything else.

    >>> count(12), count("12"), count(12.0), count(True), count(-1), count("many")
    (12, 12, 12, None, None, None)
    """
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return int(value) if 0 <= value < 2**53 else None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    return None


_LOWEST, _HIGHEST = -(2**63), 2**64 - 1
"""Of the whole numbers that databases count in; what is beyond them was no id, and could be of any
length.
"""

SESSIONS = (
    "langfuse.session.id",
    "langwatch.thread.id",
    "langwatch.thread_id",
    "langfuse.trace.metadata.langfuse_session_id",
    "langfuse.observation.metadata.langfuse_session_id",
    "gcp.vertex.agent.session_id",
)
USERS = (
    "langfuse.user.id",
    "langwatch.user.id",
    "langwatch.user_id",
    "langfuse.trace.metadata.langfuse_user_id",
    "langfuse.observation.metadata.langfuse_user_id",
)
"""What names a session or a user on a span of any dialect, or of none, beside OpenTelemetry's own
attributes.
"""

IDENTIFYING = frozenset({SESSION_ID, USER_ID, *SESSIONS, *USERS})


def identity(value: object) -> str | None:
    """An id as text: text that is not empty as it is, a whole number in decimals; None for anything
    else.

    >>> identity("u-7"), identity(42), identity(0), identity(""), identity(True), identity(4.5)
    ('u-7', '42', '0', None, None, None)
    """
    if isinstance(value, str):
        return value or None
    return str(value) if type(value) is int and _LOWEST <= value <= _HIGHEST else None


def first_identity(values: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    """The first of the values under `keys` that is an id, else None."""
    for key in keys:
        value = values.get(key)
        if value is not None and (found := identity(value)) is not None:
            return found
    return None
