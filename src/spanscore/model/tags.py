"""The tags of a trace: where instrumentations write them, and what they are."""

from spanscore.model.json import dumps, loads
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

MAX_TAGS = 32
"""Tags of a trace that are kept."""

MAX_TEXT_CHARS = 65_536
"""Of a text that lists tags, what is read."""


def tags_of(trace: AgentTrace) -> list[str]:
    """The tags of a trace. Some senders write them as one text: JSON, or with commas."""
    if not trace.attributes:
        return []
    found: list[str] = []
    for name in TAGS:
        for value in trace.attributes.get(name, ()):
            found += _listed(value, name) if isinstance(value, str) else [str(value)]
    return found


def shortened(text: str, name: str, max_chars: int) -> list[str]:
    """What is kept of a text of the attribute `name`, one of `TAGS`: the text, or of one with more
    than `max_chars` the first tags that it lists, each cut to as many.

    A tag that is cut off at the end of a list is left out, and so are those of JSON that does not
    parse.
    """
    if len(text) <= max_chars:
        return [text]
    if text.startswith("["):
        is_read = len(text) <= MAX_TEXT_CHARS and _is_list(text)
        tags = _listed(text, name) if is_read else []
    else:
        tags = _listed(text[:MAX_TEXT_CHARS], name)
        if len(text) > MAX_TEXT_CHARS and len(tags) > 1:
            tags.pop()
    return [_as_one(x[:max_chars], name) for x in tags[:MAX_TAGS]]


def _is_list(text: str) -> bool:
    try:
        return isinstance(loads(text), list)
    except ValueError:
        return False


def _as_one(tag: str, name: str) -> str:
    """A text that lists this tag alone."""
    return tag if _listed(tag, name) == [tag] else dumps([tag])


def _listed(text: str, name: str) -> list[str]:
    if text.startswith("["):
        try:
            items = loads(text)
        except ValueError:
            items = None
        if isinstance(items, list):
            return [x for x in items if isinstance(x, str)]
    return [x.strip() for x in text.split(",")] if name == _WITH_COMMAS else [text]
