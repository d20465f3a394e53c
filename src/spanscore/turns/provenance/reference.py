"""The order of the sources of each fact as a section of the documentation."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spanscore.turns.calls import call_facts
from spanscore.turns.facts import usage
from spanscore.turns.facts.available_tools import DESCRIBED, OFFERED
from spanscore.turns.facts.source import Source
from spanscore.turns.facts.sources import SOURCES


def reference() -> str:
    """The tables of facts and their sources, in Markdown."""
    gathered = {
        "`available_tools`": [*OFFERED, *DESCRIBED],
        "`usage`": usage.SOURCES,
    }
    lines = [
        "| fact | its sources: the first that records it counts |",
        "|---|---|",
        *_rows(SOURCES),
        "",
        "| fact | gathered from many steps |",
        "|---|---|",
        *(f"| {name} | {_numbered(sources)} |" for name, sources in gathered.items()),
        "",
        "| of a tool call | its sources: the first that records it counts |",
        "|---|---|",
        *_rows(call_facts.CALL_SOURCES),
    ]
    return "\n".join(lines)


def _rows(facts: Mapping[str, Sequence[Source[Any, Any]]]) -> Iterator[str]:
    return (f"| `{name}` | {_numbered(sources)} |" for name, sources in facts.items())


def _numbered(sources: Sequence[Source[Any, Any]]) -> str:
    if len(sources) == 1:
        return sources[0].words
    return "<br>".join(
        f"{number}. {source.words}" for number, source in enumerate(sources, start=1)
    )
