"""Agreement of a judge with labels, and corrected pass rates."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar

from spanscore import stats
from spanscore.calibration.certificate import Certificate
from spanscore.calibration.labels import Matched, Pair
from spanscore.calibration.verdicts import (
    Judge,
    Verdict,
    clusters_of,
    counted,
    estimated,
    key_of,
    passing,
    weights_of,
)
from spanscore.judge.config import Certificate as Required
from spanscore.lazy_imports import np

_SCHEMA = "spanscore.calibration/1"
_MAX_UNITS = 100_000
_Found = TypeVar("_Found")
_Asked: TypeAlias = tuple[str, Callable[[], stats.Estimate]]
_JUDGE = ("metric", "name", "version", "model", "prompt_hash", "embedding", "threshold")


@dataclass(frozen=True, slots=True)
class Calibration:
    """A judge's errors as counted on human labels; `made_at_ns` is when, in Unix ns.

    `labelled` has what people say of each unit, at most the first 100,000: where they are scored
    again, they tell more than the judge's errors do. `design_effects` are those of sessions on its
    sensitivity and specificity, 1 where each label is of another session. `certificate` is None
    where none was tried for; `used` are the labelled units of all that were.
    """

    judge: Judge
    confusion: stats.Confusion
    made_at_ns: int
    labelled: Mapping[str, bool] = field(default_factory=dict)
    design_effects: tuple[float, float] = (1.0, 1.0)
    certificate: Certificate | None = None
    used: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """As `key_of` has it."""
        return key_of(self.judge)

    @property
    def date(self) -> str:
        """The day on which it was made, in UTC."""
        return datetime.fromtimestamp(self.made_at_ns / 1e9, UTC).date().isoformat()

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        labels = {"passing": [x for x, passes in self.labelled.items() if passes]}
        labels["failing"] = [x for x, passes in self.labelled.items() if not passes]
        return {
            "schema": _SCHEMA,
            "judge": dict(zip(_JUDGE, self.judge, strict=True)),
            "confusion": asdict(self.confusion),
            "design_effects": list(self.design_effects),
            "made_at_ns": self.made_at_ns,
            **labels,
            "certificate": self.certificate and self.certificate.to_json(),
            "used": list(self.used),
        }

    @classmethod
    def from_json(cls, data: Any) -> "Calibration | None":
        """What `to_json` gave; None for what another version wrote."""
        if data.get("schema") != _SCHEMA:
            return None
        judge: Any = tuple(data["judge"][name] for name in _JUDGE)
        labelled = dict.fromkeys(data["passing"], True) | dict.fromkeys(data["failing"], False)
        effects = tuple(data.get("design_effects", (1.0, 1.0)))
        table, certificate = stats.Confusion(**data["confusion"]), data.get("certificate")
        made_at_ns, used = data["made_at_ns"], tuple(data.get("used", ()))
        own = Certificate.from_json(certificate)
        return cls(judge, table, made_at_ns, labelled, effects, own, used)


@dataclass(frozen=True, slots=True)
class Measure:
    """A named estimate, or the reason why there is none."""

    name: str
    estimate: stats.Estimate | None
    why_not: str = ""


def calibration(matched: Matched, made_at_ns: int) -> Calibration:
    """The judge's errors on the labels."""
    labelled = {x.verdict.unit: x.passes for x in matched.pairs[:_MAX_UNITS]}
    table, effects = _weighed(matched), _design_effects(matched)
    return Calibration(matched.judge, table, made_at_ns, labelled, effects)


def calibrations(
    found: Iterable[Matched], made_at_ns: int, required: Required | None, records: Iterable[Any]
) -> dict[str, Any]:
    """The records to keep of judges, by their keys, `records` being all that are kept.

    Where a certificate is `required`, each judge is held to one on the labels that none used
    before, passed or failed; where these are too few, its own before stays as it is.
    """
    known = {x.key: x for record in records if (x := Calibration.from_json(record)) is not None}
    made = {}
    for matched in found:
        one = _certifying(calibration(matched, made_at_ns), matched, required, known)
        known[one.key] = one
        made[one.key] = one.to_json()
    return made


def _certifying(
    made: Calibration, matched: Matched, required: Required | None, known: Mapping[str, Calibration]
) -> Calibration:
    own = known.get(made.key, made)
    used = {unit for x in known.values() if x.judge[0] == made.judge[0] for unit in x.used}
    fresh = replace(matched, pairs=[x for x in matched.pairs if x.verdict.unit not in used])
    n = len(fresh.pairs)
    if required is None or n < required.min_labels:
        return replace(made, certificate=own.certificate, used=own.used)
    certificate = Certificate(_weighed(fresh), _design_effects(fresh), n)
    units = tuple(x.verdict.unit for x in fresh.pairs)
    return replace(made, certificate=certificate, used=own.used + units)


def measures(matched: Matched, level: float) -> list[Measure]:
    """Everything that the labels show about the judge, and the pass rates with them, in the order
    to print it.
    """
    asked = (*_agreement(matched, level), *_rates(matched, level), *_annotators(matched, level))
    return [_measured(name, ask) for name, ask in asked]


def _agreement(matched: Matched, level: float) -> Iterator[_Asked]:
    """How the judge agrees with people."""
    verdicts = [x.verdict for x in matched.pairs]
    labels, scores = [x.passes for x in matched.pairs], [x.value for x in verdicts]
    passed, share = [bool(x.passed) for x in verdicts], partial(_share, matched, level)
    given: dict[str, Any] = {"level": level, "clusters": clusters_of(verdicts)}
    yield "agreement", partial(share, lambda _: True, "there are no labels")
    yield "Cohen's kappa", _unweighted(matched, partial(stats.kappa, labels, passed, **given))
    yield "sensitivity", partial(share, lambda x: x.passes, "no label says pass")
    yield "specificity", partial(share, lambda x: not x.passes, "no label says fail")
    yield "precision", partial(share, lambda x: bool(x.verdict.passed), "the judge passed nothing")
    if len({*scores, *(x.value for x in matched.others)}) > 2:
        best = partial(stats.best_threshold, labels, scores, bounds=_bounds(matched), **given)
        yield "AUC", _unweighted(matched, partial(stats.auc, labels, scores, **given))
        yield "best threshold", _unweighted(matched, best)
        yield "threshold of most agreement", _unweighted(matched, partial(best, by="agreement"))


def _annotators(matched: Matched, level: float) -> Iterator[_Asked]:
    """How people agree with each other."""
    for one, other, a, b, clusters in matched.annotator_pairs():
        for name, of in (("agreement", stats.agreement), ("kappa", stats.kappa)):
            yield f"{name} of {one} and {other}", partial(of, a, b, level=level, clusters=clusters)


def unsure(matched: Matched, level: float, most_wrong: float) -> stats.Unsure:
    """The scores on which another judge is worth asking.

    Raises NotEstimableError, with the reason.
    """
    if matched.judge[-1] is None:
        raise stats.NotEstimableError("the judge has no threshold")
    threshold, verdicts = matched.judge[-1], [x.verdict for x in matched.pairs]

    ask = partial(
        stats.unsure_scores,
        [x.passes for x in matched.pairs],
        [x.value for x in verdicts],
        threshold=threshold,
        bounds=_bounds(matched),
        most_wrong=most_wrong,
        level=level,
        clusters=clusters_of(verdicts),
    )
    return _unweighted(matched, ask)()


def _unweighted(matched: Matched, ask: Callable[[], _Found]) -> Callable[[], _Found]:
    """What is asked, where all that was scored was drawn by one share: it knows no weights."""

    def from_answers() -> _Found:
        if weights_of([*(x.verdict for x in matched.pairs), *matched.others]) is not None:
            raise stats.NotEstimableError(
                "what was scored was sampled by several shares, and it knows no weights"
            )
        return ask()

    return from_answers


def _share(
    matched: Matched, level: float, is_of: Callable[[Pair], bool], why_none: str
) -> stats.Estimate:
    """The share on which the judge is right, of the pairs that are meant."""
    own = [x for x in matched.pairs if is_of(x)]
    if not own:
        raise stats.NotEstimableError(why_none)
    return estimated(_right(own), [x.verdict for x in own], level)


def _weighed(matched: Matched) -> stats.Confusion:
    """The judge's errors, where units were drawn by several shares of as many of equal weight as
    would tell them.
    """
    if weights_of([x.verdict for x in matched.pairs]) is None:
        return counted_pairs(matched)
    counts = []
    for passes in (True, False):
        own = [x for x in matched.pairs if x.passes is passes]
        weights = np.array([1 / x.verdict.share for x in own])
        n = weights.sum() ** 2 / (weights**2).sum() if own else 0.0
        right = n * float(weights @ np.array(_right(own))) / weights.sum() if own else 0.0
        counts.append((right, n - right))
    (true_pass, false_fail), (true_fail, false_pass) = counts
    return stats.Confusion(true_pass, false_fail, false_pass, true_fail)


def _right(pairs: Sequence[Pair]) -> list[float]:
    return [float(x.passes == bool(x.verdict.passed)) for x in pairs]


def _design_effects(matched: Matched) -> tuple[float, float]:
    """Of sessions on sensitivity and specificity."""
    effects = []
    for passes in (True, False):
        own = [x for x in matched.pairs if x.passes is passes]
        right, clusters = np.array(_right(own)), clusters_of([x.verdict for x in own])
        effects.append(stats.design_effect(right - right.mean(), clusters) if clusters else 1.0)
    return effects[0], effects[1]


def _rates(matched: Matched, level: float) -> Iterator[_Asked]:
    """The pass rate by people, by the judge, and by both together."""
    labelled, others = [x.verdict for x in matched.pairs], list(matched.others)
    labels, table = [float(x.passes) for x in matched.pairs], _weighed(matched)
    effects, everything = _design_effects(matched), [*labelled, *others]
    yield "pass rate by people, labelled", lambda: estimated(labels, labelled, level)
    yield "pass rate by the judge, all", lambda: estimated(passing(everything), everything, level)
    if others:
        corrected = partial(stats.corrected_rate, level=level, design_effects=effects)
        yield "pass rate corrected, unlabelled", lambda: corrected(*counted(others), table)
    powered = partial(_powered, labelled, others, level)
    rate = partial(powered, labels, passing(labelled), passing(others))
    yield "pass rate prediction-powered, all", _unweighted(matched, rate)
    if matched.is_graded:
        grades, scores = [x.label for x in matched.pairs], [x.value for x in labelled]
        rest, bounds, clusters = [x.value for x in others], _bounds(matched), clusters_of(labelled)
        less = partial(
            stats.paired_difference, grades, scores, level=level, bounds=bounds, clusters=clusters
        )
        yield "grade, judge less people", _unweighted(matched, less)
        mean = partial(powered, grades, scores, rest, bounds)
        yield "mean grade prediction-powered, all", _unweighted(matched, mean)


def _powered(
    labelled: Sequence[Verdict],
    rest: Sequence[Verdict],
    level: float,
    labels: Sequence[float],
    scores: Sequence[float],
    others: Sequence[float],
    bounds: tuple[float, float] = (0, 1),
) -> stats.Estimate:
    """The prediction-powered mean, clustered by sessions.

    The labels must be drawn as the others were.
    """
    clusters, n = clusters_of([*labelled, *rest]), len(labels)
    of_each = (clusters[:n], clusters[n:]) if clusters else None
    return stats.prediction_powered_mean(
        labels, scores, others, level=level, clusters=of_each, bounds=bounds
    )


def _bounds(matched: Matched) -> tuple[float, float]:
    """The scale of the scores, wide enough for them and the grades."""
    low, high = matched.pairs[0].verdict.scale if matched.pairs else (0.0, 1.0)
    given = [x.label for x in matched.pairs] if matched.is_graded else []
    given += [x.value for x in (*(pair.verdict for pair in matched.pairs), *matched.others)]
    return min([low, *given]), max([high, *given])


def _measured(name: str, ask: Callable[[], stats.Estimate]) -> Measure:
    try:
        return Measure(name, ask())
    except stats.NotEstimableError as reason:
        return Measure(name, None, str(reason))


def counted_pairs(matched: Matched) -> stats.Confusion:
    """The labels beside the judge's verdicts, each once."""
    pairs: Sequence[Any] = matched.pairs
    return stats.confusion([x.passes for x in pairs], [bool(x.verdict.passed) for x in pairs])


_MAX_POINTS = 20


class Point(NamedTuple):
    """Agreement and Cohen's kappa of the first `n` labelled units, the last of them labelled at
    `labelled_ns`.
    """

    labelled_ns: int
    n: int
    agreement: Measure
    kappa: Measure


def growth(matched: Matched, given_ns: Mapping[str, int], level: float) -> list[Point]:
    """At most 20 points, after as many labels each, the last after all.

    `given_ns` is when each trace or session was labelled, by any of its names, in Unix ns.
    """

    def labelled_ns(place: int) -> int:
        names = matched.pairs[place].verdict.names
        return max((given_ns[x] for x in names if x in given_ns), default=0)

    order = sorted(range(len(matched.pairs)), key=labelled_ns)
    count = min(_MAX_POINTS, len(order))
    found = []
    for n in sorted({round(len(order) * step / count) for step in range(1, count + 1)}):
        pairs = [matched.pairs[x] for x in order[:n]]
        first = replace(matched, pairs=pairs, others=(), annotators={})
        of_judge, its_kappa = (_measured(*x) for x in islice(_agreement(first, level), 2))
        found.append(Point(labelled_ns(order[n - 1]), n, of_judge, its_kappa))
    return found


@dataclass(frozen=True, slots=True)
class PassRate:
    """The share of a metric's verdicts that pass, by the judge and corrected for its measured
    error.

    `note` says which calibration that rests on, or why there is no correction; it is empty where
    the metric was never calibrated.
    """

    metric: str
    judged: stats.Estimate
    corrected: stats.Estimate | None
    note: str

    def to_json(self) -> dict[str, Any]:
        """As JSON has it."""
        corrected = self.corrected and self.corrected.to_json()
        rates = {"judged": self.judged.to_json(), "corrected": corrected}
        return {"metric": self.metric, **rates, "note": self.note}


def pass_rates(
    verdicts: Iterable[Verdict], calibrations: Sequence[Calibration], *, level: float = 0.95
) -> list[PassRate]:
    """The pass rates of each judge in `verdicts`, those without a verdict left out.

    Traces of one session count as one unit, and a sampled one by the inverse of its share.
    """
    groups: defaultdict[Judge, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.passed is not None:
            groups[verdict.judge].append(verdict)
    return [_pass_rate(judge, found, calibrations, level) for judge, found in groups.items()]


def _pass_rate(
    judge: Judge, verdicts: Sequence[Verdict], calibrations: Sequence[Calibration], level: float
) -> PassRate:
    judged = estimated(passing(verdicts), verdicts, level)
    of_metric = [x for x in calibrations if x.judge[0] == judge[0]]
    found = next((x for x in of_metric if x.judge == judge), None)
    corrected, note = None, _not_applied(judge, of_metric)
    if found is not None:
        try:
            corrected, note = _corrected(judged, verdicts, found, level)
            note += f"; {corrected.note}" if corrected.note else ""
        except stats.NotEstimableError as reason:
            note = f"not corrected by the {_described(found)}: {reason}"
    return PassRate(judge[0], judged, corrected, note)


def _corrected(
    judged: stats.Estimate, verdicts: Sequence[Verdict], found: Calibration, level: float
) -> tuple[stats.Estimate, str]:
    """The rate and what it rests on.

    By the labels of the very units where most of them are among these, which then count one each:
    Rogan and Gladen's estimate is for units other than the labelled.
    """
    among = [x for x in verdicts if x.unit in found.labelled]
    if 2 * len(among) >= len(found.labelled) and len(among) > 1 and weights_of(verdicts) is None:
        rest = [x for x in verdicts if x.unit not in found.labelled]
        labels = [float(found.labelled[x.unit]) for x in among]
        powered = _powered(among, rest, level, labels, passing(among), passing(rest))
        return powered, f"{_described(found)}, {len(among)} of them of these; prediction-powered"
    corrected = stats.corrected_rate(
        *counted(verdicts), found.confusion, level=level, design_effects=found.design_effects
    )
    return replace(corrected, n=judged.n), f"{_described(found)}; Rogan-Gladen"


def _described(found: Calibration) -> str:
    n = found.confusion.n
    return f"calibration of {found.date}, {n:.0f} label{'s' * (n != 1)}"


def _not_applied(judge: Judge, of_metric: Sequence[Calibration]) -> str:
    """Why the calibrations of the same metric do not hold, by what the nearest differs in."""
    if not of_metric:
        return ""
    names = ("metric", "evaluator", "version", "model", "prompt", "embedding", "threshold")
    nearest = min(of_metric, key=lambda x: sum(a != b for a, b in zip(x.judge, judge, strict=True)))
    differs = [name for name, a, b in zip(names, nearest.judge, judge, strict=True) if a != b]
    return f"not corrected: the calibration of {nearest.date} is of another {' and '.join(differs)}"
