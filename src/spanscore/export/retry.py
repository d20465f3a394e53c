"""How long to wait before sending again: pure, with time and chance passed in."""

from dataclasses import dataclass, replace

from spanscore.export.connection_config import RetryOnFailure

MAX_REQUESTED_WAIT_S = 300.0
"""The longest wait that a backend may ask for, in seconds; one that asks for a day would stop its
scores for a day.
"""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Where one request stands: when it was first tried, and the wait that comes next, both in
    nanoseconds.
    """

    config: RetryOnFailure
    started_ns: int
    interval_ns: int
    faulty_since_ns: int | None = None
    """Since when the backend has answered with faults of its own and with nothing else."""

    @classmethod
    def begin(cls, config: RetryOnFailure, now_ns: int) -> "Backoff":
        """The state before the first retry."""
        return cls(config, now_ns, config.initial_interval)

    def answered(self, *, fault: bool, now_ns: int) -> "Backoff":
        """The state after an answer, before its wait; `fault`: the backend's own."""
        since_ns = self.faulty_since_ns if fault and self.faulty_since_ns is not None else now_ns
        return replace(self, faulty_since_ns=since_ns if fault else None)

    def wait_s(self, requested_wait_s: float | None, chance: float, now_ns: int) -> float | None:
        """Seconds to wait now; None: give up.

        `requested_wait_s` is what the backend asked for, `chance` a random number in [0, 1).
        """
        spread = self.config.randomization_factor * (2 * chance - 1)
        wait_s = (
            self.interval_ns * (1 + spread) / 1e9
            if requested_wait_s is None
            else min(requested_wait_s, MAX_REQUESTED_WAIT_S)
        )
        then_ns = now_ns + wait_s * 1e9
        too_late = (
            self.config.max_elapsed_time
            and then_ns > self.started_ns + self.config.max_elapsed_time
        )
        faulty_too_long = (
            self.faulty_since_ns is not None
            and then_ns > self.faulty_since_ns + self.config.max_fault_time
        )
        return None if too_late or faulty_too_long or not self.config.enabled else wait_s

    def next(self) -> "Backoff":
        """The state after one more failure."""
        longer_ns = min(round(self.interval_ns * self.config.multiplier), self.config.max_interval)
        return replace(self, interval_ns=longer_ns)
