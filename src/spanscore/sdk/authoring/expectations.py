"""What an author expects of a turn, as the attributes that a suite reads."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from spanscore.model.json import Json
from spanscore.sdk.authoring import attributes as names
from spanscore.sdk.authoring.definitions import DESCRIBED, described
from spanscore.sdk.authoring.spans import Attribute
from spanscore.sdk.authoring.values import Plain, bounded, json_of, text_of

ExpectedTools: TypeAlias = Iterable[Any] | Mapping[str, Mapping[str, Any] | None]
"""Names, functions, pairs of one of these and arguments, objects with `name` and `arguments`; or
arguments by name.
"""


def expectation(
    answer: object = None,
    tools: ExpectedTools | None = None,
    outcomes: str | Sequence[str] = (),
    *,
    in_order: bool | None = None,
) -> dict[str, Attribute | None]:
    """The attributes; None for what is not expected."""
    stated = [outcomes] if isinstance(outcomes, str) else list(outcomes)
    return {
        names.EXPECTED_ANSWER: None if answer is None else text_of(answer),
        names.EXPECTED_TOOLS: None
        if tools is None
        else json_of([_tool(x) for x in _listed(tools)]),
        names.EXPECTED_OUTCOMES: [bounded(x) for x in stated] or None,
        names.EXPECTED_ORDER: in_order,
    }


def _listed(tools: ExpectedTools) -> Iterable[Any]:
    if isinstance(tools, str) or callable(tools):
        return [tools]
    return tools.items() if isinstance(tools, Mapping) else tools


def _tool(expected: Any) -> Json:
    if isinstance(expected, Mapping):
        given = Plain().value(expected)
        assert isinstance(given, dict)  # noqa: S101 - for the type checker: a mapping stays one
        return {"name": given.get("name", given.get("tool_name")), **given}
    if isinstance(expected, tuple | list):
        function, arguments = expected
        found: dict[str, Json] = {"name": _name(function)}
        return found if arguments is None else found | {"arguments": Plain().value(arguments)}
    return {"name": _name(expected)}


def _name(function: Any) -> str:
    if isinstance(function, str):
        return function
    return (getattr(function, DESCRIBED, None) or described(function)).name
