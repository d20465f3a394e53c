"""The tags of a trace: where instrumentations write them, and what they are."""

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
"""The attributes of spans in which instrumentations write the tags of a trace: these are kept with
every agent trace.
"""


def tags_of(trace: AgentTrace) -> list[str]:
    """The tags of a trace. Some senders write them as one text: JSON, or with commas."""
    if not trace.attributes:
        return []
    found: list[str] = []
    for name in TAGS:
        for value in trace.attributes.get(name, ()):
            found += _listed(value, name) if isinstance(value, str) else [str(value)]
    return found


def _listed(text: str, name: str) -> list[str]:
    if text.startswith("["):
        try:
            items = loads(text)
        except ValueError:
            items = None
        if isinstance(items, list):
            return [x for x in items if isinstance(x, str)]
    return [x.strip() for x in text.split(",")] if name == _WITH_COMMAS else [text]
