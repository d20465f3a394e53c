"""The schedulers of tenants' turns."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from spanscore import turns
from spanscore.assemble import fragments
from spanscore.assemble.assembler import Cut
from spanscore.assemble.config import Config
from spanscore.turn_scheduling.jobs import SCORED, JobKind, JobReader, ReadJob, ReadResult, Source
from spanscore.turn_scheduling.trace_states import PendingTurns, State, TraceStates
from spanscore.turns.basis import stitch_keys

_log = logging.getLogger(__name__)

_MAX_TEXTS = 50_000
"""Questions and arguments of tool calls that are remembered, some 20 MB: above it the oldest are
forgotten.
"""


_MOST_IN_WORK = 100
"""Traces in work while others are read early: above it nothing is read that may have to be read
again.
"""


class TenantScheduler:
    """Schedules the traces of one tenant; the methods are those of `TurnScheduler`.

    `TraceStates` contains what is under way. What a later trace may belong to is remembered beside
    it: fragments in `PendingTurns`, ids of model calls in `RecentCalls`, texts of delegating calls
    in `DelegationIndex`.
    """

    def __init__(
        self,
        config: Config,
        source: Source,
        tenant: str,
        watch: turns.Watch | None,
        attributes: Collection[str],
    ) -> None:
        self.last_cut_ns = 0
        """When a trace of this tenant was cut last."""
        self._config = config
        self._source = source
        self._tenant = tenant
        self._stitching = turns.Stitching(config.stitch_off)
        self._reader = JobReader(source.load, self._stitching, attributes=attributes, watch=watch)
        self._pending = PendingTurns(
            config,
            group=self._stitching.group,
            is_whole=turns.is_whole,
            is_settled=turns.is_settled,
            is_there=self._can_read,
        )
        self._states = TraceStates(self._pending.is_waiting)
        self._recent_calls = RecentCalls(config)
        self._delegations = turns.DelegationIndex(_MAX_TEXTS, config.late_window)
        self._delegations_lock = threading.Lock()  # traces are read in several threads
        self._continuations = turns.UnmatchedContinuations()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be read, is in work or waits."""
        return not self._states

    def state(self, trace_id: str) -> State:
        """See `TurnScheduler.state`."""
        return self._states.of(trace_id)

    @property
    def waiting(self) -> int:
        """See `TurnScheduler.waiting`."""
        return self._pending.waiting + self._states.queued

    def limit(self, tenants: int) -> None:
        """Remember no more than one of so many tenants may."""
        self._pending.limit(self._config.max_parts // tenants)
        self._recent_calls.limit(MAX_IDS // tenants)
        self._delegations.max_texts = _MAX_TEXTS // tenants

    def cut(self, cuts: Iterable[Cut], now_ns: int) -> list[ReadJob]:
        """See `TurnScheduler.cut`; `cuts` are those of this tenant."""
        for cut in cuts:
            if not cut.is_early:
                self._states.queue(ReadJob((cut,), queued_ns=now_ns))
            elif self._may_read_early(cut):
                self._states.queue(ReadJob((cut,), JobKind.EARLY, now_ns))
            else:
                self._source.assembler.done(cut)
        jobs = self._states.start()
        # a fragment may wait for what is not read yet
        read_until_ns = self._states.read_until_ns(now_ns)
        due = self._pending.due(read_until_ns, is_busy=self._states.is_busy)
        for turn in [self._turn_job(parts, now_ns) for parts in due]:
            if turn.cuts:
                self._states.start_turn(turn)
                jobs.append(turn)
        return jobs

    def read(self, job: ReadJob) -> ReadResult:
        """See `TurnScheduler.read`."""
        return self.marked(self._reader.read(job, self.is_referred_to))

    def is_referred_to(
        self, job: ReadJob, ids_of_calls: Sequence[str], hints: turns.DelegationHints | None
    ) -> bool:
        """See `TurnScheduler.is_referred_to`."""
        if job.kind is JobKind.TRACE:
            self._remember(job, hints)
        return self._is_sought(job.trace_id, ids_of_calls) or bool(
            self._delegation_partners(job.trace_id, hints)
        )

    def marked(self, result: ReadResult) -> ReadResult:
        """See `TurnScheduler.marked`."""
        if result.job.kind is not JobKind.TURN:
            return result
        return replace(
            result, traces=[self._continuations.marked(trace) for trace in result.traces]
        )

    def hold_back(self, result: ReadResult, now_ns: int) -> bool:
        """See `TurnScheduler.hold_back`."""
        job = result.job
        if not self._states.is_current(job):
            return True
        # one that is being scored was accepted before, and is read once more since a commit failed
        is_new = self._states.of(job.trace_id) is not State.SCORING
        if job.kind is JobKind.EARLY and is_new and not self._accepts(result, now_ns):
            self._source.assembler.done(job.cuts[0])
            self._states.drop(job)
            return True
        self._continuations.take(result.traces)
        waits = job.kind is not JobKind.TURN and self._holds(result, now_ns)
        for cut in self._pending.replaced():
            self._source.assembler.done(cut)
        if waits:
            self._states.hold_back(job)
        else:
            self._states.score(job)
        return waits

    def finished(self, job: ReadJob, now_ns: int) -> None:
        """See `TurnScheduler.finished`."""
        for trace_id in self._states.finish(job):
            self._reread(trace_id, now_ns)

    def is_current(self, job: ReadJob) -> bool:
        """See `TurnScheduler.is_current`."""
        return self._states.is_current(job)

    def forget(self, rows: Collection[int]) -> None:
        """See `TurnScheduler.forget`."""
        for cut in self._pending.waiting_cuts():
            if not set(cut.rows).isdisjoint(rows):
                self._pending.forget(cut.trace_id)
                self._states.give_up(cut.trace_id)
        for cut in self._pending.replaced():
            self._source.assembler.done(cut)

    def is_part(self, cut: Cut) -> bool:
        """See `TurnScheduler.is_part`."""
        return cut.trace_id in self._pending

    def _may_read_early(self, cut: Cut) -> bool:
        """Whether a trace may be read before it is complete: nothing else is done with it, and
        there is time.
        """
        is_free = (
            self._states.of(cut.trace_id) is State.SCORED and cut.trace_id not in self._pending
        )
        return is_free and len(self._states) - self._pending.waiting < _MOST_IN_WORK

    def _accepts(self, result: ReadResult, now_ns: int) -> bool:
        """Whether a trace is scored before it is complete: nothing of it is missing, nor suggests
        another trace.
        """
        job = result.job
        if result.fragment is not None or not turns.shows_whole(result.traces):
            return False
        if self._delegation_partners(job.trace_id, result.hints) or self._states.has_queued(
            job.trace_id
        ):
            return False
        if not self._source.accept(job.cuts[0], now_ns):
            return False
        self._remember(job, result.hints)
        return True

    def _holds(self, result: ReadResult, now_ns: int) -> bool:
        """Whether a trace that was read is not scored now, because it may be part of a turn with
        others.
        """
        job, fragment = result.job, result.fragment
        if fragment is None or job.cuts[0].completeness == "truncated":
            return self._holds_ordinary(result, now_ns)
        if job.kind is JobKind.TRACE:
            return self._holds_fragment(fragment, result, now_ns)
        if job.trace_id not in self._pending:
            self._pending.add(fragment, None, now_ns)
        return False

    def _holds_ordinary(self, result: ReadResult, now_ns: int) -> bool:
        """Remember the ids of an ordinary trace.

        It is queued once more where it may be delegated, or delegate.

        The trace of the other agent was then read at the same time, so that neither could find the
        other.
        """
        job = result.job
        is_new = job.kind in SCORED
        if (
            is_new
            and result.fragment is None
            and self._delegation_partners(job.trace_id, result.hints)
        ):
            self._states.queue_again(job, now_ns)
            return True
        self._pending.forget(job.trace_id)
        self._recent_calls.add(result.ids_of_calls, job.trace_id, now_ns)
        if is_new:
            self._reread_if_sought(job.trace_id, result.ids_of_calls)
        return False

    def _holds_fragment(
        self, fragment: turns.TraceFragment, result: ReadResult, now_ns: int
    ) -> bool:
        """Take in a fragment, and have the scored traces read again that may be of its turn."""
        linked = [trace_id for trace_id in fragment.links if trace_id not in self._pending]
        to_compare = self._scored_partners(fragment, result.hints)
        if to_compare:
            self._states.compare(fragment.trace_id, to_compare)
            fragment = replace(fragment, must_wait=True)
        waits = self._pending.add(fragment, result.job.cuts[0], now_ns)
        for trace_id in (*linked, *to_compare):
            self._reread(trace_id, now_ns)
        return waits

    def _scored_partners(
        self, fragment: turns.TraceFragment, hints: turns.DelegationHints | None
    ) -> list[str]:
        """The traces that were scored as ordinary ones and may report the same calls, or be tied by
        a delegation.
        """
        same_calls = [
            trace_id
            for trace_id in self._recent_calls.find(fragment.repeatable)
            if trace_id != fragment.trace_id and self._can_read(trace_id)
        ]
        delegating = self._delegation_partners(fragment.trace_id, hints)
        found = dict.fromkeys((*same_calls, *delegating))
        return [trace_id for trace_id in found if trace_id not in self._pending]

    def _remember(self, job: ReadJob, hints: turns.DelegationHints | None) -> None:
        """Remember the texts by which other traces may find that this one delegated to them, or
        they to it.
        """
        if hints is not None:
            with self._delegations_lock:
                self._delegations.add(job.trace_id, hints, job.queued_ns)

    def _delegation_partners(self, trace_id: str, hints: turns.DelegationHints | None) -> list[str]:
        """The traces of which one's tool call may have requested the other.

        May be called from any thread.
        """
        if hints is None:
            return []
        with self._delegations_lock:
            found = self._delegations.of(trace_id, hints)
        return [other for other in found if other in self._pending or self._can_read(other)]

    def _reread_if_sought(self, trace_id: str, ids_of_calls: Sequence[str]) -> None:
        """Have a trace read again after it is scored, if a fragment that was read meanwhile looks
        for it.

        Such fragments wait for that, however long the scoring takes: else they would be scored as
        whole turns.
        """
        if not self._is_sought(trace_id, ids_of_calls):
            return
        self._states.require_reread(trace_id)
        for seeker in self._pending.seekers(_keys(trace_id, ids_of_calls)):
            self._states.compare(seeker, [trace_id])

    def _reread(self, trace_id: str, now_ns: int) -> None:
        """Have a trace read again that was scored as an ordinary one, now that another looks for
        it.
        """
        if self._states.require_reread(trace_id) or trace_id in self._pending:
            return
        if self._states.of(trace_id) is State.QUEUED:
            return  # it is about to be read, and then finds the other
        cut = self._source.assembler.recut(self._key(trace_id), now_ns)
        if cut is not None:
            self._states.queue(ReadJob((cut,), JobKind.REREAD, now_ns))

    def _is_sought(self, trace_id: str, ids_of_calls: Sequence[str]) -> bool:
        """Whether a fragment looks for a trace, by its own id or by that of a model call in it."""
        if not self._pending.seeks_any:  # as mostly
            return False
        return any(self._pending.is_sought(key) for key in _keys(trace_id, ids_of_calls))

    def _can_read(self, trace_id: str) -> bool:
        """Whether a trace that was cut can be read again."""
        return self._source.assembler.can_read(self._key(trace_id))

    def _key(self, trace_id: str) -> bytes:
        """The key by which the assembler knows a trace of this tenant."""
        return fragments.with_tenant(bytes.fromhex(trace_id), self._tenant)

    def _turn_job(
        self, parts: Sequence[tuple[turns.TraceFragment, Cut | None]], now_ns: int
    ) -> ReadJob:
        """The job that reads the traces of a turn together, those that were scored before once
        more.
        """
        cuts = [
            cut or self._source.assembler.recut(self._key(part.trace_id), now_ns)
            for part, cut in parts
        ]
        joins = tuple(join for part, _ in parts for join in part.joins)
        for join in joins:
            _log.debug("trace %s was joined to trace %s by %s, since %s", *join)
        return ReadJob(
            tuple(cut for cut in cuts if cut is not None),
            JobKind.TURN,
            now_ns,
            within=turns.delegating_calls(part for part, _ in parts),
            joins=joins,
        )


def _keys(trace_id: str, ids_of_calls: Sequence[str]) -> Iterator[str]:
    """The keys by which fragments look for a trace."""
    yield stitch_keys.trace(trace_id)
    yield from map(stitch_keys.model_call, ids_of_calls)


_MAX_TENANTS = 1000
"""Tenants whose scored traces are remembered; above it the quietest are forgotten."""


class TurnScheduler:
    """Decides which traces are read when. Belongs to one event loop, but for `read`.

    For each job that `cut` hands out, the caller calls `read`, then `hold_back`, and `finished`
    unless that returned True. Each tenant is scheduled by itself: no trace is compared with one of
    another tenant, and all tenants share what may be remembered.
    """

    def __init__(
        self,
        config: Config,
        source: Source,
        watch: turns.Watch | None = None,
        *,
        attributes: Collection[str] = (),
    ) -> None:
        """`watch` is called with each agent trace that is rebuilt, in the thread that reads it.

        `attributes` are those of spans that the agent traces are given with.
        """
        self._config = config
        self._source = source
        self._watch = watch
        self._attributes = attributes
        # the one with the latest cut is last
        self._tenants: OrderedDict[str, TenantScheduler] = OrderedDict()
        self._sharing = 1

    @property
    def waiting(self) -> int:
        """How many traces wait for other parts of their turn, or until an earlier cut of them is
        scored.
        """
        return sum(tenant.waiting for tenant in self._tenants.values())

    def state(self, trace_id: str, tenant: str) -> State:
        """The state of a trace; of one that is not known `SCORED`."""
        scheduler = self._tenants.get(tenant)
        return State.SCORED if scheduler is None else scheduler.state(trace_id)

    def cut(self, now_ns: int) -> list[ReadJob]:
        """What is to be read now: traces that are complete, and turns that are whole or wait no
        longer.

        A trace is in one job at a time: a later cut of it waits until the job is finished or held
        back, or two would be scored as the same revision.
        """
        cuts: dict[str, list[Cut]] = {}
        for cut in self._source.cut(now_ns):
            cuts.setdefault(cut.tenant, []).append(cut)
        for tenant in cuts:
            self._note_cut(tenant, now_ns)
        self._share()
        jobs: list[ReadJob] = []
        for tenant, scheduler in self._tenants.items():
            jobs += scheduler.cut(cuts.get(tenant, ()), now_ns)
        self._forget_quiet(now_ns)
        return jobs

    def read(self, job: ReadJob) -> ReadResult:
        """Read the traces of a job. May be called from any thread.

        Raises whatever a dialect raises on content.
        """
        return self._tenants[job.tenant].read(job)

    def is_referred_to(
        self, job: ReadJob, ids_of_calls: Sequence[str], hints: turns.DelegationHints | None
    ) -> bool:
        """Whether another trace refers to the trace of a job, by what was read of it.

        May be called from any thread.

        What was read is remembered: later traces may refer to it.
        """
        return self._tenants[job.tenant].is_referred_to(job, ids_of_calls, hints)

    def marked(self, result: ReadResult) -> ReadResult:
        """What was read of a turn, as damaged where other traces may continue it; anything else as
        it is.
        """
        return self._tenants[result.job.tenant].marked(result)

    def hold_back(self, result: ReadResult, now_ns: int) -> bool:
        """Whether what was read is not to be scored now: its trace waits for the rest of its turn.

        A later `cut` then hands it out again. Also True for a job that was held back before.
        """
        return self._tenants[result.job.tenant].hold_back(result, now_ns)

    def finished(self, job: ReadJob, now_ns: int) -> None:
        """What was read was scored and committed, or given up."""
        self._tenants[job.tenant].finished(job, now_ns)

    def is_current(self, job: ReadJob) -> bool:
        """Whether a job was handed out and is neither held back nor finished."""
        tenant = self._tenants.get(job.tenant)
        return tenant is not None and tenant.is_current(job)

    def forget(self, rows: Collection[int]) -> None:
        """Do not wait any longer for the turns of traces with these rows: they are read
        elsewhere.
        """
        for tenant in self._tenants.values():
            tenant.forget(rows)

    def is_part(self, cut: Cut) -> bool:
        """Whether a trace may yet turn out to be part of a turn with others."""
        tenant = self._tenants.get(cut.tenant)
        return tenant is not None and tenant.is_part(cut)

    def _note_cut(self, tenant: str, now_ns: int) -> None:
        if tenant not in self._tenants:
            self._tenants[tenant] = TenantScheduler(
                self._config, self._source, tenant, self._watch, self._attributes
            )
        self._tenants[tenant].last_cut_ns = now_ns
        self._tenants.move_to_end(tenant)

    def _forget_quiet(self, now_ns: int) -> None:
        """Forget tenants whose traces can no more be read, and, of too many, those for which
        nothing is under way.
        """
        oldest_ns = now_ns - self._config.late_window
        idle = [tenant for tenant, scheduler in self._tenants.items() if scheduler.is_idle]
        too_many = len(self._tenants) - _MAX_TENANTS
        for number, tenant in enumerate(idle):
            if number < too_many or self._tenants[tenant].last_cut_ns <= oldest_ns:
                del self._tenants[tenant]
        self._share()

    def _share(self) -> None:
        """Have each tenant remember its share of what may be remembered, however many there are
        now.
        """
        count = max(len(self._tenants), 1)
        if count != self._sharing:
            self._sharing = count
            for scheduler in self._tenants.values():
                scheduler.limit(count)


MAX_IDS = 50_000
"""Ids that are remembered, some 10 MB: above it the oldest are forgotten."""

_MAX_TRACES = 4
"""Traces with one id that are remembered, the latest: test servers give every answer the same
one.
"""


class RecentCalls:
    """Which traces have a model call with an id, as long as late spans may open them.

    Pure: the time is passed in.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._max_ids = MAX_IDS
        self._traces: OrderedDict[str, tuple[int, tuple[str, ...]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._traces)

    def limit(self, max_ids: int) -> None:
        """Remember at most so many from now on."""
        self._max_ids = max_ids
        while len(self._traces) > max_ids:
            self._traces.popitem(last=False)

    def add(self, ids_of_calls: Iterable[str], trace_id: str, now_ns: int) -> None:
        """Remember the ids of a trace's model calls."""
        for call_id in ids_of_calls:
            _, known = self._traces.pop(call_id, (0, ()))
            others = tuple(other for other in known if other != trace_id)
            self._traces[call_id] = now_ns, (*others[1 - _MAX_TRACES :], trace_id)
        self._forget_old(now_ns)

    def find(self, ids_of_calls: Iterable[str]) -> list[str]:
        """The traces that have one of these ids, the latest of each last."""
        found: dict[str, None] = {}
        for call_id in ids_of_calls:
            _, trace_ids = self._traces.get(call_id, (0, ()))
            found.update(dict.fromkeys(trace_ids))
        return list(found)

    def _forget_old(self, now_ns: int) -> None:
        """Forget the ids of traces that late spans cannot open any more, and the oldest of too
        many.
        """
        oldest_ns = now_ns - self._config.late_window
        while self._traces:
            added_ns, _ = next(iter(self._traces.values()))
            if len(self._traces) <= self._max_ids and added_ns > oldest_ns:
                return
            self._traces.popitem(last=False)
