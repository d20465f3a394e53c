"""One metric measured on a trace or a session."""

import asyncio
import functools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spanscore.embed.ngrams import Ngrams
from spanscore.embed.port import Embedder, of_tenant
from spanscore.evaluation.inquiry import Case, PlannedCall
from spanscore.evaluation.judgement import Judging
from spanscore.evaluation.outcomes import (
    Graded,
    Measured,
    failed,
    given,
    graded,
    named,
    no_judge,
    valued,
)
from spanscore.evaluation.questions import digest
from spanscore.evaluation.rubric import OVERALL, Rubric
from spanscore.judge.config import Cascade, Config
from spanscore.metrics import Computed, Embedded, Judged, Metric, SessionMetric, Signals
from spanscore.metrics.check import Check, EarlierTurnsNeededError, Evidence
from spanscore.metrics.own import FunctionMetric
from spanscore.model.score import Evaluator, Failure, JudgeUsage, Outcome, Score, Skip
from spanscore.model.trace import AgentTrace, Session
from spanscore.stats import mean


class Panel:
    """Settles judged metrics by `judge.samples` and `judge.cascade`."""

    def __init__(self, judging: Judging, config: Config) -> None:
        self._judging = judging
        self._samples = config.samples
        self._cascade = config.cascade

    async def settled(
        self,
        metrics: Sequence[Judged],
        subject: AgentTrace | Session,
        earlier: Sequence[AgentTrace] = (),
    ) -> list[Case]:
        """A case for each of `metrics` on `subject`, with its outcome and all that it cost.

        `earlier` are the turns of its session before it.
        """
        first = await self._sampled([self._for_first_model(x) for x in metrics], subject, earlier)
        cascade = self._cascade
        if cascade is None:
            return first
        unsure = {x.metric.name for x in first if is_unsure(x, cascade)}
        by_name = {case.metric.name: case for case in first}
        if unsure:
            better = await self._sampled([x for x in metrics if x.name in unsure], subject, earlier)
            by_name |= {
                case.metric.name: _escalated(by_name[case.metric.name], case, cascade)
                for case in better
            }
        for case in first:
            if case.metric.name not in unsure and case.metric.name in cascade.unsure:
                case.note(kept(case.model))
        return [by_name[x.name] for x in metrics]

    def planned(
        self,
        metrics: Sequence[Judged],
        subject: AgentTrace | Session,
        earlier: Sequence[AgentTrace] = (),
    ) -> list[PlannedCall]:
        """The calls of `settled`, without making them, as if each metric left the first model in
        doubt.
        """
        first = [self._for_first_model(x) for x in metrics]
        calls = self._judging.planned(first, subject, earlier)
        if changed := [
            x for x, with_first_model in zip(metrics, first, strict=True) if x != with_first_model
        ]:
            calls += self._judging.planned(changed, subject, earlier)
        return [
            replace(call, prompt=replace(call.prompt, sample=sample))
            for sample in range(self._samples)
            for call in calls
        ]

    def _for_first_model(self, metric: Judged) -> Judged:
        """`metric` with the model that is asked first; one that names a model of its own is asked
        of that alone.
        """
        if (
            self._cascade is None
            or metric.model is not None
            or metric.name not in self._cascade.unsure
        ):
            return metric
        return replace(metric, model=self._cascade.model)

    async def _sampled(
        self,
        metrics: Sequence[Judged],
        subject: AgentTrace | Session,
        earlier: Sequence[AgentTrace],
    ) -> list[Case]:
        """A case for each of `metrics` with what came of all samples."""
        of_each = await asyncio.gather(
            *(
                self._judging.settled(metrics, subject, earlier, sample=sample)
                for sample in range(self._samples)
            )
        )
        return [_merged([_valued(case) for case in cases]) for cases in zip(*of_each, strict=True)]


def is_unsure(case: Case, cascade: Cascade) -> bool:
    """Whether the first model was asked about a metric and leaves it in doubt."""
    band = cascade.unsure.get(case.metric.name)
    return band is not None and case.models == (cascade.model,) and in_doubt(case.outcome, band)


def _valued(case: Case) -> Case:
    if case.outcome is not None:
        case.outcome = valued(case.outcome, case.metric.name, case.metric.scale)
    return case


def _merged(cases: Sequence[Case]) -> Case:
    """The first case, with what came of all of them."""
    first = cases[0]
    if len(cases) > 1:
        for case in cases[1:]:
            first.answered_by(case.answering)
        first.usage = sum((x.usage for x in cases), JudgeUsage())
        first.outcome = combined([x.outcome for x in cases], first.metric.scale)
    return first


def _escalated(first: Case, case: Case, cascade: Cascade) -> Case:
    """The better model's case, with what the first model gave and cost."""
    facts = escalated(case.model, first.model, first.outcome, cascade.unsure[case.metric.name])
    case.answered_first_by(first.answering)
    case.usage += first.usage
    case.note(facts)
    return case


MAX_EARLIER_TURNS = 20
"""Turns of a session before the evaluated one that its evaluation looks at, at most: the newest."""

MAX_EARLIER_BYTES = 4 * 2**20
"""Bytes of the stored records of these turns, at most."""

NO_EMBEDDING = (
    "No embedding is configured: set embedding.model to a provider's model (such as"
    " text-embedding-3-small), or embedding.local_model to a model2vec model; embedding.provider:"
    " ngrams compares spelling only."
)

_NGRAMS = Ngrams()


class Measuring:
    """Measures metrics one after the other, but those that a judge is asked about together."""

    def __init__(self, panel: Panel | None, embedder: Embedder | None) -> None:
        """`panel` None: there is no judge. `embedder` None: no embedding is configured."""
        self._panel = panel
        self._embedder = embedder

    async def measured(
        self,
        metrics: Sequence[Metric],
        subject: AgentTrace | Session,
        earlier: Sequence[AgentTrace] | None = (),
    ) -> list[Graded]:
        """What each of `metrics` gives for `subject`; `earlier` are its session's turns before it.

        Raises EarlierTurnsNeededError where these are None and a metric cannot do without them.
        """
        found: dict[str, Measured] = {}
        judged: list[Judged] = []
        evidence = Evidence(subject, earlier) if isinstance(subject, AgentTrace) else None
        for metric in metrics:
            outcome = self._at_once(metric, subject, evidence)
            if outcome is None and isinstance(metric, Judged):
                judged.append(metric)
                continue
            if outcome is None:
                if earlier is None and metric.looks_back:
                    raise EarlierTurnsNeededError
                outcome = await self._awaited(metric, subject, earlier or ())
            found[metric.name] = Measured(outcome, self._evaluator(metric))
        if judged and self._panel is not None:
            if earlier is None:
                raise EarlierTurnsNeededError
            cases = await self._panel.settled(judged, subject, earlier[-MAX_EARLIER_TURNS:])
            found |= {
                x.metric.name: Measured(given(x.outcome), x.evaluator, x.usage) for x in cases
            }
        return [graded(x, found[x.name]) for x in metrics]

    def planned(
        self,
        metrics: Sequence[Metric],
        subject: AgentTrace | Session,
        earlier: Sequence[AgentTrace] = (),
    ) -> list[PlannedCall]:
        """The calls of a judge that `measured` takes, without making them."""
        wanted = [x for x in metrics if isinstance(x, Judged)]
        judged = [x for x in wanted if self._at_once(x, subject, None) is None]
        if not judged or self._panel is None:
            return []
        return self._panel.planned(judged, subject, earlier[-MAX_EARLIER_TURNS:])

    def _at_once(
        self, metric: Metric, subject: AgentTrace | Session, evidence: Evidence | None
    ) -> Outcome | None:
        """What nothing has to be awaited for: a Skip, a computed metric; else None."""
        try:
            if isinstance(subject, AgentTrace):
                skip = metric.unmeasurable(subject)
            else:
                skip = metric.unmeasurable_session(subject)
            if skip is not None:
                return skip
            if isinstance(metric, Judged):
                return self._unasked(metric, subject)
            if not isinstance(subject, AgentTrace) or not isinstance(metric, Computed):
                return None
            if isinstance(metric, Check):
                return metric.found_in(evidence or Evidence(subject))
            return metric.measure(subject)
        except EarlierTurnsNeededError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a metric of one's own raises
            return failed(metric.name, error)

    def _unasked(self, metric: Judged, subject: AgentTrace | Session) -> Outcome | None:
        """The outcome of a judged metric that takes no answer, or that nobody can answer."""
        outcome = metric.settle(subject, {})
        if outcome is None and self._panel is None:
            return no_judge(metric.name)
        return outcome

    async def _awaited(
        self, metric: Metric, subject: AgentTrace | Session, earlier: Sequence[AgentTrace]
    ) -> Outcome:
        """What comes of a metric that neither gave an outcome at once nor asks a judge."""
        outcome: Outcome | None = None
        try:
            if isinstance(metric, Embedded) and isinstance(subject, AgentTrace):
                embedder = self._embedder_of(metric)
                if embedder is None:
                    return Skip(NO_EMBEDDING, "no_embedding")
                embedder = of_tenant(embedder, subject.tenant)
                outcome = await metric.measure(subject, earlier, embedder)
            elif isinstance(metric, FunctionMetric):
                outcome = await metric.measure(subject, earlier)
        except Exception as error:  # noqa: BLE001 - whatever a metric of one's own raises
            outcome = failed(metric.name, error)
        return given(outcome)

    def _evaluator(self, metric: Metric) -> Evaluator:
        embedder = self._embedder_of(metric) if isinstance(metric, Embedded) else None
        return _code(metric.name, metric.version, embedder.name if embedder else None)

    def _embedder_of(self, metric: Embedded) -> Embedder | None:
        """The configured embedder; where there is none, the n-grams for a metric that makes do with
        them.
        """
        if self._embedder is None and metric.falls_back_on_ngrams:
            return _NGRAMS
        return self._embedder


def measured_by_signals(
    metric: SessionMetric, session: Session, signals: Signals, weights: Mapping[str, float]
) -> Graded:
    """What a metric gives that is computed from the scores of the session's traces."""
    try:
        outcome = given(metric.measure(session, signals, weights))
    except Exception as error:  # noqa: BLE001 - whatever a metric of one's own raises
        outcome = failed(metric.name, error)
    return graded(metric, Measured(outcome, _code(metric.name, metric.version, None)))


@functools.lru_cache(maxsize=256)  # the same few for every trace
def _code(name: str, version: str, embedding: str | None) -> Evaluator:
    return Evaluator("CODE", name, version, embedding=embedding)


def in_doubt(outcome: Outcome | None, band: tuple[float, float]) -> bool:
    """Whether the first model leaves it open: its score lies in the band, or there is none.

    A Skip, such as that a criterion does not apply, is no doubt.

    >>> in_doubt(Score(0.4, "half of it"), (0.3, 0.6))
    True
    """
    if isinstance(outcome, Score):
        low, high = band
        return low <= outcome.value <= high
    return outcome is None or isinstance(outcome, Failure)


def kept(model: str | None) -> Mapping[str, Any]:
    """What is on a score of the first model that stands."""
    return {"cascade": {"escalated": False, "model": model}}


def escalated(
    model: str | None,
    first_model: str | None,
    first: Outcome | None,
    band: tuple[float, float] | None,
) -> Mapping[str, Any]:
    """What is on a score of `model`, which was asked after the first model; `band` None: another
    score's was in doubt.
    """
    value = first.value if isinstance(first, Score) else None
    facts = {"escalated": True, "model": model, "first": {"model": first_model, "value": value}}
    return {"cascade": facts if band is None else {**facts, "unsure": list(band)}}


class RubricCascade:
    """The cascade of a run of the rubric, whose scores are of one call and so of one model."""

    def __init__(self, cascade: Cascade, rubric: Rubric) -> None:
        self._bands = cascade.unsure
        self.first = replace(rubric, model=cascade.model)
        """What the first model is asked."""

    def is_in_doubt(self, found: Sequence[Graded]) -> bool:
        """Whether a score of the first model with a band is in doubt."""
        return any(
            x.metric in self._bands and in_doubt(x.measured.outcome, self._bands[x.metric])
            for x in found
        )

    def kept(self, found: Sequence[Graded]) -> list[Graded]:
        """The first model's scores, which stand."""
        return [_noted(x, kept(x.measured.evaluator.model)) for x in found]

    def escalated(self, first: Sequence[Graded], better: Sequence[Graded]) -> list[Graded]:
        """The better model's scores, with what the first model gave and cost."""
        return [self._escalated(*pair) for pair in zip(first, better, strict=True)]

    def _escalated(self, first: Graded, better: Graded) -> Graded:
        outcome, evaluator, usage = better.measured
        facts = escalated(
            evaluator.model,
            first.measured.evaluator.model,
            first.measured.outcome,
            self._bands.get(first.metric),
        )
        measured = Measured(
            outcome, _of_both(first.measured, evaluator), first.measured.usage + usage
        )
        return _noted(better._replace(measured=measured), facts)


def cascade_of(cascade: Cascade | None, rubric: Rubric) -> RubricCascade | None:
    """The cascade for a run of the rubric; None where no score that it gives has a band, or where
    the run names its model.
    """
    if cascade is None or rubric.model is not None:
        return None
    scores = {OVERALL, *(x.metric for x in rubric.criteria)}
    has_band = any(x in scores and rubric.gives(x) for x in cascade.unsure)
    return RubricCascade(cascade, rubric) if has_band else None


def _of_both(first: Measured, evaluator: Evaluator) -> Evaluator:
    """The better model's evaluator, with the first model's before it where that one answered."""
    before = first.evaluator
    if isinstance(first.outcome, Failure) or before.model is None or evaluator.model is None:
        return evaluator
    hashed = digest([before.prompt_hash, evaluator.prompt_hash])
    return replace(evaluator, model=named([before.model, evaluator.model]), prompt_hash=hashed)


def _noted(graded: Graded, facts: Mapping[str, Any]) -> Graded:
    outcome = graded.measured.outcome
    if not isinstance(outcome, Score):
        return graded
    noted = replace(outcome, metadata={**outcome.metadata, **facts})
    return graded._replace(measured=graded.measured._replace(outcome=noted))


def combined(outcomes: Sequence[Outcome | None], scale: tuple[float, float]) -> Outcome:
    """One outcome of several samples: the mean of the scores, where at least half of the samples
    gave one.

    The reason and the other metadata are those of the score that is nearest to the mean. `samples`
    in the metadata has `values`, `standard_deviation` (of the samples, with n - 1; null of one),
    `interval`, the limits of the mean at the level 95 %, and `without_score`, how many samples gave
    none. Where more than half gave no score, the first of these is the outcome.

    >>> score = combined([Score(0.4, "a"), Score(0.6, "b"), Score(0.8, "c")], (0, 1))
    >>> score.value, score.metadata["samples"]["values"], score.reason
    (0.6, [0.4, 0.6, 0.8], 'b')
    """
    scores = [x for x in outcomes if isinstance(x, Score)]
    if 2 * len(scores) < len(outcomes) or not scores:
        return next((x for x in outcomes if x is not None and not isinstance(x, Score)), _nothing())
    values = [x.value for x in scores]
    center = statistics.fmean(values)
    typical = min(scores, key=lambda x: abs(x.value - center))
    limits = mean(values, bounds=scale).interval
    spread: dict[str, Any] = {
        "values": values,
        "standard_deviation": round(statistics.stdev(values), 4) if len(values) > 1 else None,
        "interval": [round(limits.low, 4), round(limits.high, 4)] if limits else None,
        "without_score": len(outcomes) - len(scores),
    }
    return Score(
        round(center, 4), typical.reason, {**typical.metadata, "samples": spread}, typical.label
    )


def _nothing() -> Failure:
    return Failure("NoOutcomeError", "no sample gave an outcome")
