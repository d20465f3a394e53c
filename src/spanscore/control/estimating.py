"""What a run would ask a judge, and what that costs at most, before it is created."""

import heapq
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from spanscore.control import listing
from spanscore.control.measurer import Measurer, Measurers
from spanscore.control.spec import RunSpec
from spanscore.evaluation import MAX_EARLIER_TURNS
from spanscore.evaluation.costing import CostedCall, costed
from spanscore.judge.config import Config
from spanscore.model.trace import AgentTrace
from spanscore.store.records import DAMAGED
from spanscore.store.store import Store

_PLANNED = 200
_MAX_EARLIER_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Estimated:
    """Upper bounds for all items, scaled up from those that were `planned`. `cost_usd` None: a price is not known."""

    candidates: int
    items: int
    planned: int
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    models: tuple[str, ...]


@dataclass(slots=True)
class _Total:
    """What calls take together; their prompts are not kept. `cost_usd` None: a price is not known."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    models: set[str] = field(default_factory=set)

    def add(self, call: CostedCall) -> None:
        cost_usd = call.estimate.cost_usd
        self.calls += 1
        self.input_tokens += call.estimate.input_tokens
        self.output_tokens += call.estimate.max_output_tokens
        self.cost_usd = None if self.cost_usd is None or cost_usd is None else self.cost_usd + cost_usd
        self.models.add(call.model)


class Estimating:
    """Plans some items of a run: those with the lowest draws, which are a sample of all that it would evaluate."""

    def __init__(
        self, store: Store, measurers: Measurers, judge: Config, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._store = store
        self._measurers = measurers
        self._judge = judge
        self._clock_ns = clock_ns

    def estimate(self, tenant: str, spec: RunSpec) -> Estimated:
        """What `spec` would cost a tenant. Blocks. Raises InputError as creating the run does."""
        measurer = self._measurers.of(spec)
        listing.refuse_unknown(self._store, tenant, spec.target)
        candidates, items, some = self._drawn(tenant, spec)
        total = _Total()
        for subject_id in some:
            for call in self._calls(tenant, spec, measurer, subject_id):
                total.add(call)
        factor = items / len(some) if some else 0.0
        return Estimated(
            candidates=candidates,
            items=items,
            planned=len(some),
            calls=round(total.calls * factor),
            input_tokens=round(total.input_tokens * factor),
            output_tokens=round(total.output_tokens * factor),
            cost_usd=None if total.cost_usd is None else total.cost_usd * factor,
            models=tuple(sorted(total.models)),
        )

    def _drawn(self, tenant: str, spec: RunSpec) -> tuple[int, int, list[str]]:
        """How many the target names, how many of them are drawn, and those of the lowest draws."""
        sampling = spec.target.sampling
        candidates = drawn = 0
        lowest: list[tuple[int, str]] = []
        for page in listing.every_page(self._store, tenant, spec.target, stored_by_ns=self._clock_ns()):
            taken = [(sampling.draw(x), x) for x in page if sampling.is_in_share(x)]
            candidates, drawn = candidates + len(page), drawn + len(taken)
            lowest = heapq.nsmallest(_PLANNED, itertools.chain(lowest, taken))
        items = drawn if sampling.count is None else min(drawn, sampling.count)
        return candidates, items, [subject_id for _, subject_id in lowest[:items]]

    def _calls(self, tenant: str, spec: RunSpec, measurer: Measurer, subject_id: str) -> Sequence[CostedCall]:
        engine, overrides = measurer.engine, measurer.overrides
        if spec.target.scope == "session":
            found = [x.session for x in self._store.sessions([subject_id], tenant=tenant)]
            planned = [
                call
                for session in found
                for call in (*engine.plan_signals(session, overrides), *engine.plan_session(session, overrides))
            ]
            return list(costed(planned, self._judge))
        trace = self._trace(tenant, subject_id)
        if trace is None:
            return []
        earlier = self._store.turns_before(trace, limit=MAX_EARLIER_TURNS, max_bytes=_MAX_EARLIER_BYTES)
        by_itself = engine.plan_rubric(trace, overrides) if trace.session_id is None else []
        return list(costed([*engine.plan(trace, overrides, earlier=earlier), *by_itself], self._judge))

    def _trace(self, tenant: str, trace_id: str) -> AgentTrace | None:
        """A trace; None where it is no longer stored, or its record is damaged."""
        try:
            return self._store.trace(trace_id, tenant=tenant)
        except DAMAGED:
            return None
