"""How far a judge agrees with the labels that are stored: requests and messages around
`spanscore.calibration`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from spanscore import calibration
from spanscore.api.text import text_of
from spanscore.api.v1 import annotation_service_pb2 as pb
from spanscore.calibration import Label, Matched, Measure, Verdict
from spanscore.errors import FieldError
from spanscore.model.score import Evaluation
from spanscore.store.labelled import Labelled
from spanscore.store.writing import subject_of

_STORED: Final = Path("the stored labels")
_OF_ALL_SCORES: Final = ("pass rate", "mean grade")
"""How measures begin that rest on what nobody has labelled too, which is not read here."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Labels beside a metric's scores, by judge: those of the random order, and all."""

    at_random: Sequence[Matched]
    all: Sequence[Matched]
    given_ns: dict[str, int]
    without_verdict: int
    of_nothing_scored: int


def compared(found: Labelled, metric: str, pass_from: float | None) -> Compared:
    """The labels beside the scores.

    Raises InputError where they cannot be held against each other.
    """
    given = [
        (x, calibration.label_of(x, metric, n, pass_from)) for n, x in enumerate(found.labels, 1)
    ]
    verdicts = [x for score in found.scores for x in _verdict(score)]
    scored = {(name, x.is_session) for x in verdicts for name in x.names}
    seen = [(subject_of(x), x.scope == "session", metric) for x in found.scores]
    known = scored | {(name, is_session) for name, is_session, _ in seen}
    labels = [
        (x, y) for x, y in given if y is not None and (subject_of(x), x.scope == "session") in known
    ]
    kept = [replace(y, subject=subject_of(x)) for x, y in labels]
    given_ns: dict[str, int] = {}
    for score, _ in labels:
        given_ns[subject_of(score)] = max(given_ns.get(subject_of(score), 0), score.evaluated_at_ns)
    verdictless = sum(y is None for _, y in given)
    at_random = [x for x in kept if x.subject in found.at_random]
    return Compared(
        _matched(at_random, verdicts, seen),
        _matched(kept, verdicts, seen),
        given_ns,
        verdictless,
        len(given) - verdictless - len(kept),
    )


def encode(found: Compared, level: float) -> pb.Agreement:
    """The message of it."""
    at_random = {x.judge: x for x in found.at_random}
    judges = [
        _judge(x, at_random.get(x.judge), found, level) for x in found.all if x.pairs or x.tied
    ]
    return pb.Agreement(
        judges=judges,
        without_verdict=found.without_verdict,
        of_nothing_scored=found.of_nothing_scored,
    )


def level_of(request: pb.GetAgreementRequest) -> float:
    """The level of the intervals. Raises FieldError."""
    if not request.HasField("level"):
        return 0.95
    if not 0 < request.level < 1:
        raise FieldError("level", f"{request.level:g}: give a share between 0 and 1, such as 0.95")
    return request.level


def _verdict(score: Evaluation) -> Iterator[Verdict]:
    verdict = Verdict.of(score)
    if verdict is not None:
        yield replace(verdict, session_id=subject_of(score)) if verdict.is_session else verdict


def _matched(
    labels: Sequence[Label], verdicts: Sequence[Verdict], seen: Sequence[tuple[str, bool, str]]
) -> list[Matched]:
    return calibration.match(_STORED, labels, verdicts, seen) if labels else []


def _judge(
    matched: Matched, at_random: Matched | None, found: Compared, level: float
) -> pb.JudgeAgreement:
    metric, name, version, model, prompt_hash, embedding, threshold = matched.judge
    has_points = at_random is not None and at_random.pairs
    return pb.JudgeAgreement(
        metric=metric,
        evaluator=text_of(name),
        version=text_of(version),
        model=text_of(model),
        prompt_hash=prompt_hash,
        embedding=text_of(embedding),
        threshold=threshold,
        at_random=None if at_random is None else _table(at_random, level),
        all=_table(matched, level),
        history=map(_point, calibration.growth(at_random, found.given_ns, level))
        if at_random and has_points
        else (),
    )


def _table(matched: Matched, level: float) -> pb.AgreementTable:
    if not matched.pairs:
        return pb.AgreementTable(tied=matched.tied)
    counts = calibration.counted_pairs(matched)
    alone = replace(matched, others=())
    measured = [
        x for x in calibration.measures(alone, level) if not x.name.startswith(_OF_ALL_SCORES)
    ]
    return pb.AgreementTable(
        true_pass=int(counts.true_pass),
        false_fail=int(counts.false_fail),
        false_pass=int(counts.false_pass),
        true_fail=int(counts.true_fail),
        tied=matched.tied,
        measures=map(_measure, measured),
    )


def _point(point: calibration.Point) -> pb.AgreementPoint:
    return pb.AgreementPoint(
        labelled_ns=point.labelled_ns,
        n=point.n,
        agreement=_measure(point.agreement),
        kappa=_measure(point.kappa),
    )


def _measure(measure: Measure) -> pb.AgreementMeasure:
    estimate = measure.estimate
    if estimate is None:
        return pb.AgreementMeasure(name=text_of(measure.name), why_not=measure.why_not)
    limits = estimate.interval
    return pb.AgreementMeasure(
        name=text_of(measure.name),
        value=estimate.value,
        low=None if limits is None else limits.low,
        high=None if limits is None else limits.high,
        n=int(estimate.n),
        note=estimate.note,
    )
