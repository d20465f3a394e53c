"""The monitors of a running server, and their views."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

from spanscore import threads
from spanscore.control import configured_monitors
from spanscore.control.alerts import Alerts, Events
from spanscore.control.runs import Runs
from spanscore.control.ticks import Key, Known, Ticking, report
from spanscore.errors import (
    ConflictError,
    ExistsError,
    FieldError,
    InputError,
    NotFoundError,
    PermanentError,
    RetryableError,
    StateError,
)
from spanscore.export.config import Alerting
from spanscore.model.options import read_spec
from spanscore.monitoring import Schedule, Times
from spanscore.specs import LATER_SCORES, Monitor, MonitorSpec
from spanscore.store.monitor_tables import (
    MonitorState,
    MonitorTables,
    StoredMonitor,
    Tick,
    TickCause,
)
from spanscore.store.monitors import MonitorStore
from spanscore.store.runs import Run
from spanscore.telemetry import Meter
from spanscore.threads import in_thread


@dataclass(frozen=True, slots=True)
class ShownTick:
    """A tick, and the run that it started; None where there is none, or it was deleted."""

    tick: Tick
    run: Run | None


@dataclass(frozen=True, slots=True)
class Shown:
    """A monitor with all that there is to see of it.

    `next_ns` is None where it is paused, `findings` where it has not looked.
    """

    known: Known
    next_ns: int | None
    last_tick: ShownTick | None
    findings: dict[str, Any] | None


def shown(tables: MonitorTables, known: Known, next_ns: int | None) -> Shown:
    """A monitor as it is now."""
    last = shown_ticks(tables, tables.ticks(known.tenant, known.id, 1))
    stored = tables.get(known.tenant, known.id)
    findings = None if stored is None else stored.findings
    return Shown(known, next_ns, last[0] if last else None, findings)


def shown_ticks(tables: MonitorTables, found: Sequence[Tick]) -> list[ShownTick]:
    """Ticks with their runs."""
    return [
        ShownTick(x, None if x.run is None else tables.runs.get(x.tenant, x.run)) for x in found
    ]


_log = logging.getLogger(__name__)

MAX_MONITORS = 1000
"""Monitors of one tenant in the store."""

_LOOK_EVERY_S = 1.0
_DROP_EVERY_S = 60.0
_ID_BYTES = 6
_LATE_NS = 60 * 10**9
_FAULTS = (RetryableError, PermanentError)


@dataclass(slots=True)
class _Due:
    """When a monitor ticks, until it gets another schedule, is paused or goes on."""

    given: Times
    due_from_ns: int
    schedule: Schedule
    due_ns: int | None = None


class Monitors(Ticking):
    """Belongs to one event loop; the store is asked in threads."""

    def __init__(
        self,
        configured: Mapping[str, Monitor],
        alerting: Alerting,
        store: MonitorStore,
        runs: Runs,
        *,
        events: Events | None = None,
        refuses_uncertified: bool = False,
        meter: Meter | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """`configured` by name; by `events` alerts leave as OpenTelemetry events;
        `refuses_uncertified` as `Ticking` has it.

        Raises ConfigError where a configured monitor starts runs that cannot be, its id is taken
        by one of the API, or a file of a receiver's TLS settings cannot be used.
        """
        meter = meter or Meter(clock_ns)
        super().__init__(
            store, runs, tuple(alerting.receivers), meter, clock_ns, refuses_uncertified
        )
        self._configured = configured_monitors.configured(configured, runs)
        store.read(lambda x: configured_monitors.refuse_taken(x, self._configured))
        self._has_stored_configured = False
        events = events or Events({}, {})
        notices, is_there = store.notices, self._is_there
        self._alerts = Alerts(alerting, notices, is_there, meter, clock_ns, events)
        self.deliver, self.close = self._alerts.deliver, self._alerts.close
        self._monitors: dict[Key, Known] | None = None
        self._changes = 0
        self._times: dict[Key, _Due] = {}
        self._began_ns, self._looked_ns = clock_ns(), 0
        self._may_be_open = True  # ticks, of monitors that were deleted
        self._triggering: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()

    async def run(self) -> None:
        """Look, and deliver alerts, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for work in (self.look, *self._alerts.deliveries()):
                tasks.create_task(self._repeatedly(work))
            await self._repeatedly(self._alerts.drop_undeliverable, _DROP_EVERY_S)

    async def look(self) -> None:
        """Make the ticks that are due, and follow those that have started runs.

        A monitor that fails holds up no other one. Raises RetryableError where the store cannot be
        used now.
        """
        monitors = await self._all()
        if monitors or self._may_be_open:
            await self.follow_up(monitors)
            self._may_be_open = bool(monitors)
        if self.clock_ns() < self._looked_ns:  # somebody has set the clock back
            self._times.clear()
        for known in list(monitors.values()):
            self._looked_ns = now_ns = self.clock_ns()
            if known.is_paused:
                continue
            try:
                await self._look_where_due(known, now_ns)
            except RetryableError:
                raise
            except Exception as error:  # noqa: BLE001 - the other monitors do not depend on this one
                report(known.tenant, known.id, error)

    async def create(
        self, tenant: str, spec: MonitorSpec, monitor_id: str = "", request_id: str | None = None
    ) -> Known:
        """Keep a new monitor, under an id of its own where none is given.

        With the `request_id` of an earlier one that monitor is returned. Raises InputError where
        `spec` cannot be met, ExistsError where there is another one of this id or request id,
        StateError where there are too many.
        """
        if request_id is not None:
            earlier = await self._ask(lambda x: x.of_request(tenant, request_id))
            if earlier is not None:
                return _same(earlier, spec, monitor_id)
        id_ = monitor_id or secrets.token_hex(_ID_BYTES)
        if (tenant, id_) in self._configured:
            raise ExistsError(f"monitor {id_!r} is one of the configuration file")
        await self._refuse_unmet(tenant, spec)
        now_ns = self.clock_ns()

        def create(tables: MonitorTables) -> StoredMonitor:
            same = None if request_id is None else tables.of_request(tenant, request_id)
            if same is not None:
                return same
            if tables.get(tenant, id_) is not None:
                raise ExistsError(f"there is a monitor {id_!r} already")
            if tables.count(tenant) >= MAX_MONITORS:
                raise StateError(
                    f"there are {MAX_MONITORS} monitors; delete one that is not needed"
                )
            return configured_monitors.create(tables, (tenant, id_), spec, now_ns, request_id)

        stored = await self._write(create)
        return _same(stored, spec, monitor_id) if request_id is not None else _known(stored)

    async def get(self, tenant: str, monitor_id: str) -> Known:
        """A monitor as it is now. Raises NotFoundError."""
        return _known(_there(await self._ask(lambda x: x.get(tenant, monitor_id)), monitor_id))

    async def all_of(self, tenant: str) -> list[Known]:
        """The monitors of a tenant, by their ids."""
        monitors = await self._all()
        return [monitors[key] for key in sorted(monitors) if key[0] == tenant]

    async def update(self, known: Known, spec: MonitorSpec) -> Known:
        """Have a monitor do something else from now on; one that was changed since it was read is
        not changed.

        Raises NotFoundError, ConflictError, and InputError where `spec` cannot be met.
        """
        _refuse_configured(known)
        await self._refuse_unmet(known.tenant, spec)

        def change(tables: MonitorTables, stored: StoredMonitor, now_ns: int) -> StoredMonitor:
            given = (stored, known.spec, spec, self.receivers, now_ns)
            return configured_monitors.change(tables, *given)

        return await self._change(known, change)

    async def set_paused(self, known: Known, *, is_paused: bool) -> Known:
        """Pause a monitor, or have it go on with the next of its times.

        Raises NotFoundError, StateError.
        """
        state: MonitorState = "PAUSED" if is_paused else "ACTIVE"

        def change(tables: MonitorTables, stored: StoredMonitor, now_ns: int) -> StoredMonitor:
            if stored.state == state:
                return stored
            stored = replace(stored, state=state, due_from_ns=now_ns)
            return configured_monitors.write(tables, stored, now_ns)

        return await self._change(known, change, is_any_revision=True)

    async def delete(self, known: Known) -> None:
        """Delete a monitor with its history.

        Its runs and their scores stay, and a firing alert ends.

        Raises NotFoundError, StateError, ConflictError.
        """

        def delete(tables: MonitorTables, stored: StoredMonitor, now_ns: int) -> StoredMonitor:
            why = "its monitor was deleted"
            configured_monitors.retire(tables, stored, self.receivers, why, now_ns)
            return stored

        await self._change(known, delete)

    async def shown(self, monitors: Sequence[Known]) -> list[Shown]:
        """Monitors with what they know."""
        now_ns = self.clock_ns()
        next_ns = {x.key: None if x.is_paused else self._next_ns(x, now_ns) for x in monitors}
        found: list[Shown] = await self._ask(
            lambda tables: [shown(tables, x, next_ns[x.key]) for x in monitors]
        )
        return found

    async def trigger(self, known: Known, request_id: str | None = None) -> ShownTick:
        """Make a tick now, also of a monitor that is paused; with the `request_id` of an earlier
        one, that one.

        Raises NotFoundError where the monitor is gone.
        """
        request = request_id or secrets.token_hex(16)
        async with self._triggering.setdefault(known.key, asyncio.Lock()):
            earlier = await self._ask(lambda x: x.tick_of_request(known.tenant, known.id, request))
            if earlier is not None:
                return (await self._with_runs([earlier]))[0]
            now_ns = self.clock_ns()
            last = await self._ask(lambda x: x.ticks(known.tenant, known.id, 1))
            due_ns = max([now_ns, *(x.due_ns + 1 for x in last)])
            while (made := await self.tick(known, due_ns, now_ns, "manual", request)) is None:
                before, known = known, await self.get(known.tenant, known.id)
                if known.stored.revision == before.stored.revision:
                    raise NotFoundError(f"there is no monitor {known.id!r}")
        return (await self._with_runs([made]))[0]

    async def ticks(
        self, known: Known, limit: int, before_ns: int | None = None
    ) -> list[ShownTick]:
        """At most `limit` ticks of a monitor that were due earlier than `before_ns`, the newest
        first.
        """
        return await self._with_runs(
            await self._ask(lambda x: x.ticks(known.tenant, known.id, limit, before_ns))
        )

    async def _with_runs(self, ticks: Sequence[Tick]) -> list[ShownTick]:
        found: list[ShownTick] = await self._ask(lambda tables: shown_ticks(tables, ticks))
        return found

    def _next_ns(self, known: Known, now_ns: int) -> int:
        """When a monitor ticks next, as far as that is known already."""
        times = self._times_of(known)
        return times.schedule.next_after(now_ns) if times.due_ns is None else times.due_ns

    async def _look_where_due(self, known: Known, now_ns: int) -> None:
        times = self._times_of(known)
        if times.due_ns is None:
            times.due_ns = await self._first_due_ns(known, times.schedule, now_ns)
        if (due_ns := times.due_ns) > now_ns:
            return
        # What was missed while this process was busy or asleep is one tick, that of the last time.
        last_ns = times.schedule.last_until(now_ns, due_ns - 1) or due_ns
        is_late = due_ns < self._began_ns or last_ns != due_ns or now_ns - due_ns > _LATE_NS
        cause: TickCause = "catch_up" if is_late else "schedule"
        made = await self.tick(known, last_ns, now_ns, cause)
        if made is None:  # by another server; or the monitor was changed meanwhile, or is gone
            self._forget()
            made = await asyncio.to_thread(
                self.store.read, lambda x: x.tick(known.tenant, known.id, last_ns)
            )
        if made is not None:
            times.due_ns = times.schedule.next_after(now_ns)

    async def _first_due_ns(self, known: Known, schedule: Schedule, now_ns: int) -> int:
        """When to tick first: now, where a tick was missed while the server was down, else at the
        next time.
        """
        since_ns = await asyncio.to_thread(
            self.store.read, lambda x: x.last_tick_ns(known.tenant, known.id)
        )
        if known.spec.schedule.catch_up:
            missed_ns = schedule.last_until(now_ns, max(since_ns or 0, known.stored.due_from_ns))
            if missed_ns is not None:
                return missed_ns
        return schedule.next_after(now_ns)

    def _times_of(self, known: Known) -> _Due:
        times, given = self._times.get(known.key), known.spec.schedule
        due_from_ns = known.stored.due_from_ns
        if times is None or (times.given, times.due_from_ns) != (given, due_from_ns):
            times = _Due(given, due_from_ns, given.schedule(known.id))
            self._times[known.key] = times
        return times

    async def _refuse_unmet(self, tenant: str, spec: MonitorSpec) -> None:
        if spec.run is not None and spec.run.misses_later_scores:
            raise FieldError("run.target.where", LATER_SCORES)
        run = None if spec.run is None else spec.run.run_spec("")
        with configured_monitors.fields_of_run():
            if run is not None:
                await self.runs.refuse_unmet(tenant, run)
        try:
            configured_monitors.refuse_unmeasured(spec, self.runs)
        except FieldError as error:
            raise error.within("watch") from None

    async def _all(self) -> dict[Key, Known]:
        """All monitors that this version understands."""
        if self._monitors is None or self.store.is_shared:
            before, found, changes = self._monitors or {}, dict[Key, Known](), self._changes
            await self._keep_configured()
            for stored in await asyncio.to_thread(self.store.read, MonitorTables.all):
                known = before.get((stored.tenant, stored.id))
                try:
                    if known is None or known.stored != stored:
                        known = _known(stored)
                except InputError as error:
                    _log.error(
                        "monitor %s cannot tick: this version does not understand it: %s",
                        stored.id,
                        error,
                    )
                    continue
                found[known.key] = known
            if changes != self._changes:  # somebody has written meanwhile
                return found
            self._monitors = found
            self._times = {key: x for key, x in self._times.items() if key in found}
        return self._monitors

    def _is_there(self, tenant: str, monitor: str) -> bool:
        return self._monitors is None or (tenant, monitor) in self._monitors

    async def _keep_configured(self) -> None:
        """Have the store contain the monitors of the configuration, once."""
        if self._has_stored_configured:
            return
        now_ns = self.clock_ns()
        await in_thread(
            self.store.write,
            lambda x: configured_monitors.keep(x, self._configured, self.receivers, now_ns),
        )
        self._has_stored_configured = True

    async def _ask(self, ask: Callable[[MonitorTables], Any]) -> Any:
        await self._keep_configured()
        return await in_thread(self.store.read, ask)

    async def _change(
        self,
        known: Known,
        change: Callable[[MonitorTables, StoredMonitor, int], StoredMonitor],
        *,
        is_any_revision: bool = False,
    ) -> Known:
        """A monitor of the API after `change`, which gets it and the time; unless
        `is_any_revision`, only where nobody has changed it since it was read.
        """
        _refuse_configured(known)
        now_ns = self.clock_ns()

        def write(tables: MonitorTables) -> StoredMonitor:
            stored = _there(tables.get(known.tenant, known.id), known.id)
            if stored.revision != known.stored.revision and not is_any_revision:
                raise ConflictError(f"monitor {known.id!r} was changed meanwhile; read it again")
            return change(tables, stored, now_ns)

        return _known(await self._write(write))

    async def _write(self, change: Callable[[MonitorTables], StoredMonitor]) -> StoredMonitor:
        await self._keep_configured()
        # a request that is cancelled meanwhile may have changed what the store has
        return await asyncio.shield(self._written(change))

    async def _written(self, change: Callable[[MonitorTables], StoredMonitor]) -> StoredMonitor:
        try:
            return await in_thread(self.store.write, change)
        finally:
            self._forget()

    def _forget(self) -> None:
        """Read the monitors anew."""
        self._monitors = None
        self._changes += 1

    async def _repeatedly(
        self, work: Callable[[], Coroutine[Any, Any, None]], every_s: float = _LOOK_EVERY_S
    ) -> None:
        while True:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - monitors can wait, the server cannot
                _log.error(
                    "monitors: %s; they try again", error, exc_info=not isinstance(error, _FAULTS)
                )
            await threads.next_multiple(every_s)


def _known(stored: StoredMonitor) -> Known:
    """Raises InputError where this version does not understand what is kept."""
    return Known(
        stored.tenant,
        stored.id,
        read_spec(MonitorSpec, stored.spec),
        stored.state == "PAUSED",
        stored,
    )


def _refuse_configured(known: Known) -> None:
    if known.stored.is_configured:
        raise StateError(f"monitor {known.id!r} is one of the configuration file; change it there")


def _there(stored: StoredMonitor | None, monitor_id: str) -> StoredMonitor:
    if stored is None:
        raise NotFoundError(f"there is no monitor {monitor_id!r}")
    return stored


def _same(stored: StoredMonitor, spec: MonitorSpec, monitor_id: str) -> Known:
    """The monitor of a request id; raises ExistsError where it was asked for otherwise."""
    known = _known(stored)
    is_other = stored.revision == 1 and known.spec != spec
    if is_other or monitor_id not in {"", stored.id}:
        raise ExistsError(
            f"request_id {stored.request_id!r}: monitor {stored.id} was created under it with"
            " another content"
        )
    return known
