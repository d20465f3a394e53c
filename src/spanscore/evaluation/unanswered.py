"""What is worth another try: metrics that got no answer for a reason that passes or can be
mended.
"""

from typing import Final, Literal, NamedTuple, TypeAlias

from spanscore.errors import EmbeddingError, JudgeTimeoutError, JudgeUnavailableError
from spanscore.model.score import Evaluation, Failure, Skip

Cause: TypeAlias = Literal["judge", "embedding", "budget"]

FIRST_WAIT_NS: Final = 5 * 60 * 10**9
_BY_ERROR: dict[str, Cause] = {
    JudgeTimeoutError.__name__: "judge",
    JudgeUnavailableError.__name__: "judge",
    EmbeddingError.__name__: "embedding",
}


class Wait(NamedTuple):
    """How long to wait before the next try, doubled for each time in vain where `doubles`."""

    wait_ns: int
    doubles: bool


def cause_of(evaluation: Evaluation) -> Cause | None:
    """Why there was no answer; None where there was one, or another time would bring none
    either.
    """
    match evaluation.outcome:
        case Failure(type=error):
            return _BY_ERROR.get(error)
        case Skip(cause="budget"):
            return "budget"
    return None


def wait_for(cause: Cause, now_ns: int, window_ns: int) -> Wait:
    """The wait for what has this cause: for a budget until its next window of `window_ns` begins.

    >>> wait_for("budget", now_ns=70, window_ns=60)
    Wait(wait_ns=50, doubles=False)
    """
    if cause == "budget":
        return Wait(window_ns - now_ns % window_ns, doubles=False)
    return Wait(FIRST_WAIT_NS, doubles=True)
