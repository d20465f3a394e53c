"""How a metric is measured on a trace or a session: computed, by an embedding, by a judge, or not
at all.
"""

import functools
from collections.abc import Mapping, Sequence

from spanscore.embed.ngrams import Ngrams
from spanscore.embed.port import Embedder
from spanscore.embed.recent import of_tenant
from spanscore.evaluation.attempt import Attempt
from spanscore.evaluation.measured import Measured, given
from spanscore.evaluation.panel import Panel
from spanscore.evaluation.planning import PlannedCall
from spanscore.evaluation.unjudged import no_judge
from spanscore.metrics import Computed, Embedded, Judged, Metric, SessionMetric, Signals
from spanscore.metrics.check import sharing_evidence
from spanscore.metrics.own import FunctionMetric
from spanscore.model.score import Evaluator, Outcome, Skip
from spanscore.model.trace import AgentTrace, Session

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
        earlier: Sequence[AgentTrace] = (),
    ) -> dict[str, Measured]:
        """What each of `metrics` gives for `subject`, by metric name; `earlier` are its session's
        turns before it.
        """
        found: dict[str, Measured] = {}
        judged: list[Judged] = []
        with sharing_evidence():
            for metric in metrics:
                at_once = self._at_once(metric, subject, earlier)
                if at_once is not None:
                    found[metric.name] = at_once
                elif isinstance(metric, Judged):
                    judged.append(metric)
                else:
                    found[metric.name] = await self._awaited(metric, subject, earlier)
        if judged and self._panel is not None:
            cases = await self._panel.settled(judged, subject, earlier[-MAX_EARLIER_TURNS:])
            found |= {
                x.metric.name: Measured(given(x.outcome), x.evaluator, x.usage) for x in cases
            }
        return found

    def planned(
        self,
        metrics: Sequence[Judged],
        subject: AgentTrace | Session,
        earlier: Sequence[AgentTrace] = (),
    ) -> list[PlannedCall]:
        """The calls of a judge that `measured` takes, without making them."""
        with sharing_evidence():
            judged = [x for x in metrics if self._at_once(x, subject, earlier) is None]
        if not judged or self._panel is None:
            return []
        return self._panel.planned(judged, subject, earlier[-MAX_EARLIER_TURNS:])

    def _at_once(
        self, metric: Metric, subject: AgentTrace | Session, earlier: Sequence[AgentTrace]
    ) -> Measured | None:
        """What nothing has to be awaited for: a Skip, a computed metric; else None."""
        with Attempt(metric.name) as attempt:
            attempt.outcome = _unmeasurable(metric, subject)
            if attempt.outcome is None and isinstance(metric, Judged):
                attempt.outcome = self._unasked(metric, subject)
            elif (
                attempt.outcome is None
                and isinstance(metric, Computed)
                and isinstance(subject, AgentTrace)
            ):
                attempt.outcome = metric.measure_after(subject, earlier)
        if attempt.outcome is None:
            return None
        return Measured(attempt.outcome, self._evaluator(metric))

    def _unasked(self, metric: Judged, subject: AgentTrace | Session) -> Outcome | None:
        """The outcome of a judged metric that takes no answer, or that nobody can answer."""
        outcome = metric.settle(subject, {})
        if outcome is None and self._panel is None:
            return no_judge(metric.name)
        return outcome

    async def _awaited(
        self, metric: Metric, subject: AgentTrace | Session, earlier: Sequence[AgentTrace]
    ) -> Measured:
        """What comes of a metric that neither gave an outcome at once nor asks a judge."""
        with Attempt(metric.name) as attempt:
            if isinstance(metric, Embedded) and isinstance(subject, AgentTrace):
                attempt.outcome = await self._embedded(metric, subject, earlier)
            elif isinstance(metric, FunctionMetric):
                attempt.outcome = await metric.measure(subject, earlier)
        return Measured(given(attempt.outcome), self._evaluator(metric))

    async def _embedded(
        self, metric: Embedded, trace: AgentTrace, earlier: Sequence[AgentTrace]
    ) -> Outcome:
        embedder = self._embedder_of(metric)
        if embedder is None:
            return Skip(NO_EMBEDDING, "no_embedding")
        return await metric.measure(trace, earlier, of_tenant(embedder, trace.tenant))

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
) -> Measured:
    """What a metric gives that is computed from the scores of the session's traces."""
    with Attempt(metric.name) as attempt:
        attempt.outcome = metric.measure(session, signals, weights)
    return Measured(given(attempt.outcome), _code(metric.name, metric.version, None))


def _unmeasurable(metric: Metric, subject: AgentTrace | Session) -> Skip | None:
    if isinstance(subject, AgentTrace):
        return metric.unmeasurable(subject)
    return metric.unmeasurable_session(subject)


@functools.lru_cache(maxsize=256)  # the same few for every trace
def _code(name: str, version: str, embedding: str | None) -> Evaluator:
    return Evaluator("CODE", name, version, embedding=embedding)
