"""Figures as messages."""

from collections.abc import Mapping

from spanscore.analytics.difference import Comparison
from spanscore.analytics.distribution import Distribution
from spanscore.analytics.figures import Corrected, Figure
from spanscore.analytics.summary import Missing, Series, Summary
from spanscore.api.convert import SCOPE, STATUS
from spanscore.api.requests import name_of
from spanscore.api.text import text_of
from spanscore.api.v1 import analytics_service_pb2 as pb
from spanscore.stats import Estimate
from spanscore.store.ranking import Ranked


def summary(found: Summary) -> pb.ScoreSummary:
    """A summary as a message."""
    low, high = found.scale or (None, None)
    return pb.ScoreSummary(
        metric=text_of(found.metric),
        scope=SCOPE[found.scope],
        source=text_of(found.source),
        groups=groups(found.groups),
        scores=found.scores,
        subjects=found.subjects,
        sessions=found.sessions,
        mean=figure(found.mean),
        pass_rate=figure(found.pass_rate),
        corrected_pass_rate=None
        if found.corrected is None
        else _corrected(found.corrected, found.pass_rate),
        low=low,
        high=high,
        least_sampling=found.least_chance,
        missing=map(_missing, found.missing),
    )


def trend(found: Series) -> pb.ScoreTrend:
    """A metric over time as a message."""
    points = (
        pb.ScoreTrendPoint(start_ns=x.start_ns, end_ns=x.end_ns, summary=summary(x.summary))
        for x in found.points
    )
    return pb.ScoreTrend(
        metric=text_of(found.metric),
        scope=SCOPE[found.scope],
        source=text_of(found.source),
        groups=groups(found.groups),
        points=points,
    )


def distribution(found: Distribution) -> pb.ScoreDistribution:
    """How the scores of a metric are spread, as a message."""
    low, high = found.scale or (None, None)
    return pb.ScoreDistribution(
        metric=text_of(found.metric),
        scope=SCOPE[found.scope],
        source=text_of(found.source),
        low=low,
        high=high,
        bins=(
            pb.ScoreBin(low=x.low, high=x.high, scores=x.scores, share=figure(x.share))
            for x in found.bins
        ),
        labels=(
            pb.ScoreLabel(label=text_of(x.label), scores=x.scores, share=figure(x.share))
            for x in found.labels
        ),
        quantiles=(
            pb.ScoreQuantile(share=x.share, value=figure(x.figure)) for x in found.quantiles
        ),
    )


def comparison(found: Comparison) -> pb.ScoreComparison:
    """Two sides and their difference as a message."""
    return pb.ScoreComparison(
        metric=text_of(found.metric),
        scope=SCOPE[found.scope],
        source=text_of(found.source),
        groups=groups(found.groups),
        before=None if found.before is None else summary(found.before),
        after=None if found.after is None else summary(found.after),
        mean_difference=figure(found.mean_difference),
        pass_rate_difference=figure(found.pass_rate_difference),
        corrected_pass_rate_difference=None
        if found.corrected_difference is None
        else _corrected(found.corrected_difference, found.pass_rate_difference),
        shared_sessions=found.shared_sessions,
    )


def session(found: Ranked) -> pb.RankedSession:
    """A session, or a trace that belongs to none, as a message."""
    message = pb.RankedSession(
        scores=found.scores,
        judged=found.judged,
        failing=found.failing,
        fail_rate=found.fail_rate,
        mean=found.mean,
    )
    if found.example is not None:
        of = found.example
        key = of.session_key or of.session_id
        message.name = name_of("traces", of.subject_id) if key is None else name_of("sessions", key)
        message.service_name, message.agent_name = (
            text_of(of.service_name or ""),
            text_of(of.agent_name or ""),
        )
        if of.session_id is not None:
            message.session_id = text_of(of.session_id)
    return message


def groups(found: Mapping[str, str | None]) -> list[pb.ScoreGroup]:
    """The values of what was grouped by."""
    return [pb.ScoreGroup(name=name, value=text_of(value)) for name, value in found.items()]


def figure(found: Figure) -> pb.ScoreFigure:
    """A figure, or the reason why there is none."""
    return _estimate(found.estimate, found.units, found.clusters, found.why_not)


def _corrected(found: Corrected, of: Figure) -> pb.ScoreFigure:
    message = _estimate(found.estimate, of.units, of.clusters, found.note)
    message.note = found.note
    return message


def _estimate(found: Estimate | None, scores: int, sessions: int, why_not: str) -> pb.ScoreFigure:
    if found is None:
        return pb.ScoreFigure(scores=scores, sessions=sessions, note=why_not)
    interval = found.interval
    return pb.ScoreFigure(
        value=found.value,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        method=found.method,
        scores=scores,
        sessions=sessions,
        effective_n=found.effective_n if found.effective_n is not None else found.n,
        note=found.note,
    )


def _missing(found: Missing) -> pb.MissingReason:
    return pb.MissingReason(
        status=STATUS[found.status], cause=text_of(found.cause), count=found.count
    )
