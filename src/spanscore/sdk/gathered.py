"""Emitted telemetry, gathered into traces."""

import itertools
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spanscore import dialects, received_scores
from spanscore.assemble.assembler import Assembler, Cut
from spanscore.assemble.config import Config
from spanscore.assemble.fragments import Fragment
from spanscore.export.wording import SCOPE_NAME
from spanscore.model.span import LogRecord, Span
from spanscore.rebuild import Received
from spanscore.telemetry import Meter, declared

_log = logging.getLogger(__name__)

MAX_BYTES: Final = 64 * 2**20
"""About how much memory gathered spans take at most. At the bound no new trace is taken in."""

_ITEM_BYTES: Final = 1500
"""About what a span takes beside its texts."""

_MAX_REFUSED: Final = 20_000
_SHORT: Final = 64
"""Characters of an attribute that may be the name of a convention, and not content."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A span that has ended. `is_local_root`: the span above it, if any, is of another process."""

    span: Span
    is_local_root: bool


@dataclass(slots=True)
class _Row:
    """What came of one trace at one time."""

    spans: list[Span] = field(default_factory=list)
    logs: list[LogRecord] = field(default_factory=list)
    size_bytes: int = 0


class Gathered:
    """The `completion.Spans` of a process. Belongs to one event loop, but for `load`."""

    def __init__(self, config: Config, meter: Meter, *, max_bytes: int = MAX_BYTES) -> None:
        self.assembler = Assembler(config, goes_on=dialects.goes_on)
        self._config = config
        self._meter = meter
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._numbers = itertools.count()
        self._rows: dict[int, _Row] = {}
        self._refused: OrderedDict[bytes, None] = OrderedDict()
        meter.watch(declared.TRACES_OPEN, lambda: self.assembler.open_traces)

    def add(
        self,
        ended: Iterable[Ended],
        logs: Iterable[LogRecord],
        now_ns: int,
        running: Callable[[str], Iterable[str]] = lambda _trace_id: (),
    ) -> None:
        """Take in spans that have ended, and log records.

        `running` gives the ids of the spans of a trace that have begun and not ended: it is not
        complete before.
        """
        rows: dict[bytes, tuple[Fragment, _Row]] = {}
        for one in ended:
            if one.span.scope.name != SCOPE_NAME:
                self._add_span(one, *self._row(rows, _unit(one.span, of_log=False)))
        for log in logs:
            if unit := _unit(log, of_log=True):
                fragment, row = self._row(rows, unit)
                row.logs.append(log)
                self._count(log, fragment, row)
        for trace_id, (fragment, row) in rows.items():
            fragment.size_bytes = row.size_bytes
            fragment.parents.update(bytes.fromhex(x) for x in running(trace_id.hex()))
            self._push(fragment, row, now_ns)
        self._release()

    def refuse(self, trace_id: str) -> None:
        """Some of a trace is lost: it is not scored, for it would be scored for what is not
        there.
        """
        unit = bytes.fromhex(trace_id)
        if unit not in self._refused:
            self._meter.add(declared.SDK_DROPPED_TRACES)
        self._refused[unit] = None
        self._refused.move_to_end(unit)
        while len(self._refused) > _MAX_REFUSED:
            self._refused.popitem(last=False)

    def cut(self, now_ns: int) -> list[Cut]:
        """The traces that are complete by now; those of which some is lost are let go."""
        whole = []
        for cut in self.assembler.cut(now_ns):
            if cut.key in self._refused:
                self.assembler.done(cut)
                continue
            if not cut.is_early:
                self._meter.add(declared.TRACES_CUT, completeness=cut.completeness)
            if cut.reopened:
                self._meter.add(declared.TRACES_REOPENED)
            whole.append(cut)
        self._release()
        return whole

    def accept(self, cut: Cut, now_ns: int) -> bool:
        """See `Assembler.accept`.

        False too where some of the trace is lost: it is let go when it is complete.
        """
        if cut.key in self._refused or not self.assembler.accept(cut, now_ns):
            return False
        self._meter.add(declared.TRACES_CUT, completeness=cut.completeness)
        return True

    def load(self, cut: Cut) -> Received:
        """The spans and log records of a trace that was cut. May be called from any thread."""
        rows = [row for number in cut.rows if (row := self._rows.get(number)) is not None]
        return [x for row in rows for x in row.spans], [x for row in rows for x in row.logs]

    def finish(self, cuts: Sequence[Cut], *, parts: Sequence[Cut] = ()) -> None:
        """These traces were dealt with; what late spans may still open stays a while."""
        del parts  # they are read again after a restart, and nothing of this outlives the process
        for cut in cuts:
            self.assembler.done(cut)
        self._release()

    def put_aside(self, cut: Cut, reason: str) -> None:
        """What cannot be scored is logged by whoever found that; nothing is kept of it."""

    def tidy(self) -> None:
        """Let go of what nothing needs."""
        self._release()

    def _row(self, rows: dict[bytes, tuple[Fragment, _Row]], unit: str) -> tuple[Fragment, _Row]:
        trace_id = bytes.fromhex(unit)
        found = rows.get(trace_id)
        if found is None:
            found = rows[trace_id] = Fragment(trace_id, next(self._numbers), genai=False), _Row()
        return found

    def _add_span(self, one: Ended, fragment: Fragment, row: _Row) -> None:
        span = one.span
        row.spans.append(span)
        self._count(span, fragment, row)
        fragment.span_ids.add(bytes.fromhex(span.span_id))
        if one.is_local_root:
            fragment.has_root = True
        else:
            fragment.parents.add(bytes.fromhex(span.parent_span_id))

    def _count(self, item: Span | LogRecord, fragment: Fragment, row: _Row) -> None:
        row.size_bytes += _size_bytes(item)
        fragment.items += 1
        fragment.genai = fragment.genai or shows_genai(item)

    def _push(self, fragment: Fragment, row: _Row, now_ns: int) -> None:
        if fragment.key in self._refused:
            self._meter.add(declared.SDK_DROPPED_ITEMS, fragment.items, reason="of_dropped_trace")
            return
        if not self._has_room(row.size_bytes):
            self._meter.add(declared.SDK_DROPPED_ITEMS, fragment.items, reason="memory")
            self.refuse(fragment.key.hex())
            return
        self._rows[fragment.row] = row
        self._size_bytes += row.size_bytes
        if not self.assembler.push(fragment, now_ns):
            self._drop(fragment.row)
            signal = "traces" if row.spans else "logs"
            self._meter.add(declared.TRACES_LATE_ITEMS, fragment.items, signal=signal)

    def _has_room(self, size_bytes: int) -> bool:
        """Whether there is room, if need be without what is kept for late spans only."""
        while self._size_bytes + size_bytes > self._max_bytes and self.assembler.forget_oldest():
            self._release()
        return self._size_bytes + size_bytes <= self._max_bytes

    def _release(self) -> None:
        for number in self.assembler.released():
            self._drop(number)

    def _drop(self, number: int) -> None:
        row = self._rows.pop(number, None)
        self._size_bytes -= row.size_bytes if row is not None else 0


def _unit(item: Span | LogRecord, *, of_log: bool) -> str:
    """The id of what an item is read together with: mostly its trace's."""
    if not item.scope.name.startswith(dialects.unit_scopes()):
        return item.trace_id
    scope = item.scope.name
    try:
        return dialects.unit_of(scope, item.trace_id, lambda: item.attributes, of_log=of_log)
    except Exception:  # noqa: BLE001 - one item must not stop all that come
        what = "%s: what an item belongs to cannot be read; it goes by its trace id"
        _log.warning(what, scope)
        return item.trace_id


def shows_genai(item: Span | LogRecord) -> bool:
    """Whether a dialect may read this: by the names in it, and the short texts, which may be
    names.
    """
    return dialects.shows_genai(_named(item))


def may_hold_scores(item: Span | LogRecord) -> bool:
    """Whether this may be a score that somebody else gave."""
    return received_scores.may_hold(_named(item))


def _named(item: Span | LogRecord) -> bytes:
    own = item.name if isinstance(item, Span) else item.event_name
    names = [item.scope.name, own, *item.attributes]
    names += [x for x in item.attributes.values() if isinstance(x, str) and len(x) <= _SHORT]
    if isinstance(item, Span):
        names += [name for event in item.events for name in (event.name, *event.attributes)]
    return "\n".join(names).encode("utf-8", "replace")


def _size_bytes(item: Span | LogRecord) -> int:
    values: list[Any] = [*item.attributes.values()]
    if isinstance(item, LogRecord):
        values.append(item.body)
    else:
        values += [x for event in item.events for x in event.attributes.values()]
    return _ITEM_BYTES + sum(len(x if isinstance(x, str | bytes) else str(x)) for x in values)
