"""What verdicts count together: a sampled one by the inverse of its share, those of one session as
one.
"""

from collections.abc import Sequence

from spanscore.calibration.verdicts import Verdict
from spanscore.stats import Estimate, effective_number, mean


def clusters_of(verdicts: Sequence[Verdict]) -> list[str] | None:
    """For each verdict what is independent of the others: its session, or a trace that belongs to
    none.

    None where no session has more than one of them, so that all are independent.
    """
    sessions = [x.session_id for x in verdicts if x.session_id is not None and not x.is_session]
    if len(set(sessions)) == len(sessions):
        return None
    return [
        x.unit if x.session_id is None or x.is_session else f"session {x.session_id}"
        for x in verdicts
    ]


def weights_of(verdicts: Sequence[Verdict]) -> list[float] | None:
    """The inverse of the share by which each was drawn; None where all were drawn by the same."""
    weights = [1 / x.share for x in verdicts]
    return weights if len(set(weights)) > 1 else None


def estimated(
    values: Sequence[float],
    verdicts: Sequence[Verdict],
    level: float,
    bounds: tuple[float, float] = (0, 1),
) -> Estimate:
    """The mean of what `verdicts` have as `values`, weighted by their shares, clustered by their
    sessions.
    """
    return mean(
        values,
        level=level,
        weights=weights_of(verdicts),
        clusters=clusters_of(verdicts),
        bounds=bounds,
    )


def passing(verdicts: Sequence[Verdict]) -> list[float]:
    """1 for each that passes, 0 for the others."""
    return [float(bool(x.passed)) for x in verdicts]


def counted(verdicts: Sequence[Verdict]) -> tuple[float, float]:
    """How many pass and how many there are, in independent units of equal weight that would tell as
    much.
    """
    passed, weights = passing(verdicts), weights_of(verdicts)
    n = effective_number(passed, weights=weights, clusters=clusters_of(verdicts))
    each = weights or [1.0] * len(passed)
    return n * (sum(w * x for w, x in zip(each, passed, strict=True)) / sum(each)), n
