"""Read what an agent's author states on a span of any dialect, for which no convention has an
attribute.
"""

from typing import Any

from spanscore.dialects.forms.arguments import arguments
from spanscore.dialects.forms.structure import structure
from spanscore.dialects.forms.truncation import is_cut_or_redacted
from spanscore.dialects.forms.values import Facts, text
from spanscore.model.expected import Expected, ExpectedTool
from spanscore.model.json import Json
from spanscore.model.span import Attributes, Value
from spanscore.model.step import StepFact

PLAN = "spanscore.plan"
ANSWER = "spanscore.expected.answer"
TOOLS = "spanscore.expected.tools"
OUTCOMES = "spanscore.expected.outcomes"
IN_ORDER = "spanscore.expected.tool_sequence_matters"

AUTHORED = frozenset({PLAN, ANSWER, TOOLS, OUTCOMES, IN_ORDER})
"""The attributes that `authored` reads."""

_MAX_TOOLS = 100
_MAX_OUTCOMES = 50
_NAMES = ("name", "tool_name")
_PARAMETERS = ("arguments", "parameters")
"""As messages have them, and as a suite file has them."""


class _UnreadableError(Exception):
    """Part of an expectation is missing: compared with the rest, a turn could pass wrongly."""


def authored(attributes: Attributes) -> Facts:
    """The plan and the expectation that a span states, and which of the two arrived cut or
    redacted.
    """
    damaged: set[StepFact] = set()
    plan = _plan(attributes.get(PLAN))
    if plan is not None and is_cut_or_redacted(plan):
        plan = None
        damaged.add("plan")
    try:
        expected = _expected(attributes)
    except _UnreadableError:
        expected = None
        damaged.add("expected")
    return {"plan": plan, "expected": expected, "damaged": frozenset(damaged)}


def _plan(value: Value) -> str | None:
    """A plan as one text; steps that were given as an array are numbered."""
    if isinstance(value, list):
        steps = [x for x in value if isinstance(x, str) and x.strip()]
        return "\n".join(f"{number}. {x}" for number, x in enumerate(steps, 1)) or None
    return value if isinstance(value, str) and value.strip() else None


def _expected(attributes: Attributes) -> Expected | None:
    answer = text(attributes.get(ANSWER))
    if answer is not None and is_cut_or_redacted(answer):
        raise _UnreadableError
    in_order = attributes.get(IN_ORDER)
    found = Expected(
        answer=answer,
        tools=_tools(attributes.get(TOOLS)),
        outcomes=_outcomes(attributes.get(OUTCOMES)),
        in_order=in_order if isinstance(in_order, bool) else None,
    )
    return None if found == Expected(in_order=found.in_order) else found


def _tools(value: Value) -> tuple[ExpectedTool, ...] | None:
    """The calls that an array, or JSON text of one, lists: each a name, or an object with a name
    and arguments.
    """
    if value is None:
        return None
    listed = _list(value)
    if len(listed) > _MAX_TOOLS:
        raise _UnreadableError
    return tuple(map(_tool, listed))


def _tool(item: Any) -> ExpectedTool:
    stated = structure(item).value if isinstance(item, str) and item.startswith("{") else item
    if isinstance(stated, str) and stated:
        return ExpectedTool(stated)
    if not isinstance(stated, dict):
        raise _UnreadableError
    name = text(_first(stated, _NAMES))
    given = _first(stated, _PARAMETERS)
    parameters: Json = None if given is None else arguments(given)
    step = stated.get("step")
    if name is None or not isinstance(parameters, dict | None):
        raise _UnreadableError
    return ExpectedTool(name, parameters, step if type(step) is int and step >= 0 else None)


def _outcomes(value: Value) -> tuple[str, ...]:
    """The statements of an array, of JSON text of one, or of a text that is one statement."""
    if value is None or value == "":
        return ()
    found = [x for x in _list(value) if not isinstance(x, str) or x.strip()]
    stated = tuple(dict.fromkeys(x for x in found if isinstance(x, str)))
    if len(found) > _MAX_OUTCOMES or len(found) != len([x for x in found if isinstance(x, str)]):
        raise _UnreadableError
    if any(map(is_cut_or_redacted, stated)):
        raise _UnreadableError
    return stated


def _list(value: Value) -> list[Any]:
    """The elements of an array, or of JSON text of one; anything else is one element."""
    parsed, damaged = (
        structure(value) if isinstance(value, str) and value[:1] in {"[", "{"} else (value, False)
    )
    if damaged:
        raise _UnreadableError
    return parsed if isinstance(parsed, list) else [parsed]


def _first(stated: dict[str, Any], keys: tuple[str, ...]) -> Any:
    return next((stated[x] for x in keys if stated.get(x) is not None), None)
