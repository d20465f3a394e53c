"""The loop that files scores with a tool."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from spanscore.errors import PermanentError, RetryableError
from spanscore.export.config import SinkSettings
from spanscore.export.delivery import Backoff, Patience, Surroundings, first_place
from spanscore.export.port import (
    FaultError,
    Sink,
    UndeliveredError,
    UnsupportedSignalError,
    by_what_they_replace,
    what_it_replaces,
)
from spanscore.model.score import Evaluation, Undelivered
from spanscore.store.store import Store
from spanscore.telemetry import Complaints, declared

_log = logging.getLogger(__name__)

_BATCH = 200
_FORM = "scores"
_ASK_AGAIN_S = 600.0
"""After this long a tool without a place for scores is asked once more: a 404 can be a rollout."""


@dataclass(slots=True)
class _Waiting:
    """A score whose span the tool has not got yet."""

    evaluation: Evaluation
    since_ns: int
    due_ns: int
    wait_ns: int


@dataclass(frozen=True, slots=True)
class _Lost:
    """A score that could not be filed, `reason` in one of few words."""

    evaluation: Evaluation
    reason: str
    error: str


@dataclass(eq=False)
class Filing:
    """A named sink and its place in the outbox. Belongs to one event loop.

    The place moves on up to the oldest score that still waits, so a restart files some of them
    again, which replace themselves.
    """

    name: str
    sink: Sink
    config: SinkSettings
    outbox: Store
    around: Surroundings

    def __post_init__(self) -> None:
        self._complaints = Complaints(self.around.clock_ns)
        self._news = asyncio.Event()
        # where the outbox ends now
        self._latest = self._begin = self._read = self._done = self.outbox.last_seq
        self._in_hand = 0
        self._waiting: dict[int, _Waiting] = {}
        self._lost: list[_Lost] = []
        self._notes: list[Undelivered] = []
        self._filing = asyncio.Lock()

    @property
    def behind(self) -> int:
        """How many scores have still to be filed, those that wait for their span among them."""
        return self.unread + len(self._waiting)

    @property
    def unread(self) -> int:
        """How many scores were not tried yet, or are tried again for as long as the tool is
        down.
        """
        return self._latest - self._read + self._in_hand

    @property
    def oldest_ns(self) -> int | None:
        """Since when the score has waited that has waited longest for its span; None where none
        waits.
        """
        return min((x.since_ns for x in self._waiting.values()), default=None)

    def offer(self, latest: int) -> None:
        """There are scores in the outbox up to the sequence number `latest`."""
        self._latest = max(self._latest, latest)
        self._news.set()

    async def run(self, progress: Callable[[], None]) -> None:
        """File until cancelled; `progress` is called whenever something was filed."""
        patience = Patience(self._complaints, self.around.sleep)
        self._read = self._done = await first_place(patience, self.outbox, self.name, self._begin)
        self._in_hand = 0
        self._waiting.clear()
        while True:
            await self._until_something_is_due()
            try:
                async with self._filing:
                    await self._step()
            # of the store: without it nothing can be filed
            except (RetryableError, PermanentError) as error:
                self._complaints.complain(f"{self.name}: waits for the store", str(error))
                await self.around.sleep(1.0)
            progress()

    async def file_again(
        self, rows: Sequence[tuple[Undelivered, Evaluation, bool]]
    ) -> list[Undelivered]:
        """File what could not be filed before, where it is still the newest; gives what still
        cannot be.

        A score whose span is not there is not waited for: it was for long enough.
        """
        async with self._filing:
            newest = {id(x): (note, x) for note, x, is_superseded in rows if not is_superseded}
            missing = await self._file([x for _, x in newest.values()], final=True, patient=False)
            self._drop("its span has not come", missing, "no_span")
            return self._undelivered({key: note.seq for key, (note, _) in newest.items()})

    async def close(self) -> None:
        """Close the sink."""
        await self.sink.close()

    async def _until_something_is_due(self) -> None:
        while self._read >= self._latest:
            now_ns = self.around.clock_ns()
            next_ns = min((x.due_ns for x in self._waiting.values()), default=None)
            if next_ns is not None and next_ns <= now_ns:
                return
            self._news.clear()
            news = asyncio.ensure_future(self._news.wait())
            sleeping = (
                []
                if next_ns is None
                else [asyncio.ensure_future(self.around.sleep((next_ns - now_ns) / 1e9))]
            )
            try:
                await asyncio.wait([news, *sleeping], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (news, *sleeping):
                    task.cancel()

    async def _step(self) -> None:
        """File what is new and what is due, and remember how far all is filed."""
        now_ns = self.around.clock_ns()
        fresh = await self._fresh()
        self._forget_the_replaced_by(fresh.values())
        due = self._due(now_ns) | fresh
        by_id = {id(x): seq for seq, x in due.items()} | {
            id(x.evaluation): seq for seq, x in self._waiting.items()
        }
        missing = await self._file(by_what_they_replace([due[seq] for seq in sorted(due)]))
        absent = {by_id[id(x)]: x for x in missing}
        overdue = [absent.pop(seq) for seq in list(absent) if self._is_overdue(seq, now_ns)]
        self._drop("its span has not come", await self._file(overdue, final=True), "no_span")
        self._in_hand = 0
        for seq in due.keys() - absent.keys():
            self._waiting.pop(seq, None)
        for seq, evaluation in absent.items():
            self._wait_for(seq, evaluation, now_ns)
        done = min(self._waiting, default=self._read + 1) - 1
        self._notes += self._undelivered(by_id)
        if done != self._done or self._notes:
            await asyncio.to_thread(self.outbox.set_cursor, self.name, done, self._notes)
            self._done, self._notes = done, []

    def _undelivered(self, seqs: Mapping[int, int]) -> list[Undelivered]:
        """What was lost since this was last asked; `seqs` are the scores' numbers by the ids of the
        objects.
        """
        lost, self._lost = self._lost, []
        now_ns = self.around.clock_ns()
        return [
            Undelivered(self.name, seqs[id(x.evaluation)], (_FORM,), x.reason, x.error, now_ns)
            for x in lost
            if id(x.evaluation) in seqs
        ]

    async def _fresh(self) -> dict[int, Evaluation]:
        """The next scores in the outbox, by their sequence numbers."""
        # what is offered while the outbox is read may not be in what was read
        latest = self._latest
        if self._read >= latest:
            return {}
        found = await asyncio.to_thread(self.outbox.outbox, self._read, _BATCH)
        read = found[-1][0] if found else latest
        self._in_hand, self._read = read - self._read, read
        # a tool shows one score of each name
        return {seq: x for seq, x in found if x.is_shown and x.run is None}

    def _forget_the_replaced_by(self, evaluations: Iterable[Evaluation]) -> None:
        """A score that waits must not come after a later revision of it that does not."""
        later = set(map(what_it_replaces, evaluations))
        for seq in [
            seq for seq, x in self._waiting.items() if what_it_replaces(x.evaluation) in later
        ]:
            del self._waiting[seq]

    def _due(self, now_ns: int) -> dict[int, Evaluation]:
        """Those of the waiting that are to be tried again, at most as many as fit into a
        request.
        """
        due = sorted((x.due_ns, seq) for seq, x in self._waiting.items() if x.due_ns <= now_ns)
        return {seq: self._waiting[seq].evaluation for _, seq in due[:_BATCH]}

    def _is_overdue(self, seq: int, now_ns: int) -> bool:
        known = self._waiting.get(seq)
        return now_ns - (now_ns if known is None else known.since_ns) >= self.config.max_wait

    def _wait_for(self, seq: int, evaluation: Evaluation, now_ns: int) -> None:
        """Try again later, at longer and longer intervals, until too many wait."""
        known = self._waiting.get(seq)
        first_ns = self.config.retry_on_failure.initial_interval
        since_ns, wait_ns = (
            (now_ns, first_ns) if known is None else (known.since_ns, known.wait_ns * 2)
        )
        wait_ns = min(wait_ns, self.config.retry_on_failure.max_interval)
        self._waiting[seq] = _Waiting(evaluation, since_ns, now_ns + wait_ns, wait_ns)
        while len(self._waiting) > self.config.max_waiting:
            oldest = self._waiting.pop(min(self._waiting))
            self._drop(
                "too many wait for their spans (max_waiting)", [oldest.evaluation], "max_waiting"
            )

    async def _file(
        self, evaluations: Sequence[Evaluation], *, final: bool = False, patient: bool = True
    ) -> Sequence[Evaluation]:
        """File with patience; returns those whose span is not there.

        What the tool refuses is dropped, alone.

        What it still fails at after `max_fault_time`, or at once unless `patient`, is taken for the
        cause.
        """
        backoff = Backoff.begin(self.config.retry_on_failure, self.around.clock_ns())
        while evaluations:
            try:
                missing = await self.sink.file(evaluations, final=final)
            except UnsupportedSignalError as error:
                self._complaints.complain(f"{self.name}: takes no scores", str(error))
                await self.around.sleep(_ASK_AGAIN_S)
            except UndeliveredError as error:
                is_fault = isinstance(error, FaultError)
                backoff = backoff.answered(fault=is_fault, now_ns=self.around.clock_ns())
                if not (is_fault and not patient) and await self._try_again(backoff, error):
                    backoff = backoff.next()
                elif is_fault:
                    return await self._without_the_refused(evaluations, error, final=final)
                else:
                    self._drop(str(error), evaluations, "given_up")
                    break
            except PermanentError as error:
                return await self._without_the_refused(evaluations, error, final=final)
            else:
                self._filed(len(evaluations) - len(missing))
                return missing
        return ()

    async def _try_again(self, backoff: Backoff, error: UndeliveredError) -> bool:
        """Wait as long as it takes; False: it is not to be tried again."""
        wait_s = backoff.wait_s(
            error.requested_wait_s, self.around.chance(), self.around.clock_ns()
        )
        if wait_s is None:
            return False
        self.around.meter.add(declared.EXPORTER_FAILED_SENDS, exporter=self.name, signal="scores")
        self._complaints.complain(f"{self.name}: scores not filed", f"{error}; will try again")
        await self.around.sleep(wait_s)
        return True

    async def _without_the_refused(
        self, evaluations: Sequence[Evaluation], error: Exception, *, final: bool
    ) -> Sequence[Evaluation]:
        if len(evaluations) == 1:
            self._drop(
                str(error), evaluations, "fault" if isinstance(error, FaultError) else "refused"
            )
            return ()
        middle = len(evaluations) // 2
        halves = evaluations[:middle], evaluations[middle:]
        return [
            missing
            for half in halves
            for missing in await self._file(half, final=final, patient=False)
        ]

    def _filed(self, count: int) -> None:
        if self._complaints.is_over(f"{self.name}: scores not filed"):
            _log.info("%s: filing scores again", self.name)
        if count:
            self.around.meter.add(declared.EXPORTER_SENT_SCORES, count, exporter=self.name)

    def _drop(self, why: str, evaluations: Sequence[Evaluation], reason: str) -> None:
        if not evaluations:
            return
        self._lost += [_Lost(x, reason, why) for x in evaluations]
        summary = f"{why}: {len(evaluations)}, the first of trace {evaluations[0].target.trace_id}"
        self._complaints.complain(
            f"{self.name}: scores not filed for good",
            f"{summary}; `spanscore scores --undelivered` lists them",
        )
        self.around.meter.add(
            declared.EXPORTER_DROPPED_SCORES, len(evaluations), exporter=self.name, reason=reason
        )
