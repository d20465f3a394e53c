"""Cut traces in, jobs to read them out: most traces by themselves, the traces of one turn when they
are all there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence

from spanscore import turns
from spanscore.assemble.assembler import Cut
from spanscore.assemble.config import Config
from spanscore.turn_scheduling.jobs import ReadJob, ReadResult, Source
from spanscore.turn_scheduling.tenant_scheduler import TenantScheduler

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
