"""Arguments match schema: do they fit the tool's schema?"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from spanscore.metrics._schema import MAX_SCHEMA_VALUES, Steps, TooLargeError, size, violations
from spanscore.metrics.check._check import (
    MAX_FINDINGS,
    Check,
    Evidence,
    Finding,
    not_applicable,
    not_recorded,
)
from spanscore.model.json import hides_values
from spanscore.model.score import Skip
from spanscore.model.tool_names import bare
from spanscore.model.trace import ToolCall


@dataclass(frozen=True)
class ArgumentsMatchSchema(Check):
    """Whether the arguments of each call fit the JSON schema of its tool, where the trace holds
    that.

    Looked at are types, enums, required and unknown parameters, bounds and counts, through
    composition and local references; not patterns and formats. A missing parameter that has a
    default and a null for one that may be left out are no fault, at any depth. Nor, where the call
    did not fail, is what frameworks take for the same: "5" for 5, "true" for true, 5 for "5", and
    JSON text for an object or a list. Where a schema is so large that not all calls can be checked
    in a bounded time, and no fault is found until then, the check is skipped.

    >>> ArgumentsMatchSchema.weighs
    ('available_tools',)
    """

    name: ClassVar[str] = "check.arguments_match_schema"
    summary: ClassVar[str] = "Do the arguments of each call fit the tool's schema?"
    needs: ClassVar[tuple[str, ...]] = ("tool_calls",)
    weighs: ClassVar[tuple[str, ...]] = ("available_tools",)
    fine: ClassVar[str] = "The arguments of each call fit the tool's schema."

    def look(self, evidence: Evidence) -> Iterable[Finding] | Skip:
        """See `Check.look`."""
        if not evidence.calls:
            return not_applicable("No tool was called.")
        schemas = _schemas(evidence)
        known = [
            (i, x)
            for i, x in enumerate(evidence.calls)
            if bare(x.name) in schemas and x.arguments is not None and not hides_values(x.arguments)
        ]
        if not known:
            return not_recorded("the schema and the arguments of any tool that was called")
        called = {bare(x.name) for _, x in known}
        too_large = {name for name in called if _is_too_large(schemas[name])}
        findings: list[Finding] = []
        try:
            checked = [(i, x) for i, x in known if bare(x.name) not in too_large]
            findings.extend(islice(_broken(checked, schemas), MAX_FINDINGS))
        except TooLargeError:
            too_large = called
        if too_large and not findings:
            return Skip(
                "The schema of a tool that was called is too large to check all arguments by it."
            )
        return findings


def _schemas(evidence: Evidence) -> dict[str, dict[str, Any]]:
    """By its name the schema of the arguments of each tool on offer that has one."""
    return {
        bare(x.name): x.parameters for x in evidence.offered or () if isinstance(x.parameters, dict)
    }


def _is_too_large(schema: Any) -> bool:
    return size(schema, MAX_SCHEMA_VALUES + 1) > MAX_SCHEMA_VALUES


def _broken(calls: list[tuple[int, ToolCall]], schemas: dict[str, Any]) -> Iterator[Finding]:
    """What one budget suffices to find.

    Raises TooLargeError where it does not suffice for all calls.
    """
    steps = Steps()
    for place, call in calls:
        schema = schemas[bare(call.name)]
        converts = call.error is None
        for text in violations(call.arguments, schema, steps, fills_in=True, converts=converts):
            yield Finding.of_call(place, call, text, _argument(text))


def _argument(violation: str) -> str | None:
    """The argument that a violation names, which stands first in it, in quotes."""
    quoted = violation.removeprefix("the length of ")
    return quoted[1:].partition("'")[0] if quoted.startswith("'") else None
