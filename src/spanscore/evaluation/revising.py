"""What a later revision owes to the evaluations before it, when rules decide which subjects are
drawn and measured.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from spanscore import metrics
from spanscore.evaluation.rubric import is_rubric
from spanscore.evaluation.rules import Decision
from spanscore.model.score import Evaluation, JudgeUsage, ScopeKind, Score, Skip


def drawn_before(before: Iterable[Evaluation], run: ScopeKind) -> float:
    """The chance with which a subject had been drawn for the evaluations `before`; 0.0 where there
    are none.

    `run` is what is evaluated: metrics of a trace that run with its session have the session's
    chance.
    """
    chance = 0.0
    for evaluation in before:
        if evaluation.sampling > chance and _runs_with(evaluation, run):
            chance = evaluation.sampling
    return chance


def withdrawn(
    before: Iterable[Evaluation],
    now: Sequence[Evaluation],
    decision: Decision,
    *,
    run: ScopeKind,
    revision: int,
    now_ns: int,
) -> list[Evaluation]:
    """A skip for each score in `before` that another rule decided, and whose metric is not measured
    now.

    Without it that score would stay the newest of its metric, and count for traces that the metric
    is not for.
    """
    measured = {(x.subject_id, x.metric) for x in now}
    who = (
        "no rule takes it now"
        if decision.rule is None
        else f"the rule {decision.rule} takes it now"
    )
    return [
        replace(
            x,
            outcome=Skip(f"{who}, and {x.metric} is not measured then", "not_applicable"),
            revision=revision,
            rule=decision.rule,
            usage=JudgeUsage(),
            evaluated_at_ns=now_ns,
            rank=0,
            tally=None,
            inline=False,
        )
        for x in before
        if isinstance(x.outcome, Score) and x.rule != decision.rule and _runs_with(x, run)
        if (x.subject_id, x.metric) not in measured
    ]


def _runs_with(evaluation: Evaluation, run: ScopeKind) -> bool:
    """Whether an evaluation is made when what `run` names is evaluated."""
    metric = metrics.named(evaluation.metric)
    if metric is None or is_rubric(evaluation.metric):
        return evaluation.scope == run
    return metric.run == run
