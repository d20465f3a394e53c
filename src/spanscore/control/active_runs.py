"""Runs being worked on: whose begins next, states, deletion."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from spanscore.control.item_lists import RunContext
from spanscore.control.run_items import Work
from spanscore.errors import InputError
from spanscore.specs import whole
from spanscore.store.runs import OpenRun, Run, RunState, RunTables

_log = logging.getLogger(__name__)

_GRACE_S = 5.0
"""How long what a judge was asked when a run was paused may take; then it is asked again when the
run goes on.
"""

_LOOK_AGAIN_S = 5.0
_EXPIRE_EVERY_NS = 60 * 10**9
_ERASES: dict[RunState, bool] = {"DELETING": False, "ERASING": True}


@dataclass(slots=True)
class _Active:
    tenant: str
    work: Work
    task: "asyncio.Task[None]"
    gives_way: bool = False


@dataclass(eq=False)
class ActiveRuns(RunContext):
    """Works off the runs of all tenants in a store. Belongs to one event loop."""

    def __post_init__(self) -> None:
        self._delay, is_busy = LoopDelay(), self.is_busy
        self.is_busy = lambda: self._delay.is_long or is_busy()
        self._active: dict[str, _Active] = {}
        self._turn_taking = TurnTaking()
        # the run that is being begun, unless it was ended meanwhile
        self._beginning: str | None = None
        self._news = asyncio.Event()
        self._is_stopped = False
        self._expire_at_ns = 0

    async def run(self) -> None:
        """Work off the runs that there are, and those that are created, until cancelled."""
        try:
            while True:
                self._news.clear()
                try:
                    await self._take_up()
                except Exception:  # noqa: BLE001 - runs can wait, the server cannot
                    _log.exception("evaluation runs cannot be taken up now")
                try:
                    async with asyncio.timeout(_LOOK_AGAIN_S):
                        await self._news.wait()
                except TimeoutError:
                    pass
        finally:
            tasks = [x.task for x in self._active.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def stop(self) -> None:
        """Take up nothing more, and wait some seconds for what is under way; the next start goes on
        with the rest.
        """
        self._is_stopped = True
        for active in self._active.values():
            active.work.end()
        tasks = [x.task for x in self._active.values()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_GRACE_S)
            for task in late:
                task.cancel()

    def look_again(self) -> None:
        """Take up what was written of runs meanwhile."""
        self._news.set()

    def eta_s(self, run: Run) -> float | None:
        """How many seconds a run will still take; None where it is not worked on, or nothing is
        known of it yet.
        """
        active = self._active.get(run.id)
        if active is None or run.progress.cursor is not None:
            return None
        return active.work.rate.eta_s(run.progress.left)

    def end(self, run_id: str, grace_s: float = _GRACE_S) -> None:
        """Take up nothing more of a run; after `grace_s` what is under way is given up too."""
        if self._beginning == run_id:
            self._beginning = None
        if (active := self._active.get(run_id)) is not None:
            active.work.end()
            asyncio.get_running_loop().call_later(grace_s, active.task.cancel)

    async def _delete_steps(
        self, run_id: str, ask: Callable[..., Awaitable[Any]], *, with_scores: bool
    ) -> None:
        """Delete what is left of a run, step by step, so that what comes in is committed in
        between.
        """
        delete = partial(self.store.delete_run_step, run_id, with_scores=with_scores)
        while not await ask(delete):
            pass

    async def _expire(self) -> None:
        """Have runs be deleted that ended long ago."""
        now_ns, bounds = self.clock_ns(), self.config.retention
        if now_ns < self._expire_at_ns:
            return
        before_ns = None if bounds.max_age is None else now_ns - bounds.max_age
        to: RunState = "ERASING" if bounds.delete_scores else "DELETING"
        expire = partial(RunTables.expire, before_ns=before_ns, max_count=bounds.max_runs, to=to)
        if expired := await self.ask(self.store.write_runs, expire):
            what = "evaluation runs are deleted: evaluation.runs.retention keeps no more"
            _log.info("%d %s", expired, what)
        self._expire_at_ns = now_ns + _EXPIRE_EVERY_NS

    async def _take_up(self) -> None:
        await self._expire()
        unfinished: list[OpenRun] = await self.ask(self.store.read_runs, RunTables.unfinished)
        if self.store.is_shared:
            self._end_where_another_server_did(unfinished)
        idle = [x for x in unfinished if x.id not in self._active]
        waiting = [x for x in idle if x.state not in _ERASES]
        self._give_way({x.tenant for x in waiting})
        while waiting and len(self._active) < self.config.at_once and not self._is_stopped:
            run = self._turn_taking.next(waiting, Counter(x.tenant for x in self._active.values()))
            waiting.remove(run)
            await self._take_up_one(run, self._begin(run.id))
        for run in idle:
            if run.state in _ERASES and not self._is_stopped:
                with_scores = _ERASES[run.state]
                steps = self._delete_steps(run.id, self.ask, with_scores=with_scores)
                await self._take_up_one(run, steps)

    def _end_where_another_server_did(self, unfinished: Sequence[OpenRun]) -> None:
        """End the work on runs that were paused, cancelled or deleted on another server."""
        going = {x.id for x in unfinished if x.state not in _ERASES}
        for run_id in self._active.keys() - going:
            self.end(run_id)

    def _give_way(self, waiting: Collection[str]) -> None:
        """Where all places are taken and a tenant has none, have one that has several free its
        newest run's place.

        What is under way of that run is finished first: its judge is paid already. Then the run
        waits for its turn again, and goes on.
        """
        counts = Counter(x.tenant for x in self._active.values())
        if len(self._active) < self.config.at_once or any(
            x.gives_way for x in self._active.values()
        ):
            return
        [(tenant, most)] = counts.most_common(1)
        if most > 1 and not counts.keys() >= set(waiting):
            run_id, active = next(
                x for x in reversed(self._active.items()) if x[1].tenant == tenant
            )
            active.gives_way = True
            _log.info("run %s gives way to a run of another tenant", run_id)
            active.work.end()

    async def _take_up_one(self, run: OpenRun, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception:  # noqa: BLE001 - one run must not keep the later ones waiting
            _log.exception("run %s cannot be taken up now", run.id)

    async def _begin(self, run_id: str) -> None:
        self._beginning = run_id

        def start(run: Run) -> Run:
            first_ns = run.progress.started_ns or self.clock_ns()
            return run.noting("RUNNING", ("PENDING", "RUNNING"), started_ns=first_ns)

        begun = await self.change(run_id, start)
        if begun is None or begun.state != "RUNNING":
            return
        ids: str = await self.ask(self.store.read_runs, lambda x: x.ids(run_id))
        if self._beginning != run_id:
            return
        try:
            spec = whole(begun.spec, ids)
            measurer = self.measurers.of(spec, begun.progress.spent, partial(self.book, run_id))
        except Exception as error:  # noqa: BLE001 - the configuration has changed, or a metric of a user's own cannot take an option
            await self._fail(begun, error)
            return
        work = Work(self, begun, spec, measurer)
        done, count = begun.progress.items - begun.progress.left, begun.progress.items
        _log.info("run %s is worked on: %d of %d done", begun.id, done, count)
        task = asyncio.create_task(self._work_off(begun, work))
        self._active[begun.id] = _Active(begun.tenant, work, task)

    async def _work_off(self, run: Run, work: Work) -> None:
        try:
            async with self._delay.watched():
                state = await work.work_off()
            if state is not None:
                _log.info("run %s: %s", run.id, state.lower())
        except Exception as error:  # noqa: BLE001 - one run must not stop the others, nor itself at every start
            await self._fail(run, error)
        finally:
            await self._book(run.id, work)
            self._active.pop(run.id, None)
            self._news.set()

    async def _book(self, run_id: str, work: Work) -> None:
        """Keep what the calls may have cost that were given up, for when the run goes on."""
        try:
            await work.book()
        except Exception:  # noqa: BLE001 - the run ends all the same
            _log.exception("run %s: what its last calls may have cost cannot be stored", run_id)

    async def _fail(self, run: Run, error: Exception) -> None:
        while isinstance(error, ExceptionGroup):  # of what several tasks raised, the first
            error = error.exceptions[0]
        is_bug = not isinstance(error, InputError)
        _log.error("run %s cannot go on: %s", run.id, error, exc_info=error if is_bug else None)
        reason = f"{type(error).__name__}: {error}" if is_bug else str(error)
        ended = {"ended_ns": self.clock_ns(), "reason": reason}
        await self.change(run.id, lambda x: x.noting("FAILED", ("RUNNING",), **ended))


_EVERY_S: Final = 0.05
_LATE_S: Final = 0.01
_DECAY: Final = 0.7


class LoopDelay:
    """Looks every 50 ms by how much its own wake-up is late, while anybody asks.

    Belongs to one event loop.
    """

    def __init__(
        self,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._clock_s = clock_s
        self._sleep = sleep
        self._late_s = 0.0
        self._askers = 0

    @property
    def is_long(self) -> bool:
        """Whether whoever waits for the loop waited for more than 10 ms lately."""
        return self._late_s > _LATE_S

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Look within this context; a loop that nobody asks about is not woken."""
        self._askers += 1
        if self._askers == 1:
            self._watching = asyncio.create_task(self.watch())
        try:
            yield
        finally:
            self._askers -= 1
            if not self._askers:
                self._watching.cancel()

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            before_s = self._clock_s()
            await self._sleep(_EVERY_S)
            late_s = self._clock_s() - before_s - _EVERY_S
            self._late_s = max(late_s, self._late_s * _DECAY)


class TurnTaking:
    """Tenants with equally many active runs take turns; of one tenant the oldest run is first."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}
        self._taken = 0

    def next(self, waiting: Sequence[OpenRun], active: Mapping[str, int]) -> OpenRun:
        """One of the runs that wait, at least one and the oldest first; `active` counts by tenant
        those worked on.

        >>> runs = [
        ...     OpenRun("1", "PENDING", "a"),
        ...     OpenRun("2", "PENDING", "a"),
        ...     OpenRun("3", "PENDING", "b"),
        ... ]
        >>> TurnTaking().next(runs, {"a": 1}).id
        '3'
        """
        known = {x.tenant for x in waiting}.union(active)
        self._turns = {tenant: turn for tenant, turn in self._turns.items() if tenant in known}
        chosen = min(waiting, key=lambda x: (active.get(x.tenant, 0), self._turns.get(x.tenant, 0)))
        self._taken += 1
        self._turns[chosen.tenant] = self._taken
        return chosen
