"""Ticks of monitors, and what these make of scores."""

import asyncio
import hashlib
import logging
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from spanscore import monitoring
from spanscore.control.item_lists import Targeted
from spanscore.control.runs import Runs
from spanscore.errors import InputError, PermanentError, RetryableError, StateError
from spanscore.model.json import dumps
from spanscore.model.score import Evaluation
from spanscore.monitoring import Origin, Watch, moment
from spanscore.specs import MonitorRun, MonitorSpec
from spanscore.store.monitor_tables import (
    Advanced,
    Look,
    MonitorTables,
    NewAlert,
    SettledSession,
    StoredMonitor,
    Tick,
    TickCause,
    last_seq,
)
from spanscore.store.monitors import MonitorStore
from spanscore.store.runs import Run, RunTables
from spanscore.telemetry import Meter, declared

_log = logging.getLogger(__name__)

_COUNTED = {"running": "run_started"} | {x: x for x in ("queued", "skipped", "failed")}

MAX_QUEUED = 10
"""Ticks of one monitor that wait for the end of a run; what is due beyond is skipped."""

_MAX_REASON_CHARS = 1000

Key: TypeAlias = tuple[str, str]
_Start: TypeAlias = Callable[[RunTables, "tuple[int, int] | None"], Run]


@dataclass(frozen=True, slots=True)
class Known:
    """A monitor, and as what it is kept."""

    tenant: str
    id: str
    spec: MonitorSpec
    is_paused: bool
    stored: StoredMonitor

    @property
    def key(self) -> Key:
        """What there is one of."""
        return self.tenant, self.id


@dataclass(slots=True)
class _Starting:
    """A run that may be started in a transaction, and what came of that."""

    run: MonitorRun
    start: _Start
    measured: str
    named: str = ""
    cancelled: str | None = None


@dataclass(eq=False)
class Ticking:
    """Makes ticks. Belongs to one event loop; the store is asked in threads."""

    store: MonitorStore
    runs: Runs
    receivers: tuple[str, ...]
    """Those that alerts go to."""
    meter: Meter
    clock_ns: Callable[[], int]
    refuses_uncertified: bool
    """No pass rate rests on verdicts of a judge without a certificate."""

    async def tick(
        self,
        known: Known,
        due_ns: int,
        now_ns: int,
        cause: TickCause,
        request_id: str | None = None,
    ) -> Tick | None:
        """Make the tick of `due_ns`; None where it was made, or the monitor is gone, paused, or
        changed since it was read.

        A tick that cannot be made is kept as failed, with the reason. Raises RetryableError where
        the store cannot be used now.
        """
        tick = Tick(known.tenant, known.id, due_ns, now_ns, request_id=request_id, cause=cause)
        made: Tick | None = None
        try:
            if known.spec.run is not None:
                made = await self._tick_run(known, known.spec.run, tick)
            elif known.spec.watch is not None:
                made = await asyncio.to_thread(self._look, known, known.spec.watch, tick)
        except RetryableError:
            raise
        except Exception as error:  # noqa: BLE001 - a metric that is a plugin may raise anything
            report(known.tenant, known.id, error)
            made = await self._add(known, tick, "failed", f"it cannot tick: {_reason(error)}")
        if made is not None:
            self.meter.add(declared.MONITOR_TICKS, outcome=_COUNTED.get(made.outcome, "looked"))
        return made

    async def follow_up(self, monitors: Mapping[Key, Known]) -> None:
        """Look at the scores of runs that have ended, and start those that had to wait for it.

        A tick that cannot be followed ends as failed, with the reason, and holds up no other one.
        Raises RetryableError where the store cannot be used now.
        """
        for tick in await asyncio.to_thread(self.store.read, MonitorTables.open_ticks):
            known = monitors.get((tick.tenant, tick.monitor))
            try:
                await self._follow(known, tick)
            except RetryableError:
                raise
            except Exception as error:  # noqa: BLE001 - the other monitors do not depend on this one
                report(tick.tenant, tick.monitor, error)
                await self._give_up(tick, f"it cannot be followed: {_reason(error)}")

    async def _follow(self, known: Known | None, tick: Tick) -> None:
        if known is None or known.spec.run is None:
            await self._end(tick, "failed", "the monitor starts no runs any more")
        elif tick.outcome == "running":
            await self._follow_run(known, tick)
        elif not known.is_paused:
            await self._start_queued(known, known.spec.run, tick)

    async def _give_up(self, tick: Tick, reason: str) -> None:
        try:
            await self._end(tick, "failed", reason)
        except PermanentError as error:
            report(tick.tenant, tick.monitor, error)
        else:
            self.meter.add(declared.MONITOR_TICKS, outcome="failed")

    async def _add(self, known: Known, tick: Tick, outcome: str, reason: str) -> Tick | None:
        """Keep a tick that starts no run; None as of `tick`."""
        made = tick.ended(outcome, tick.looked_ns, reason)

        def add(tables: MonitorTables) -> Tick | None:
            stored = tables.ticking(made, known.stored.revision)
            return made if stored is not None and tables.add_tick(made) else None

        return await asyncio.to_thread(self.store.write, add)

    async def _tick_run(self, known: Known, run: MonitorRun, tick: Tick) -> Tick | None:
        try:
            starting = await self._starting(known, run, tick)
            is_unchanged = (
                run.only_if_changed
                and tick.cause != "manual"
                and not await self._has_changed(known, starting)
            )
        except InputError as error:  # the configuration has changed since the monitor was created
            return await self._add(known, tick, "failed", f"no run can be started: {error}")
        if is_unchanged:
            reason = "nothing has changed since the run before"
            return await self._add(known, tick, "skipped", reason)

        def make(tables: MonitorTables) -> Tick | None:
            stored = tables.ticking(tick, known.stored.revision)
            if stored is None or not tables.add_tick(tick):
                return None
            made = self._decided(tables, stored, tick, starting)
            tables.change_tick(made)
            return made

        made = await asyncio.to_thread(self.store.write, make)
        self._apply(starting)
        return made

    def _decided(
        self, tables: MonitorTables, stored: StoredMonitor, tick: Tick, starting: _Starting
    ) -> Tick:
        """The tick as its monitor's policy has it: with its run, or waiting, or skipped."""
        opened = tables.open_ticks_of(tick.tenant, tick.monitor)
        waiting = sum(x.outcome == "queued" for x in opened)
        going = _going(tables, stored)
        if going is None and not waiting:
            return self._started(tables, stored, tick, starting)
        before = (
            "the run before waits" if going is None else f"run {going.id} was still {going.state}"
        )
        overlap = starting.run.overlap
        if overlap == "cancel_previous" and going is not None:
            reason = f"run {going.id} was still {going.state}, and was cancelled"
            # the new run is also about what that one was about
            stored = replace(stored, until_row=stored.from_row)
            made = self._started(tables, stored, replace(tick, reason=reason), starting)
            if made.outcome == "running":
                tables.runs.change(going.id, tick.looked_ns, partial(_cancelled, tick=tick))
                starting.cancelled = going.id
            return made
        if overlap == "queue" and waiting < MAX_QUEUED:
            return replace(tick, outcome="queued", reason=before)
        more = f", and {waiting} ticks wait for its end" if waiting else ""
        return tick.ended("skipped", tick.looked_ns, f"{before}{more}")

    def _started(
        self, tables: MonitorTables, stored: StoredMonitor, tick: Tick, starting: _Starting
    ) -> Tick:
        """The tick with its run, which is kept in the same transaction."""
        run = starting.run
        until = max(tables.last_row, stored.until_row)
        after = stored.until_row
        if run.look_back is not None:
            after = tables.row_before(self.clock_ns() - run.look_back)
        is_all = run.everything or run.names_ids or run.target.source is not None
        try:
            begun = starting.start(tables.runs, None if is_all else (after, until))
        except StateError as error:  # too many runs wait
            return tick.ended("skipped", tick.looked_ns, str(error))
        stored = replace(stored, last_run=begun.id, from_row=stored.until_row, until_row=until)
        tables.change(replace(stored, measured=starting.measured, named=starting.named))
        read_seq = last_seq(tables.connection)
        return replace(tick, outcome="running", run=begun.id, read_seq=read_seq)

    async def _start_queued(self, known: Known, run: MonitorRun, tick: Tick) -> None:
        try:
            starting = await self._starting(known, run, tick)
        except InputError as error:
            await self._end(tick, "failed", f"no run can be started: {error}")
            return

        def start(tables: MonitorTables) -> None:
            stored = tables.get(known.tenant, known.id)
            first = next(iter(tables.open_ticks_of(tick.tenant, tick.monitor)), None)
            if stored is None or stored.revision != known.stored.revision:
                return
            if first != tick or _going(tables, stored) is not None:
                return
            tables.change_tick(self._started(tables, stored, tick, starting))

        await asyncio.to_thread(self.store.write, start)
        self._apply(starting)

    async def _follow_run(self, known: Known, tick: Tick) -> None:
        """Look at the scores of a tick's run, where that has ended."""
        run_id = tick.run or ""
        run = await asyncio.to_thread(self.store.read, lambda x: x.runs.get(tick.tenant, run_id))
        if run is None:
            await self._end(tick, "failed", f"run {run_id} was deleted")
        elif run.state == "CANCELLED":
            reason = run.progress.reason or f"run {run_id} was cancelled"
            await self._end(tick, "cancelled", reason)
        elif _has_failed(run):
            await self._end(tick, "failed", f"run {run_id} failed: {run.progress.reason}")
        elif run.is_ended and known.spec.watch is not None:
            await asyncio.to_thread(self._assess, known, known.spec.watch, tick, run)
        elif run.is_ended:
            await self._end(tick, "done", run.progress.reason)

    def _look(self, known: Known, watched: Watch, tick: Tick) -> Tick | None:
        look = self._look_of(known, watched, None, tick.looked_ns)
        return self.store.look(tick, watched.settle_after, look)

    def _assess(self, known: Known, watched: Watch, tick: Tick, run: Run) -> None:
        now_ns = self.clock_ns()
        look = self._look_of(known, watched, run.id, now_ns)
        self.store.assess(tick, now_ns, look, run.progress.reason)

    def _look_of(self, known: Known, watched: Watch, run: str | None, now_ns: int) -> Look:
        taking = Taking(watched, run, self.refuses_uncertified)

        origin = Origin(known.id, known.tenant, run)
        advance = partial(_advanced, origin, taking, self.receivers, now_ns)
        digest = digest_of_watch(watched, of_runs=run is not None)
        by = (digest, advance, known.stored.revision)
        return Look(watched.metric, watched.scope, taking, *by, run or "")

    async def _end(self, tick: Tick, outcome: str, reason: str | None) -> None:
        def end(tables: MonitorTables) -> None:
            found = tables.tick(tick.tenant, tick.monitor, tick.due_ns)
            if found is not None and found.outcome == tick.outcome:
                tables.change_tick(found.ended(outcome, self.clock_ns(), reason))

        await asyncio.to_thread(self.store.write, end)

    async def _starting(self, known: Known, run: MonitorRun, tick: Tick) -> _Starting:
        """Raises InputError where no such run can be."""
        spec = run.run_spec(f"{known.id} {moment(tick.due_ns)}", self.clock_ns())
        of_any, named = run.run_spec(""), ""
        start, measured = self.runs.starting(known.tenant, spec), self.runs.measurers.digest(of_any)
        if run.only_if_changed and run.target.where:  # what it is about depends on scores
            targeted = Targeted(self.runs.store, known.tenant, run.target)
            named = await asyncio.to_thread(targeted.digest)
        return _Starting(run, start, measured, named)

    async def _has_changed(self, known: Known, starting: _Starting) -> bool:
        """Whether anything has changed since the last run: what it evaluates, by what, or that it
        did not succeed.
        """

        def read(tables: MonitorTables) -> tuple[StoredMonitor | None, Run | None]:
            stored = tables.get(known.tenant, known.id)
            return stored, None if stored is None else _last_run(tables, stored)

        stored, last = await asyncio.to_thread(self.store.read, read)
        if stored is None or last is None:
            return True
        if (stored.measured, stored.named) != (starting.measured, starting.named):
            return True
        if last.state == "CANCELLED" or _has_failed(last):
            return True
        targeted = Targeted(self.runs.store, known.tenant, starting.run.run_spec("").target)
        return await asyncio.to_thread(targeted.has_newer, stored.until_row)

    def _apply(self, starting: _Starting) -> None:
        """Have the runs go on as was written."""
        if starting.cancelled is not None:
            self.runs.end(starting.cancelled, grace_s=0.0)
        self.runs.look_again()


def _has_failed(run: Run) -> bool:
    """Whether a run failed, but for one that had nothing to score: a quiet hour is no fault."""
    return run.state == "FAILED" and not run.progress.had_no_occasion


def _going(tables: MonitorTables, stored: StoredMonitor) -> Run | None:
    """The last run of a monitor, where it has not ended."""
    run = _last_run(tables, stored)
    return None if run is None or run.is_ended else run


def _last_run(tables: MonitorTables, stored: StoredMonitor) -> Run | None:
    return None if stored.last_run is None else tables.runs.get(stored.tenant, stored.last_run)


def _cancelled(run: Run, tick: Tick) -> Run:
    reason = f"cancelled at the next tick of monitor {tick.monitor}"
    return run.noting("CANCELLED", ended_ns=tick.looked_ns, reason=reason)


def report(tenant: str, monitor: str, error: Exception) -> None:
    """Log why a monitor cannot do its work."""
    of = f" of tenant {tenant}" if tenant else ""
    is_bug = not isinstance(error, PermanentError)
    _log.error("monitor %s%s: %s", monitor, of, _reason(error), exc_info=is_bug)


def _reason(error: Exception) -> str:
    reason = str(error) if isinstance(error, PermanentError) else f"{type(error).__name__}: {error}"
    return reason[:_MAX_REASON_CHARS]


_BASIS = {"metric", "scope", "of", "service", "agent", "floor", "reference", "alpha", "heaviest"}
"""What a monitor's state follows from; where one is changed it begins anew."""


def _advanced(
    origin: Origin,
    taking: "Taking",
    receivers: Iterable[str],
    now_ns: int,
    findings: dict[str, Any] | None,
    is_same: bool,
    sessions: Sequence[SettledSession],
) -> Advanced:
    """The state after these sessions too, with an alert for each of the `receivers` where one
    begins or ends.

    `is_same`: the `findings` so far follow from the same settings.
    """
    watched, known, records = taking.watched, findings or {}, []
    if is_same:
        state = monitoring.State.from_json(known["state"])
    else:
        state = monitoring.start_watch(watched)
        records += _end_of(known, "its monitor was changed", now_ns)
    # where no score came since, as before
    certified = known.get("certified") if taking.certified is None else taking.certified
    origin = replace(origin, certified=certified)
    began_ns, number, alert = known.get("began_ns", 0), known.get("number", 0), known.get("alert")
    units = [unit_of(x) for x in sessions]
    state, changes = monitoring.advance(watched, state, units)
    for change in changes:
        if change.status == "firing":
            began_ns, number = now_ns, number + 1
        alert = monitoring.alert_record(
            origin, watched, change, number=number, began_ns=began_ns, now_ns=now_ns
        )
        _log.log(
            logging.WARNING if change.status == "firing" else logging.INFO, "%s", alert["summary"]
        )
        records.append(alert)
    outcome = changes[-1].status if changes else state.phase if units else "unchanged"
    record = {"state": state.to_json(), "began_ns": began_ns, "number": number, "alert": alert}
    return Advanced(record | {"certified": certified}, outcome, _to_all(receivers, records))


def ends(stored: StoredMonitor, receivers: Iterable[str], why: str, now_ns: int) -> list[NewAlert]:
    """What is still to be sent of a monitor that ends: the end of its alert, where one is
    firing.
    """
    return _to_all(receivers, _end_of(stored.findings or {}, why, now_ns))


@dataclass(slots=True)
class Taking:
    """Takes values from scores as `value_of`; `certified` is whether the judge of the last pass or
    fail was, None where that is not recorded.
    """

    watched: Watch
    run: str | None
    refuses_uncertified: bool
    certified: bool | None = None

    def __call__(self, evaluation: Evaluation) -> float | None:
        """The value of a score; None where it is left out."""
        value = value_of(self.watched, evaluation, self.run)
        if value is None or self.watched.of != "pass_rate":
            return value
        self.certified = evaluation.evaluator.certified
        return None if self.certified is False and self.refuses_uncertified else value


def value_of(watched: Watch, evaluation: Evaluation, run: str | None = None) -> float | None:
    """What a monitor takes from a score, on the scale 0..1; None where it leaves it out.

    Left out are other services and agents, scores of other evaluation runs than `run`, skips and
    failures, and for a pass rate what neither passes nor fails.
    """
    if evaluation.run != run:
        return None
    if watched.service not in {None, evaluation.service_name}:
        return None
    if watched.agent not in {None, evaluation.agent_name}:
        return None
    if watched.of == "pass_rate":
        return None if evaluation.passed is None else float(evaluation.passed)
    if evaluation.value is None:
        return None
    low, high = evaluation.scale or (0.0, 1.0)
    return min(1.0, max(0.0, (evaluation.value - low) / (high - low)))


def unit_of(session: SettledSession) -> monitoring.Unit:
    """A session as one unit: the mean of its scores, each by the inverse of the chance with which
    it was drawn.
    """
    weights = [1 / max(x, 1e-9) for x in session.chances]
    total = sum(weights)
    mean = sum(map(operator.mul, session.values, weights)) / total
    return monitoring.Unit(min(1.0, max(0.0, mean)), total)


def digest_of_watch(watched: Watch, *, of_runs: bool) -> str:
    """Of the settings that a monitor's state follows from; `of_runs`: its scores are those of runs
    that it starts.
    """
    settings = watched.model_dump(mode="json", include=_BASIS)
    if of_runs:
        settings["of_runs"] = True
    return hashlib.sha256(dumps(settings).encode()).hexdigest()


def _end_of(known: dict[str, Any], why: str, now_ns: int) -> list[dict[str, Any]]:
    alert = known.get("alert") or {}
    is_firing = alert.get("status") == "firing"
    return [monitoring.ended_alert(alert, why, now_ns)] if is_firing else []


def _to_all(receivers: Iterable[str], records: Sequence[dict[str, Any]]) -> list[NewAlert]:
    return [(receiver, record) for record in records for receiver in receivers]
