"""`ScoringExporter`: spans leave with their scores."""

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from weakref import WeakSet

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from spanscore.export.config import Inline
from spanscore.model.score import Evaluation
from spanscore.model.span import Span
from spanscore.sdk.gathered import Ended, shows_genai
from spanscore.sdk.otel_spans import to_span

_log = logging.getLogger(__name__)

_REMEMBERED: Final = 20_000
"""Traces of which it is remembered that they show GenAI, what of them has left, and what their
scores are.
"""

_AT_SHUTDOWN_S: Final = 5.0
"""How long an exporter that is shut down waits for scores that are being stored."""

_exporters: "WeakSet[ScoringExporter]" = WeakSet()


class ScoringExporter(SpanExporter):
    """Sends spans on through another exporter: each at once, but for roots and agents, which wait
    for their scores.

    They wait while `spanscore.instrument(attach="attributes")` scores, for as long as
    `inline.max_delay` of its configuration at most, and of a trace that shows GenAI only. May be
    called from any thread; the exporter inside is called by one at a time.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        """`exporter` is where spans go in the end."""
        self._exporter = exporter
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._held: OrderedDict[tuple[str, str], _Waiting] = OrderedDict()
        self._genai: OrderedDict[str, None] = OrderedDict()
        _exporters.add(self)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans on, but for those that wait."""
        now_ns = time.time_ns()
        with self._lock:
            leaving = [x for span in spans if (x := self._taken(span, now_ns)) is not None]
            leaving += [x.span for x in self._pop(board.leave_overdue(self._held.values(), now_ns))]
        return self._send(leaving)

    def release(self, trace_id: str) -> None:
        """Send on what waits of a trace that was scored."""
        with self._lock:
            found = self._pop([x for x in self._held.values() if x.key[0] == trace_id])
        self._send([board.annotated(x.span, x.key) for x in found])

    def release_overdue(self) -> None:
        """Send on what has waited for as long as it may."""
        with self._lock:
            found = self._pop(board.leave_overdue(self._held.values(), time.time_ns()))
        self._send([x.span for x in found])

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Flush the exporter inside; what waits for a score goes on waiting."""
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Send on what waits, scored or not, and shut down the exporter inside."""
        with self._lock:
            waiting = list(self._held)
        board.wait_for_release(waiting, _AT_SHUTDOWN_S)
        with self._lock:
            left = self._pop(list(self._held.values()))
        self._send([board.annotated(x.span, x.key) for x in left])
        self._exporter.shutdown()

    @property
    def held(self) -> int:
        """How many spans wait."""
        return len(self._held)

    def _taken(self, span: ReadableSpan, now_ns: int) -> ReadableSpan | None:
        """The span as it leaves now; None where it waits."""
        if not board.is_open:
            return span
        with suppress(Exception):  # what cannot be read leaves as it is
            read = to_span(span)
            key = read.trace_id, read.span_id
            if shows_genai(read):
                _remember(self._genai, read.trace_id)
            if not is_candidate(span, read):
                return span
            if read.trace_id not in self._genai and board.leave(key):
                return span
            if board.is_scored(read.trace_id):
                return board.annotated(span, key)
            self._held[key] = _Waiting(key, span, now_ns)
            return None
        return span

    def _pop(self, waiting: Iterable["_Waiting"]) -> list["_Waiting"]:
        found = list(waiting)
        for waiting_span in found:
            del self._held[waiting_span.key]
        return found

    def _send(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if not spans:
            return SpanExportResult.SUCCESS
        with self._sending:
            return self._exporter.export(spans)

    def forked(self) -> None:
        """In the child of a fork: what waits is the parent's to send."""
        self._lock, self._sending = threading.Lock(), threading.Lock()
        self._held.clear()


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A span that waits for its scores, since a Unix time in ns."""

    key: tuple[str, str]
    span: ReadableSpan
    since_ns: int


class _Spot(NamedTuple):
    """A span that has not left yet, or not even come: its scores leave on it."""

    trace_id: str
    span_id: str


class Board:
    """What all exporters of the process know of traces: which spans may still get scores, and the
    scores of those.

    The `completion.HoldsBack` of the process. Thread-safe.
    """

    def __init__(self) -> None:
        self._config = Inline()
        self.is_open = False
        self.forked()

    def forked(self) -> None:
        """In the child of a fork: begin anew."""
        self._lock = threading.Lock()
        self._released = threading.Condition(self._lock)
        self._taken: set[tuple[str, str]] = set()
        self._ended: OrderedDict[str, set[str]] = OrderedDict()
        self._left: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._scored: OrderedDict[str, dict[str, list[Evaluation]]] = OrderedDict()
        for exporter in list(_exporters):
            exporter.forked()

    def open(self, config: Inline) -> None:
        """From now on spans wait, within these bounds."""
        self._config, self.is_open = config, True

    def close(self) -> None:
        """From now on no span waits, but for those whose scores are being stored."""
        self.is_open = False
        self.look()

    def give_up(self) -> None:
        """After `close`, where nothing is scored any more: what was taken will not be released, and
        leaves as it is.
        """
        with self._lock:
            self._taken.clear()
            self._released.notify_all()
        self.look()

    def ended(self, one: Ended) -> None:
        """A span has ended: if it may get scores, they leave on it."""
        if one.is_local_root or _is_agent(one.span):
            with self._lock:
                self._ended.setdefault(one.span.trace_id, set()).add(one.span.span_id)
                _trim(self._ended)

    def leave(self, key: tuple[str, str]) -> bool:
        """A span is about to leave without scores; False: it must not, since they are on their way
        to it.
        """
        with self._lock:
            if key in self._taken:
                return False
            _remember(self._left, key)
            return True

    def is_scored(self, trace_id: str) -> bool:
        """Whether a trace was scored, so that none of its spans has to wait."""
        with self._lock:
            return trace_id in self._scored

    def annotated(self, span: ReadableSpan, key: tuple[str, str]) -> ReadableSpan:
        """A span with its scores, if it has any."""
        with self._lock:
            # it stays: another exporter may send the span too
            scores = self._scored.get(key[0], {}).get(key[1])
            _remember(self._left, key)
        return _with_scores(span, scores) if scores else span

    def leave_overdue(self, waiting: Iterable[_Waiting], now_ns: int) -> list[_Waiting]:
        """Those that leave without scores, having waited for as long as they may, and the oldest of
        too many.
        """
        oldest_ns = now_ns - self._config.max_delay if self.is_open else now_ns
        with self._lock:
            every = [x for x in waiting if x.key not in self._taken]
            too_many = len(every) - self._config.max_held_roots
            placed = enumerate(every)
            leaving = [x for n, x in placed if x.since_ns <= oldest_ns or n < too_many]
            for left in leaving:
                _remember(self._left, left.key)
        return leaving

    def wait_for_release(self, keys: Iterable[tuple[str, str]], timeout_s: float) -> None:
        """Wait until none of these spans is taken, or the time is up."""
        with self._released:
            self._released.wait_for(lambda: self._taken.isdisjoint(keys), timeout_s)

    def take(self, trace_id: bytes) -> Sequence[_Spot]:
        """The spans of a trace whose scores can still leave on them: until `release` they leave no
        other way.
        """
        named = trace_id.hex()
        with self._lock:
            ids = self._ended.pop(named, set())
            spots = [_Spot(named, x) for x in ids]
            found = [x for x in spots if self.is_open and x not in self._left]
            self._taken.update(found)
            return found

    def release(
        self,
        held: Sequence[_Spot],
        evaluations: Iterable[Evaluation],
        left: Callable[[], None] = lambda: None,
    ) -> None:
        """Let spans leave with their scores; those that have not come yet get them when they
        come.
        """
        by_span: dict[str, list[Evaluation]] = {}
        for evaluation in evaluations:
            by_span.setdefault(evaluation.target.span_id, []).append(evaluation)
        traces = {x.trace_id for x in held}
        with self._lock:
            for trace_id in traces:
                found = {x.span_id: by_span[x.span_id] for x in held if x.span_id in by_span}
                self._scored.setdefault(trace_id, {}).update(found)
            _trim(self._scored)
            self._taken.difference_update(held)
            self._released.notify_all()
        for exporter in list(_exporters):
            for trace_id in traces:
                _guarded(exporter.release, trace_id)
        left()

    def look(self) -> None:
        """Let leave what has waited long enough."""
        for exporter in list(_exporters):
            _guarded(exporter.release_overdue)


board = Board()
"""The process's one."""

if hasattr(os, "register_at_fork"):
    # whether or not anything is scored: a lock may have been held
    os.register_at_fork(after_in_child=board.forked)


def exporters() -> list[ScoringExporter]:
    """Those that there are in this process."""
    return list(_exporters)


def is_candidate(span: ReadableSpan, read: Span) -> bool:
    """Whether a span may get scores: the root of what this process has of a trace, or an agent."""
    is_local_root = span.parent is None or span.parent.is_remote
    return is_local_root or _is_agent(read)


def _is_agent(span: Span) -> bool:
    from spanscore import dialects  # noqa: PLC0415 - not before spans are there

    return shows_genai(span) and any(step.kind == "agent" for step in dialects.read([span]).steps)


def _with_scores(span: ReadableSpan, scores: Sequence[Evaluation]) -> ReadableSpan:
    from spanscore.export.wording import scored  # noqa: PLC0415 - likewise

    attributes: dict[str, Any] = dict(span.attributes or {})
    return ReadableSpan(
        span.name,
        span.context,
        span.parent,
        span.resource,
        {**attributes, **scored(scores, attributes)},
        span.events,
        span.links,
        span.kind,
        None,
        span.status,
        span.start_time,
        span.end_time,
        span.instrumentation_scope,
    )


def _guarded(release: Callable[..., None], *arguments: Any) -> None:
    try:
        release(*arguments)
    except Exception:  # noqa: BLE001 - one exporter must not stop the others, nor the scoring
        _log.exception("an exporter failed at spans that had waited for their scores")


def _remember(known: OrderedDict[Any, None], key: object) -> None:
    known[key] = None
    _trim(known)


def _trim(known: OrderedDict[Any, Any]) -> None:
    while len(known) > _REMEMBERED:
        known.popitem(last=False)
