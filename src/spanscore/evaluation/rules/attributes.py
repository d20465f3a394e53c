"""Which attributes of spans rules read: these alone are kept with an agent trace."""

from collections.abc import Iterable, Iterator

from spanscore.evaluation.rules.selector import Selector
from spanscore.model.tags import TAGS
from spanscore.model.trace import AgentTrace

STATUS = "otel.status_code"
"""The name under which OpenTelemetry writes a span's status where it has no field of its own."""

_ENVIRONMENT = "langfuse.environment"
_ENVIRONMENTS = ("deployment.environment.name", "deployment.environment")


def attribute_names(selectors: Iterable[Selector]) -> frozenset[str]:
    """The attributes of spans that these selectors read, and those with tags, which analytics reads
    too; `otel.status_code` stands for the span's status.
    """
    return frozenset(TAGS).union(*map(_names, selectors))


def _names(selector: Selector) -> Iterator[str]:
    yield from selector.attributes
    if selector.environment is not None:
        yield _ENVIRONMENT
    if selector.error is not None:
        yield STATUS
    inner = [*(selector.any_of or ()), *([selector.none_of] if selector.none_of else ())]
    for selector_within in inner:
        yield from _names(selector_within)


def environment(trace: AgentTrace) -> list[str]:
    """Where a trace's agent runs: one text, or none."""
    resource = trace.target.resource
    named = next(
        (x for key in _ENVIRONMENTS if isinstance(x := resource.get(key), str) and x), None
    )
    if named is not None:
        return [named]
    return [x for x in trace.attributes.get(_ENVIRONMENT, ()) if isinstance(x, str)]


def has_failed(trace: AgentTrace) -> bool:
    """Whether a tool call failed, or a span has the status error."""
    if "ERROR" in trace.attributes.get(STATUS, ()):
        return True
    return any(x.error is not None for x in trace.tool_calls or ())
