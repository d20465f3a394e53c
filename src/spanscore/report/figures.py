"""Numbers over all scores of a run, each metric by itself: the mean, the share that pass, and how
sure both are.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spanscore.calibration import Verdict, estimated, passing
from spanscore.report.results import Figure
from spanscore.report.scored import Scored, as_json
from spanscore.stats import Estimate, mean

_LEVEL = 0.95


def estimate(found: Estimate | None) -> dict[str, Any] | None:
    """An estimate as a page shows it: value, limits, n, and how they were made."""
    if found is None:
        return None
    low, high = (found.interval.low, found.interval.high) if found.interval else (None, None)
    how = {
        "method": found.method,
        "level": found.interval.level if found.interval else None,
        "note": found.note,
    }
    return {
        "value": found.value,
        "low": low,
        "high": high,
        "n": found.n,
        **{k: v for k, v in how.items() if v},
    }


def figure(found: Figure) -> dict[str, Any]:
    """A figure as a page shows it."""
    return {
        "name": found.name,
        "note": found.note,
        "scale": list(found.scale),
        "unit": found.unit,
        "estimate": estimate(found.estimate),
    }


def by_metric(scores: Iterable[Scored]) -> list[dict[str, Any]]:
    """For each metric its counts, mean and pass rate; those with a failing score first, what others
    gave last.

    Sessions are the units of the estimates: scores of one session are not independent.
    """
    groups: defaultdict[tuple[str, str | None], list[Scored]] = defaultdict(list)
    for scored in scores:
        groups[scored.name].append(scored)
    rows = [{**_row(metric, own), "source": source} for (metric, source), own in groups.items()]
    return sorted(
        rows,
        key=lambda x: (
            x["source"] is not None,
            x["failing"] == 0,
            x["errors"] == 0,
            x["scored"] == 0,
        ),
    )


def passing_turns(states: Sequence[tuple[str, str | None]]) -> Estimate | None:
    """The share of turns that pass among those with a verdict, each given with its session;
    sessions are the units.
    """
    decided = [
        (float(found == "pass"), session) for found, session in states if found in {"pass", "fail"}
    ]
    if not decided:
        return None
    clusters = [
        f"turn {place}" if session is None else session
        for place, (_, session) in enumerate(decided)
    ]
    are_independent = len(set(clusters)) == len(clusters)
    return mean(
        [x for x, _ in decided], level=_LEVEL, clusters=None if are_independent else clusters
    )


def _row(metric: str, own: Sequence[Scored]) -> dict[str, Any]:
    states = Counter(x.status for x in own)
    verdicts = [found for x in own if (found := _verdict(as_json(x.raw))) is not None]
    return {
        "metric": metric,
        "scored": states["scored"],
        "skipped": states["skipped"],
        "errors": states["failed"],
        "passing": sum(x.passed is True for x in own),
        "failing": sum(x.passed is False for x in own),
        "scale": list(verdicts[0].scale) if verdicts else None,
        "mean": estimate(_mean(verdicts)),
        "rate": estimate(_rate(verdicts)),
    }


def _mean(verdicts: Sequence[Verdict]) -> Estimate | None:
    if not verdicts:
        return None
    low = min(min(x.scale[0], x.value) for x in verdicts)
    high = max(max(x.scale[1], x.value) for x in verdicts)
    return estimated([x.value for x in verdicts], verdicts, _LEVEL, (low, high))


def _rate(verdicts: Sequence[Verdict]) -> Estimate | None:
    """The share that pass; where several judges scored, of all their verdicts together, which its
    note says.
    """
    decided = [x for x in verdicts if x.passed is not None]
    if not decided:
        return None
    found = estimated(passing(decided), decided, _LEVEL)
    judges = len({x.judge for x in decided})
    return found if judges == 1 else replace(found, note=f"of {judges} judges or prompts together")


def _verdict(score: Mapping[str, Any]) -> Verdict | None:
    """The verdict of a score; None where it has no value on a scale."""
    try:
        return Verdict.of_json(score)
    except (KeyError, TypeError, ValueError):
        return None
