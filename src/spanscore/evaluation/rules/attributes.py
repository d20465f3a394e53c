"""Which attributes of spans rules read: these alone are kept with an agent trace."""

from collections.abc import Iterable, Iterator

from spanscore.evaluation.rules.selector import Selector
from spanscore.model.json import loads
from spanscore.model.trace import AgentTrace

_WITH_COMMAS = "langsmith.span.tags"

TAGS = (
    "tag.tags",  # OpenInference
    "langfuse.trace.tags",
    _WITH_COMMAS,
    "logfire.tags",
    "traceloop.association.properties.tags",
    "lmnr.association.properties.tags",
    "braintrust.tags",
    "opik.tags",
    "confident.trace.tags",  # DeepEval
)
"""Where instrumentations write the tags of a trace."""

STATUS = "otel.status_code"
"""The name under which OpenTelemetry writes a span's status where it has no field of its own."""

_ENVIRONMENT = "langfuse.environment"
_ENVIRONMENTS = ("deployment.environment.name", "deployment.environment")


def attribute_names(selectors: Iterable[Selector]) -> frozenset[str]:
    """The attributes of spans that these selectors read; `otel.status_code` stands for the span's
    status.
    """
    return frozenset(name for selector in selectors for name in _names(selector))


def uses_frequency(selectors: Iterable[Selector]) -> bool:
    """Whether one of these selectors has a condition on the frequency."""
    return any(
        x.frequency is not None
        or uses_frequency(x.any_of or ())
        or (x.none_of is not None and uses_frequency([x.none_of]))
        for x in selectors
    )


def _names(selector: Selector) -> Iterator[str]:
    yield from selector.attributes
    if selector.tags is not None:
        yield from TAGS
    if selector.environment is not None:
        yield _ENVIRONMENT
    if selector.error is not None:
        yield STATUS
    inner = [*(selector.any_of or ()), *([selector.none_of] if selector.none_of else ())]
    yield from attribute_names(inner)


def tags(trace: AgentTrace) -> list[str]:
    """The tags of a trace. Some senders write them as one text: JSON, or with commas."""
    found: list[str] = []
    for name in TAGS:
        for value in trace.attributes.get(name, ()):
            found += _listed(value, name) if isinstance(value, str) else [str(value)]
    return found


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


def _listed(text: str, name: str) -> list[str]:
    if text.startswith("["):
        try:
            items = loads(text)
        except ValueError:
            items = None
        if isinstance(items, list):
            return [x for x in items if isinstance(x, str)]
    return [x.strip() for x in text.split(",")] if name == _WITH_COMMAS else [text]
