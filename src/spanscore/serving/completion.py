"""Closed traces to committed scores."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Protocol

from spanscore.assemble.assembler import Cut, Sessions, WorkQueue
from spanscore.errors import ConflictError, shortened
from spanscore.model.score import Evaluation
from spanscore.model.span import changed
from spanscore.scoring import Scoring
from spanscore.store.store import StoredTrace
from spanscore.telemetry import Meter, declared
from spanscore.threads import Precedence
from spanscore.turn_scheduling import JobKind, ReadJob, ReadResult, Source, TurnScheduler
from spanscore.workers import JobReading
from spanscore.workers.readers import Read, reason

_log = logging.getLogger(__name__)

_EVERY_NS = 60 * 10**9
_MAX_SAMPLED, _MAX_SERVICES, _MAX_NAME_CHARS = 20, 5, 80
"""Traces whose services are looked up for one line, names in it, and characters of each."""


class Spans(Source, Protocol):
    """Who keeps the spans of traces that were cut."""

    def finish(self, cuts: Sequence[Cut], *, parts: Sequence[Cut] = ()) -> None:
        """These traces were dealt with; `parts` of them may yet be parts of turns with others."""
        ...

    def put_aside(self, cut: Cut, reason: str) -> None:
        """A trace cannot be scored. Called from any thread."""
        ...

    def tidy(self) -> None:
        """Forget what nothing needs any more."""
        ...


class HeldSpan(Protocol):
    """A span that waits for its scores."""

    @property
    def span_id(self) -> str: ...  # noqa: D102 # the class has it


class HoldsBack(Protocol):
    """Who holds evaluated spans back, so that their scores leave as attributes on them."""

    def take(self, key: bytes, /) -> Sequence[Any]:
        """The `HeldSpan`s of a trace, by its key as a `Cut` has it, which are held back no more.

        The caller must `release` them.
        """
        ...

    def release(
        self, held: Sequence[Any], evaluations: Iterable[Evaluation], left: Callable[[], None], /
    ) -> None:
        """Send held-back spans on, each with its own of `evaluations`; `left` is called when all
        are delivered.
        """
        ...


class WithoutGenai:
    """Logs once a minute at most how many spans hold no GenAI attributes."""

    def __init__(self, spans: Source) -> None:
        self._spans = spans
        self._items = self._traces = 0
        self._due_ns = 0

    async def note(self, cuts: Sequence[Cut], now_ns: int) -> None:
        """Count traces that give no agent trace; their services are read where a line is due."""
        self._traces += len(cuts)
        self._items += sum(cut.items for cut in cuts)
        if not cuts or now_ns < self._due_ns:
            return
        self._due_ns = now_ns + _EVERY_NS
        services = await asyncio.to_thread(self._services, cuts[:_MAX_SAMPLED])
        _log.info(
            "%d spans of %d traces hold no GenAI attributes, so nothing of them is scored;"
            " services: %s",
            self._items,
            self._traces,
            ", ".join(services[:_MAX_SERVICES]) or "without a name",
        )
        self._items = self._traces = 0

    def _services(self, cuts: Sequence[Cut]) -> list[str]:
        found: dict[str | None, None] = {}
        with suppress(Exception):  # what cannot be read now is no reason to fail the batch
            for cut in cuts:
                spans, _ = self._spans.load(cut)
                found |= dict.fromkeys(x.resource.service_name for x in spans)
        return [repr(shortened(name, _MAX_NAME_CHARS)) for name in found if name]


@dataclass(frozen=True, slots=True)
class _Finished:
    """Traces that were read, the agent traces in them that are new or have changed, and their
    scores.

    `left_over` are the ids of agent traces that traces gave before they were known to be parts of
    one turn.
    """

    result: ReadResult
    traces: Sequence[StoredTrace]
    left_over: Sequence[str] = ()
    evaluations: Sequence[Evaluation] = ()
    held_back: Sequence[HeldSpan] = ()


def _holds_nothing(job: ReadJob, read: Read) -> bool:
    """Whether a complete trace was read that gives no agent trace, nor a part of one."""
    if job.kind is not JobKind.TRACE or not isinstance(read, ReadResult):
        return False
    return not read.traces and read.fragment is None


@dataclass(eq=False)
class Finishing:
    """Finishes batches of cut traces, for ever. Belongs to one event loop."""

    scheduler: TurnScheduler
    scoring: Scoring
    spans: Spans
    sessions: Sessions
    """Hear of each agent trace that was committed."""
    meter: Meter
    _: KW_ONLY
    reading: JobReading
    suspects: WorkQueue[ReadJob]
    """Get the jobs of batches on which worker processes died, for `one_by_one`."""
    precedence: Precedence | None = None
    """Of requests, to which scoring gives way."""
    clock_ns: Callable[[], int] = time.time_ns
    holds_back: HoldsBack | None = None
    """May be set before the first batch."""

    def __post_init__(self) -> None:
        self._precedence = self.precedence or Precedence()
        self._without_genai = WithoutGenai(self.spans)

    async def batch(self, jobs: Sequence[ReadJob]) -> None:
        """Finish a batch; where that fails, each by itself, and what fails by itself is put
        aside.
        """
        try:
            suspects = await self._finish(jobs)
        except Exception as error:  # noqa: BLE001 - one trace must not stop the server, nor stop it again at every start
            if len(jobs) > 1:
                for job in filter(self.scheduler.is_current, jobs):  # others were held back
                    await self.batch([job])
                return
            self._abandon(jobs[0], error)
        else:
            if suspects:
                await self.suspects.fill(lambda: suspects)

    async def one_by_one(self, jobs: Sequence[ReadJob]) -> None:
        """Finish jobs of which one may end worker processes, each as soon as it is read."""
        started_s = time.monotonic()
        async for job, read in self.reading.read_one_by_one(jobs):
            try:
                await self._score([self._result(job, read)], started_s)
            except Exception as error:  # noqa: BLE001 - as above
                self._abandon(job, error)
            started_s = time.monotonic()

    async def _finish(self, jobs: Sequence[ReadJob]) -> list[ReadJob]:
        """Read, evaluate and commit what was cut, but for what waits; then let go of its requests.

        Returns the jobs on which a worker process died.
        """
        unread, to_read = list[ReadJob](), list[ReadJob]()
        for job in jobs:
            (to_read if any(cut.genai for cut in job.cuts) else unread).append(job)
        self.meter.add(declared.TRACES_WITHOUT_GENAI, len(unread))
        results = [ReadResult(job) for job in unread]
        started_s = time.monotonic()
        found = await self.reading.read(to_read) if to_read else {}
        unread += [job for job, read in found.items() if _holds_nothing(job, read)]
        await self._without_genai.note([x.cuts[0] for x in unread], self.clock_ns())
        results += [self._result(job, read) for job, read in found.items()]
        await self._score(results, started_s)
        return [job for job in to_read if job not in found]

    async def _score(self, results: Sequence[ReadResult], started_s: float) -> None:
        """Evaluate and commit what was read, from `started_s` on, but for what waits."""
        if not results:
            return
        rebuilt = await self.scoring.patiently(self._new, results)
        now_ns = self.clock_ns()
        rebuilt = [x for x in rebuilt if not self.scheduler.hold_back(x.result, now_ns)]
        finished = [self._with_held_back(x) for x in await self._all_evaluated(rebuilt)]
        while not await self._commit(finished):
            finished = await self._anew(finished)
        self._let_go(finished)
        self.meter.add(declared.TRACES_FINISHED, sum(len(x.result.job.cuts) for x in finished))
        self.meter.observe(declared.EVALUATIONS_DURATION, time.monotonic() - started_s)

    async def _commit(self, finished: Sequence[_Finished]) -> bool:
        """Keep traces and scores; False: another server has kept some of the traces meanwhile.

        Where it fails, the spans that were held back for them leave without scores.
        """
        traces = [stored for x in finished for stored in x.traces]
        evaluations = [evaluation for x in finished for evaluation in x.evaluations]
        try:
            await self.scoring.commit(
                traces, evaluations, left_over=[id_ for one in finished for id_ in one.left_over]
            )
        except ConflictError:
            return False
        except Exception:
            for one in finished:
                if self.holds_back is not None:
                    self.holds_back.release(one.held_back, (), lambda: None)
            raise
        return True

    async def _anew(self, finished: Sequence[_Finished]) -> list[_Finished]:
        """The same, evaluated as the revisions that follow what another server has kept."""
        new = await self.scoring.patiently(self._new, [x.result for x in finished])
        evaluated = await self._all_evaluated(new)
        return [
            replace(now, held_back=before.held_back)
            for now, before in zip(evaluated, finished, strict=True)
        ]

    def _let_go(self, finished: Sequence[_Finished]) -> None:
        """All is committed: others may be read now, sessions go on, and spans that were held back
        leave.
        """
        now_ns = self.clock_ns()
        for one in finished:
            self.scheduler.finished(one.result.job, now_ns)
        for key in [stored.trace.session_key for x in finished for stored in x.traces]:
            if key is not None:
                self.sessions.push(key, now_ns)
        if self.holds_back is None:
            self._forget(*(x.result.job for x in finished))
            return
        for one in finished:
            self._release_held_back(self.holds_back, one)

    def _forget(self, *jobs: ReadJob) -> None:
        """These traces were dealt with; the requests with them are let go, unless late spans may
        still need them.
        """
        cuts = [cut for job in jobs for cut in job.cuts]
        self.spans.finish(cuts, parts=[cut for cut in cuts if self.scheduler.is_part(cut)])

    def _new(self, found: Sequence[ReadResult]) -> list[_Finished]:
        """The agent traces in what was read that were not evaluated just so before.

        Runs in a thread.
        """
        traces = [trace for result in found for trace in result.traces]
        first = {id_: made for result in found for id_, made in result.first_scores.items()}
        new = {stored.trace.id: stored for stored in self.scoring.new(traces, first)}
        return [
            _Finished(
                result,
                [new[trace.id] for trace in result.traces if trace.id in new],
                self.scoring.left_over(result.job.cuts, result.traces),
            )
            for result in found
        ]

    def _result(self, job: ReadJob, read: Read) -> ReadResult:
        """What was read of a job; nothing of one that cannot be read."""
        if isinstance(read, ReadResult):
            return read
        if job.kind is not JobKind.EARLY:  # else it is read once more when it is complete
            # what cannot be read could not be read after a restart either
            self._give_up(job, read)
        return ReadResult(job)

    def _abandon(self, job: ReadJob, error: Exception) -> None:
        """Put a job aside, and be done with it."""
        self._give_up(job, error)
        self.scheduler.finished(job, self.clock_ns())
        self._forget(job)
        self.meter.add(declared.TRACES_FINISHED, len(job.cuts))

    def _give_up(self, job: ReadJob, error: Exception) -> None:
        for cut in job.cuts:
            message = "a trace cannot be scored; its requests are put aside"
            _log.error(
                message, exc_info=error, extra={"trace_id": cut.trace_id, "tenant": cut.tenant}
            )
            self.meter.add(declared.TRACES_QUARANTINED)
            whose = f" of tenant {cut.tenant}" if cut.tenant else ""
            self.spans.put_aside(
                cut, f"trace {cut.trace_id}{whose} cannot be scored: {reason(error)}"
            )

    async def _all_evaluated(self, rebuilt: Sequence[_Finished]) -> list[_Finished]:
        self.scoring.begin(stored for x in rebuilt for stored in x.traces)
        return await asyncio.gather(*map(self._evaluated, rebuilt))

    async def _evaluated(self, finished: _Finished) -> _Finished:
        evaluations: list[Evaluation] = []
        for stored in finished.traces:
            await self._precedence.give_way()
            first = finished.result.first_scores.get(stored.trace.id)
            evaluations += await self.scoring.evaluate_new(stored, first)
        return replace(finished, evaluations=evaluations)

    def _with_held_back(self, finished: _Finished) -> _Finished:
        """With the traces' spans that are still held back: from here on they leave with their
        scores.
        """
        if self.holds_back is None:
            return finished
        held_back = [
            span for cut in finished.result.job.cuts for span in self.holds_back.take(cut.key)
        ]
        waiting = {span.span_id for span in held_back}
        placed = [
            changed(evaluation, inline=True) if evaluation.target.span_id in waiting else evaluation
            for evaluation in finished.evaluations
        ]
        return replace(finished, evaluations=placed, held_back=held_back)

    def _release_held_back(self, holds_back: HoldsBack, finished: _Finished) -> None:
        """Send held-back spans on with their scores; until they are delivered, their requests are
        kept.
        """
        holds_back.release(
            finished.held_back, finished.evaluations, lambda: self._forget(finished.result.job)
        )
