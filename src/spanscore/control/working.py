"""A run as it is worked off: its items listed, then evaluated some at a time, each committed with
its scores.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from spanscore.control import listing
from spanscore.control.scoring_items import ItemScoring, Worked, failed
from spanscore.control.source_listing import SourceListing
from spanscore.control.sources import Sources
from spanscore.scoring import Scoring
from spanscore.specs.runs import RunSpec
from spanscore.store.runs import Booked, Item, Run, RunState
from spanscore.store.store import Store

_log = logging.getLogger(__name__)

_PAGE = 200
_WAIT_S, _LONGEST_WAIT_S = 0.05, 1.0
_RATE_OVER_S = 60.0


class Rate:
    """How fast items are worked off, over the last minute."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._counts: deque[tuple[float, int]] = deque([(clock_s(), 0)])
        self._total = 0

    def add(self, count: int) -> None:
        """So many were finished now."""
        now_s = self._clock_s()
        self._total += count
        self._counts.append((now_s, self._total))
        while self._counts[0][0] < now_s - _RATE_OVER_S and len(self._counts) > 2:
            self._counts.popleft()

    def eta_s(self, left: int) -> float | None:
        """How long `left` items will take at this rate; None where nothing is known of it yet."""
        since_s, before = self._counts[0]
        done, elapsed_s = self._total - before, self._clock_s() - since_s
        return None if done <= 0 else left * elapsed_s / done


class Work:
    """The work on one run.

    Belongs to one event loop; when it is cancelled, what was not committed is done anew.
    """

    def __init__(
        self,
        run: Run,
        spec: RunSpec,
        items_of: Callable[[Run], ItemScoring],
        scoring: Scoring,
        store: Store,
        *,
        sources: Sources,
        max_from_source: int,
        looks_back: bool,
        at_once: int,
        is_busy: Callable[[], bool],
        booked: Callable[[], Booked | None] = lambda: None,
        clock_ns: Callable[[], int] = time.time_ns,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """`items_of` gives what evaluates the items of a run that was listed, `booked` what of its
        budget is booked, also in other threads.

        While `is_busy`, an item waits before it is taken up, for a second at most.
        """
        self.rate = Rate()
        self._run_id = run.id
        self._run = run
        self._spec = spec
        self._items_of = items_of
        self._scoring = scoring
        self._store = store
        self._at_once = at_once
        self._is_busy = is_busy
        self._booked = booked
        self._clock_ns = clock_ns
        self._sleep = sleep
        self._is_ending = False
        self._from_source = None
        if spec.target.source is not None:
            self._from_source = SourceListing(
                run,
                spec.target,
                sources,
                scoring,
                store,
                max_items=max_from_source,
                looks_back=looks_back,
                give_way=self._give_way,
                clock_ns=clock_ns,
                sleep=sleep,
            )
        self._uncommitted: list[tuple[Item, Worked]] = []
        self._committing = asyncio.Lock()
        self._giving_way = asyncio.Lock()

    def end(self) -> None:
        """Take up no more items; `run` returns when those under way are committed."""
        self._is_ending = True
        if self._from_source is not None:
            self._from_source.end()

    async def run(self) -> RunState | None:
        """Work off the run; returns the state that it has come to, None where it was ended
        before.
        """
        if not await self._list_items():
            return None
        items = self._items_of(self._run)
        async with asyncio.TaskGroup() as tasks:
            waiting: asyncio.Queue[Item | None] = asyncio.Queue(self._at_once)
            for _ in range(self._at_once):
                tasks.create_task(self._worker(items, waiting))
            async for item in self._pending():
                await waiting.put(item)
            for _ in range(self._at_once):
                await waiting.put(None)
        return None if self._is_ending else await self._end_state()

    async def _list_items(self) -> bool:
        """List the items; False where the run was ended before, or is gone."""
        run, target = self._run, self._spec.target
        if self._from_source is not None and run.progress.cursor is not None:
            found = await self._from_source.list()
            self._run = found or run
            return found is not None
        while run.progress.cursor is not None and not self._is_ending:
            await self._give_way()
            cursor = run.progress.cursor
            page = await self._scoring.patiently(
                partial(listing.page, self._store, run.tenant, target, cursor),
                stored_by_ns=run.created_ns,
                rows=run.progress.rows,
            )
            listed: Run | None = await self._scoring.patiently(
                self._store.write_runs,
                lambda tables, run=run, page=page: listing.add(
                    tables, run, target.sampling, page, self._clock_ns()
                ),
            )
            if listed is None:
                return False
            run = listed
        self._run = run
        return run.progress.cursor is None

    async def _pending(self) -> AsyncIterator[Item]:
        after = -1
        while not self._is_ending:
            found: Sequence[Item] = await self._scoring.patiently(
                self._store.read_runs,
                lambda tables, after=after: tables.items(self._run_id, "PENDING", after, _PAGE),
            )
            for item in found:
                if self._is_ending:
                    return
                yield item
            if len(found) < _PAGE:
                return
            after = found[-1].number

    async def _worker(self, items: ItemScoring, waiting: "asyncio.Queue[Item | None]") -> None:
        while (item := await waiting.get()) is not None:
            if self._is_ending:
                continue
            await self._give_way()
            await self._commit(item, await items.work(item))

    async def _give_way(self) -> None:
        """Let what comes in go first; those that wait for it go on one after the other."""
        if not self._is_busy():
            return
        async with self._giving_way:
            waited_s = 0.0
            while waited_s < _LONGEST_WAIT_S and self._is_busy():
                await self._sleep(_WAIT_S)
                waited_s += _WAIT_S

    async def _commit(self, item: Item, worked: Worked) -> None:
        """Commit an item with its scores, and in the same transaction all that wait for it
        meanwhile.
        """
        self._uncommitted.append((item, worked))
        async with self._committing:
            some, self._uncommitted = self._uncommitted, []
            if not some:
                return
            try:
                await self._commit_all([x for _, x in some])
            except Exception:  # noqa: BLE001 - each by itself, so that one which cannot be stored costs no other
                for one in some:
                    await self._commit_alone(*one)
            self.rate.add(len(some))

    async def _commit_alone(self, item: Item, worked: Worked) -> None:
        try:
            await self._commit_all([worked])
        except Exception as error:  # noqa: BLE001 - one trace must not stop a run
            _log.error(
                "run %s: the scores of %r cannot be stored: %s",
                self._run_id,
                item.subject_id,
                error,
            )
            await self._commit_all([failed(item, error)])

    async def _commit_all(self, worked: Sequence[Worked]) -> None:
        finished = [x.finished for x in worked]
        await self._scoring.commit(
            [],
            [evaluation for x in worked for evaluation in x.evaluations],
            also=lambda tables: tables.finish(
                self._run_id, finished, self._clock_ns(), self._booked
            ),
        )

    async def book(self) -> None:
        """Write what of the budget is booked where a call was paid of which nothing was committed,
        or given up.
        """
        if self._booked() is not None:
            await self._scoring.patiently(
                self._store.write_runs,
                lambda tables: tables.finish(self._run_id, (), self._clock_ns(), self._booked),
            )

    async def _end_state(self) -> RunState | None:
        """Write that the run has come to its end: it failed where no item came out."""

        def ended(run: Run) -> Run:
            if run.state != "RUNNING":
                return run
            progress = replace(run.progress, ended_ns=self._clock_ns(), reason=_why(run))
            state: RunState = "FAILED" if progress.failed and not progress.done else "SUCCEEDED"
            return replace(run, state=state, progress=progress)

        found: Run | None = await self._scoring.patiently(
            self._store.write_runs,
            lambda tables: tables.change(self._run_id, self._clock_ns(), ended),
        )
        return None if found is None else found.state


def _why(run: Run) -> str | None:
    if not run.progress.items:
        return "nothing that is there fits the target, or nothing of it was drawn"
    return f"{run.progress.failed} of {run.progress.items} failed" if run.progress.failed else None
