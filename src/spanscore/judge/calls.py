"""What asking models amounts to: calls, tokens, cost, time and what was spared, for spanscore's own
metrics.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from spanscore.judge.budget import Budget
from spanscore.judge.provider import CallError, Completion
from spanscore.judge.retries import Timing
from spanscore.telemetry import Meter, declared


class Calls:
    """Counts for one judge."""

    def __init__(self, meter: Meter, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._meter = meter
        self._clock_s = clock_s

    def watch(self, budget: Budget, timing: Timing) -> None:
        """Have the meter ask what is left of the budget."""

        def left() -> dict[tuple[str, ...], float]:
            return {(unit,): left for unit, (left, _) in budget.left(timing.clock_ns()).items()}

        def limits() -> dict[tuple[str, ...], float]:
            return {(unit,): limit for unit, (_, limit) in budget.left(timing.clock_ns()).items()}

        self._meter.watch(declared.JUDGE_BUDGET_LEFT, left)
        self._meter.watch(declared.JUDGE_BUDGET_LIMIT, limits)

    @contextmanager
    def timed(self, model: str) -> Iterator[None]:
        """One call, by how it ended.

        What is cancelled is not counted: it ended in no way of the provider's.
        """
        started_s = self._clock_s()
        outcome = "ok"
        try:
            yield
        except CallError as error:
            outcome = outcome_of(error)
            self._called(model, outcome, started_s)
            raise
        self._called(model, outcome, started_s)

    def took(self, model: str, completion: Completion) -> None:
        """What a call that was answered took."""
        self._meter.add(declared.JUDGE_TOKENS, completion.input_tokens, model=model, type="input")
        self._meter.add(declared.JUDGE_TOKENS, completion.output_tokens, model=model, type="output")
        if completion.cost_usd is None:
            self._meter.add(declared.JUDGE_UNPRICED_CALLS, model=model)
        else:
            self._meter.add(declared.JUDGE_COST, completion.cost_usd, model=model)

    def kept(self, model: str, *, found: bool) -> None:
        """An answer was looked for among those that were kept."""
        self._meter.add(
            declared.JUDGE_CACHE_HITS if found else declared.JUDGE_CACHE_MISSES, model=model
        )

    def repaired(self, model: str) -> None:
        """An answer did not fit, and is asked for again."""
        self._meter.add(declared.JUDGE_REPAIRS, model=model)

    def retried(self, model: str) -> None:
        """A call is made again."""
        self._meter.add(declared.JUDGE_RETRIES, model=model)

    def _called(self, model: str, outcome: str, started_s: float) -> None:
        self._meter.add(declared.JUDGE_CALLS, model=model, outcome=outcome)
        self._meter.observe(
            declared.JUDGE_CALL_DURATION, self._clock_s() - started_s, model=model, outcome=outcome
        )


def outcome_of(error: CallError) -> str:
    """One of few words for how a call failed.

    >>> outcome_of(CallError("slow down", status=429))
    'rate_limited'
    """
    if error.timed_out:
        return "timeout"
    if error.status == 429:
        return "rate_limited"
    return "unavailable" if error.status is None or error.status >= 500 else "refused"
