"""Names that an application gives its spans, as the configuration states them."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from spanscore.model.span import Span
from spanscore.model.step import Part


@dataclass(frozen=True, slots=True)
class SpanNames:
    """What the section `assemble` of the configuration states about spans.

    `session_keys` are attributes that name a session; `utility_spans` and `agent_spans` are
    patterns of names of spans, for `parts`.
    """

    session_keys: tuple[str, ...] = ()
    utility_spans: tuple[str, ...] = ()
    agent_spans: tuple[str, ...] = ()

    def parts(self, spans: Iterable[Span]) -> dict[str, Part | None]:
        """The part that each span of a trace plays, by its id: that of the nearest span with a
        matching name, from the span itself upwards.
        """
        if not (self.utility_spans or self.agent_spans):
            return {}
        by_id = {span.span_id: span for span in spans}
        found: dict[str, Part | None] = {}
        for span in by_id.values():
            path, above = list[str](), by_id.get(span.span_id)
            while above is not None and above.span_id not in found:
                found[above.span_id] = self._part(above.name)
                path.append(above.span_id)
                if found[above.span_id] is not None:
                    break
                above = by_id.get(above.parent_span_id)
            part = None if above is None else found[above.span_id]
            found.update(dict.fromkeys(path, part))
        return found

    def _part(self, name: str) -> Part | None:
        if any(fnmatchcase(name, x) for x in self.agent_spans):
            return "agent"
        return "utility" if any(fnmatchcase(name, x) for x in self.utility_spans) else None


_configured: list[SpanNames] = [SpanNames()]


def configure(names: SpanNames) -> None:
    """Have all traces that this process reads from now on read by these names.

    They are those of the whole process, threads included: of two configurations, the one that was
    named last counts.
    """
    _configured[0] = names


def configured() -> SpanNames:
    """The names by which this process reads."""
    return _configured[0]
