"""Who judges a metric, and how often: one model once, several samples of it, or a cheaper model
before it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from spanscore.evaluation.cascading import escalated, in_doubt, kept
from spanscore.evaluation.case import Case
from spanscore.evaluation.judging import Judging
from spanscore.evaluation.planning import PlannedCall
from spanscore.evaluation.spread import combined
from spanscore.evaluation.valued import valued
from spanscore.judge.config import Cascade, Config
from spanscore.metrics import Judged
from spanscore.model.score import JudgeUsage
from spanscore.model.trace import AgentTrace, Session


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
