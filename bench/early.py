"""How often a trace is whole that shows that nothing of it is missing, so that it may be scored at
once.

On the recordings in tests/golden. The spans, and the log records, of each process are sent by an
exporter of their own; of each trace those spans are taken to come first that the outermost span is
sent with, and all others too late. Run: .venv/bin/python bench/early.py
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spanscore.model.span import LogRecord, Span
from spanscore.otlp import files
from spanscore.rebuild import RebuiltTrace, rebuild_trace, unit_of
from spanscore.turns import Stitching, shows_whole

GOLDEN = Path(__file__).parent.parent / "tests/golden"


@dataclass
class Sent:
    """The spans and log records of one trace, by the process that sent them."""

    spans: defaultdict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    logs: defaultdict[str, list[LogRecord]] = field(default_factory=lambda: defaultdict(list))

    @property
    def exporters(self) -> int:
        return len(self.spans) + len(self.logs)

    @property
    def all_spans(self) -> list[Span]:
        return [span for group in self.spans.values() for span in group]

    @property
    def all_logs(self) -> list[LogRecord]:
        return [log for group in self.logs.values() for log in group]

    @property
    def first_spans(self) -> list[Span]:
        """Those that come with the outermost span that ends last."""
        roots = [span for span in self.all_spans if not span.parent_span_id]
        outermost = max(roots, key=lambda span: span.end_ns, default=None)
        return next((group for group in self.spans.values() if outermost in group), [])


def sent_traces() -> Iterator[tuple[str, Sent]]:
    """Each trace of each recording, with the recording's name."""
    for folder in sorted(x for x in GOLDEN.glob("*/*") if x.is_dir()):
        telemetry = files.load(sorted(folder.glob("*.pb.gz")))
        traces: defaultdict[str, Sent] = defaultdict(Sent)
        for span in telemetry.spans:
            traces[unit_of(span, of_log=False)].spans[repr(span.resource)].append(span)
        for log in telemetry.logs:
            if unit := unit_of(log, of_log=True):
                traces[unit].logs[repr(log.resource)].append(log)
        for sent in traces.values():
            yield f"{folder.parent.name}/{folder.name}", sent


def is_scored_early(spans: Sequence[Span], rebuilt: RebuiltTrace) -> bool:
    """Whether the server would score a trace of these spans after `assemble.whole_after`."""
    ids = {span.span_id for span in spans}
    has_root = any(not span.parent_span_id for span in spans)
    has_parents = all(not span.parent_span_id or span.parent_span_id in ids for span in spans)
    return (
        has_root
        and has_parents
        and rebuilt.fragment(Stitching()) is None
        and shows_whole(rebuilt.traces)
    )


def main() -> None:
    counts: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    for name, sent in sent_traces():
        whole = rebuild_trace(sent.all_spans, sent.all_logs)
        if not whole.traces:
            continue
        counts["traces"] += 1
        counts["are scored early where all of it is there"] += is_scored_early(
            sent.all_spans, whole
        )
        early = rebuild_trace(sent.first_spans)
        if sent.exporters > 1 and is_scored_early(sent.first_spans, early):
            counts["are scored early without what other exporters send"] += 1
            changed[name] += early.traces != whole.traces
    counts["of these have other facts in the end"] = changed.total()
    for what, number in counts.items():
        print(f"{number:5} {what}")
    print("      in", ", ".join(f"{name} ({number})" for name, number in changed.items() if number))


if __name__ == "__main__":
    main()
