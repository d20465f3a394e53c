"""Differences between two runs, measure by measure."""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

from spanscore import metrics, stats
from spanscore.cli.score_files import PROVENANCE, Run, Unit
from spanscore.stats import Estimate, Interval, NotEstimableError, connected, mean

Verdict: TypeAlias = Literal["better", "worse", "cannot tell"]
Independent: TypeAlias = Literal["session", "case"]

PASS_RATE, SCORE, LATENCY = "pass rate", "score", "latency"
_FEW_CASES = 500
"""With more cases than that, those that cannot tell are left without an interval: it takes 10 ms of
work each.
"""
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may lose before it is a regression: a share, points of 100, a share of the
    time.
    """

    pass_rate_drop: float = 0.0
    score_drop: float = 5.0
    latency_rise: float = 0.2


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure over the `pairs` that both runs have; `a` and `b` are means over them,
    `difference` is b - a.

    `n` counts what is independent among the pairs: the turns of one session are one. `change` is
    what the limits are compared with: a share for the pass rate and the latency, points of 100 for
    a score. `unlike` is how its scores in the two runs were made differently, `too_few` what there
    are not enough of to tell.
    """

    name: str
    a: Estimate
    b: Estimate
    n: int
    pairs: int
    difference: Estimate
    change: float
    verdict: Verdict
    regression: str = ""
    unlike: str = ""
    too_few: str = ""

    def to_json(self) -> dict[str, Any]:
        """As `--json` has it."""
        estimates = {x: getattr(self, x).to_json() for x in ("a", "b", "difference")}
        names = ("a", "b", "n", "pairs", "difference", "change", "verdict")
        known = {x: estimates.get(x, getattr(self, x)) for x in names}
        notes = {"regression": self.regression or None, "note": self.note or None}
        return {"measure": self.name, **known, **notes}

    @property
    def note(self) -> str:
        """Why its difference tells nothing, or not enough."""
        return "; ".join(filter(None, (self.unlike, self.too_few)))


@dataclass(frozen=True, slots=True)
class CaseChange:
    """One case in both runs: its status in each, and the means of its measures over its trials, in
    A and in B.

    `measure` is its score where that changed, else what changed most; `difference` and `verdict`
    are of that.
    """

    name: str
    a: str
    b: str
    measure: str
    means: Mapping[str, tuple[float, float]]
    difference: Estimate | None
    verdict: Verdict

    @property
    def is_changed(self) -> bool:
        """Whether its status, or a mean, is another one in B."""
        return self.a != self.b or any(a != b for a, b in self.means.values())

    def to_json(self) -> dict[str, Any]:
        """As `--json` has it."""
        return {
            "id": self.name,
            "status": [self.a, self.b],
            "measure": self.measure,
            "means": {name: list(pair) for name, pair in self.means.items()},
            "difference": self.difference.to_json() if self.difference else None,
            "verdict": self.verdict,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs compared. `level` holds for all measures together, `each_level` for one of them.

    Both runs have `units` that are independent of each other, each a `unit`; `members` are the
    turns, or a suite's cases, that they consist of.
    """

    measures: tuple[Measure, ...]
    cases: tuple[CaseChange, ...]
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]
    not_comparable: tuple[str, ...]
    level: float
    each_level: float
    unit: Independent
    units: int
    member: Literal["turn", "case"]
    members: int

    @property
    def least_units(self) -> int:
        """How many sessions, or cases, it takes to tell anything."""
        return least_units(self.each_level)

    @property
    def regressions(self) -> list[str]:
        """What is past the limits, in words."""
        return [x.regression for x in self.measures if x.regression]

    @property
    def verdict(self) -> Verdict:
        """Worse where any measure is, better where one is and none is worse."""
        found = {x.verdict for x in self.measures}
        return "worse" if "worse" in found else "better" if "better" in found else "cannot tell"


@dataclass(frozen=True, slots=True)
class _Pairs:
    """A measure's values: a pair for each case; `higher` says whether more is better.

    `clusters` has a number for each pair: pairs of the same one are not independent.
    """

    name: str
    a: tuple[float, ...]
    b: tuple[float, ...]
    clusters: tuple[int, ...]
    bounds: tuple[float, float]
    higher: bool = True

    @property
    def n(self) -> int:
        """How many clusters there are."""
        return len(set(self.clusters))

    @property
    def dependent(self) -> tuple[int, ...] | None:
        """The clusters; None where each pair is one by itself."""
        return None if self.n == len(self.clusters) else self.clusters


def compare(a: Run, b: Run, *, limits: Limits, certain: bool, level: float = 0.95) -> Comparison:
    """Compare two runs; `certain`: only what the interval is sure of is a regression."""
    shared = [name for name in a.units if name in b.units]
    units = [(a.units[name], b.units[name]) for name in shared]
    clusters = connected(_sessions(*x) for x in units)
    independent = len(set(clusters))
    unit: Independent = "case" if a.of_suite and independent == len(units) else "session"
    found = list(_pairs(units, clusters, a, b))
    # Bonferroni: all intervals together hold at `level`
    each = 1 - (1 - level) / max(len(found), 1)
    unlike = _unlike(a, b)
    measures: list[Measure] = []
    for pairs in found:
        measure = _measure(pairs, each, limits, unlike.get(pairs.name, ""), certain=certain)
        if measure.n < least_units(each):
            measure = replace(measure, too_few=f"too few {unit}s")
        measures.append(measure)
    return Comparison(
        tuple(measures),
        _cases(a, b, level),
        tuple(name for name in a.units if name not in b.units),
        tuple(name for name in b.units if name not in a.units),
        tuple(unlike.values()),
        level,
        each,
        unit,
        independent,
        "case" if a.of_suite else "turn",
        len(units) if a.of_suite else sum(x.is_turn for x, _ in units),
    )


def _cases(a: Run, b: Run, level: float) -> tuple[CaseChange, ...]:
    """The cases in both runs, whose intervals hold together at `level`."""
    shared = [name for name in a.units if name in b.units]
    each = 1 - (1 - level) / max(len(shared), 1)
    how: dict[str, Any] = {"level": each, "few": len(shared) <= _FEW_CASES}
    scales = {**b.scales, **a.scales}
    return tuple(_case(name, a.units[name], b.units[name], scales, **how) for name in shared)


def least_units(level: float) -> int:
    """Fewer sessions than this can never tell at `level`: were each sign chance, all would agree
    too often.

    >>> least_units(0.95)
    6
    """
    return math.ceil(1 - math.log2(1 - level) - _TOLERANCE)


def _sessions(a: Unit, b: Unit) -> set[tuple[str, str]]:
    """The sessions of a pair; what is called alike in the two runs need not be the same session."""
    return {("A", x) for x in a.sessions} | {("B", x) for x in b.sessions}


def _pairs(
    units: Sequence[tuple[Unit, Unit]], clusters: Sequence[int], a: Run, b: Run
) -> Iterator[_Pairs]:
    """The measures that any case has in both runs: of each case the means over its trials."""

    def paired(
        name: str, of: Callable[[Unit], Sequence[float]], scale: tuple[float, float], **how: bool
    ) -> _Pairs:
        both = [(x, y, z) for (x, y), z in zip(units, clusters, strict=True) if of(x) and of(y)]
        of_a, of_b = (_mean(of(x)) for x, _, _ in both), (_mean(of(y)) for _, y, _ in both)
        return _Pairs(name, tuple(of_a), tuple(of_b), tuple(z for _, _, z in both), scale, **how)

    found = [paired(PASS_RATE, lambda x: x.passed, (0.0, 1.0))]
    found += [paired(SCORE, lambda x: x.scores, (0.0, 100.0))]
    for metric in dict.fromkeys((*a.scales, *b.scales)):
        known = metrics.available().get(metric)
        scale = a.scales.get(metric) or b.scales[metric]
        higher = known is None or known.better == "higher"
        found.append(paired(metric, partial(_of_metric, metric), scale, higher=higher))
    times = paired(LATENCY, lambda x: x.latencies_s, (0.0, math.inf), higher=False)
    longest = max((*times.a, *times.b), default=0.0) or 1.0
    yield from (x for x in (*found, replace(times, bounds=(0.0, longest))) if x.a)


def _of_metric(metric: str, unit: Unit) -> Sequence[float]:
    return unit.metrics.get(metric, ())


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _measure(pairs: _Pairs, level: float, limits: Limits, unlike: str, *, certain: bool) -> Measure:
    low, high = pairs.bounds
    how: dict[str, Any] = {"level": level, "clusters": pairs.dependent, "bounds": pairs.bounds}
    difference = stats.paired_difference(pairs.a, pairs.b, **how)
    a, b = mean(pairs.a, **how), mean(pairs.b, **how)
    verdict = _verdict(difference.interval, pairs.n, level, higher=pairs.higher)
    change = _relative(a.value, b.value) if pairs.name == LATENCY else difference.value
    if pairs.name not in {LATENCY, PASS_RATE}:
        change = 100 * difference.value / (high - low) if high > low else 0.0
    past = _past(pairs, change, limits)
    if certain and verdict != "worse":
        past = ""
    shown = "cannot tell" if unlike else verdict
    return Measure(pairs.name, a, b, pairs.n, len(pairs.a), difference, change, shown, past, unlike)


def _verdict(interval: Interval | None, n: int, level: float, *, higher: bool = True) -> Verdict:
    if interval is None or n < least_units(level) or interval.low <= 0 <= interval.high:
        return "cannot tell"
    return "better" if (interval.low > 0) == higher else "worse"


def _relative(a: float, b: float) -> float:
    """By what share `b` is above `a`; from nothing to something is a rise without end."""
    return (b - a) / a if a else math.inf if b else 0.0


def _past(pairs: _Pairs, change: float, limits: Limits) -> str:
    """Which limit a change is past, in words; else ""."""
    if pairs.name == LATENCY:
        past = change > limits.latency_rise + _TOLERANCE
        rise = f"by {change:.1%}" if math.isfinite(change) else "from 0"
        change_text = f"rose {rise} (at most {limits.latency_rise:.1%})"
    elif pairs.name == PASS_RATE:
        past = -change > limits.pass_rate_drop + _TOLERANCE
        change_text = f"fell by {-change:.1%} (at most {limits.pass_rate_drop:.1%})"
    else:
        lost = -change if pairs.higher else change
        past = lost > limits.score_drop + _TOLERANCE
        change_text = f"lost {lost:.1f} points of 100 (at most {limits.score_drop:g})"
    return f"{pairs.name} {change_text}" if past else ""


def _case(
    name: str,
    a: Unit,
    b: Unit,
    scales: Mapping[str, tuple[float, float]],
    level: float,
    *,
    few: bool,
) -> CaseChange:
    """What became of one case; its trials in the two runs are no pairs.

    `few`: there are not too many cases.
    """
    measured = {PASS_RATE: (a.passed, b.passed, (0.0, 1.0))}
    measured[SCORE] = (a.scores, b.scores, (0.0, 100.0))
    for metric, scale in scales.items():
        measured[metric] = (a.metrics.get(metric, []), b.metrics.get(metric, []), scale)
    both = {key: x for key, x in measured.items() if x[0] and x[1]}
    means = {key: (_mean(one), _mean(other)) for key, (one, other, _) in both.items()}
    if not both:
        return CaseChange(name, a.status, b.status, "", means, None, "cannot tell")
    moved = {key: _moved(*means[key], both[key][2]) for key in both}
    measure = SCORE if moved.get(SCORE) else max(moved, key=lambda key: (moved[key], key == SCORE))
    one, other, bounds = both[measure]
    difference = None
    if min(len(one), len(other)) > 1 and (few or _could_differ(one, other, level)):
        with contextlib.suppress(NotEstimableError):
            difference = stats.unpaired_difference(one, other, level=level, bounds=bounds)
    verdict = _distinguished(one, other, difference, level)
    return CaseChange(name, a.status, b.status, measure, means, difference, verdict)


def _moved(a: float, b: float, scale: tuple[float, float]) -> float:
    """How far apart two means are, as a share of their scale."""
    return abs(b - a) / (scale[1] - scale[0]) if scale[1] > scale[0] else 0.0


def _distinguished(
    a: Sequence[float], b: Sequence[float], difference: Estimate | None, level: float
) -> Verdict:
    """As `_verdict`, for what is no pairs."""
    if difference is None or not _could_differ(a, b, level):
        return "cannot tell"
    return _verdict(difference.interval, least_units(level), level)


def _could_differ(a: Sequence[float], b: Sequence[float], level: float) -> bool:
    """Whether some order of so many trials would be rare enough."""
    return 2 / math.comb(len(a) + len(b), len(a)) <= 1 - level + _TOLERANCE


def _unlike(a: Run, b: Run) -> dict[str, str]:
    """By metric, how its scores in the two runs were made differently, so that they cannot be
    compared.
    """
    found: dict[str, str] = {}
    for metric in a.scales.keys() & b.scales.keys():
        one, other = a.evaluators[metric], b.evaluators[metric]
        if a.scales[metric] != b.scales[metric]:
            both = f"{a.scales[metric]} in A and {b.scales[metric]} in B"
            found[metric] = f"{metric}: the scale is {both}"
        elif not (one <= other or other <= one):
            found[metric] = f"{metric}: {_differing(one, other)}"
    return dict(sorted(found.items()))


def _differing(a: set[tuple[Any, ...]], b: set[tuple[Any, ...]]) -> str:
    """Which facts of the evaluators differ, with what they are in both runs."""
    parts = []
    for place, name in enumerate(PROVENANCE):
        one, other = ({str(x[place]) for x in evaluators} for evaluators in (a, b))
        if one != other:
            parts.append(f"{name} {'/'.join(sorted(one))} in A, {'/'.join(sorted(other))} in B")
    return "; ".join(parts)
