"""The place of new evaluations beside those before: what they supersede, and which of them are
news.
"""

from collections.abc import Mapping, Sequence

from spanscore.evaluation import unanswered
from spanscore.evaluation.tallying import tallied
from spanscore.model.record import changed
from spanscore.model.score import Evaluation, ScopeKind


def placed(
    evaluations: Sequence[Evaluation],
    before: Sequence[Evaluation],
    ranking: Mapping[str, float],
    run: ScopeKind,
) -> list[Evaluation]:
    """The evaluations, each with what it takes the place of, and its rank among those of the same
    subject.
    """
    return tallied(superseding(evaluations, before), before, ranking, run=run)


def superseding(
    evaluations: Sequence[Evaluation], before: Sequence[Evaluation]
) -> list[Evaluation]:
    """The evaluations, each with the uid and label of the one before it of the same subject and
    metric.
    """
    old = {(x.subject_id, x.metric): x for x in before}
    return [
        changed(x, supersedes=found.uid, label_before=found.label)
        if (found := old.get((x.subject_id, x.metric)))
        else x
        for x in evaluations
    ]


def parted(
    evaluations: Sequence[Evaluation], before: Sequence[Evaluation]
) -> tuple[list[Evaluation], list[Evaluation]]:
    """The evaluations that are news, and those that got no answer as the ones before them did."""
    open_ = {(x.subject_id, x.metric) for x in before if unanswered.cause_of(x) is not None}
    in_vain = [
        x
        for x in evaluations
        if (x.subject_id, x.metric) in open_ and unanswered.cause_of(x) is not None
    ]
    return [x for x in evaluations if x not in in_vain], in_vain
