"""Evaluate one session: first what its metrics need of its traces, then the session itself."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence

from spanscore.evaluation.config import Config, Overrides
from spanscore.evaluation.evaluating import Evaluating
from spanscore.evaluation.evaluations import graded
from spanscore.evaluation.measuring import measured_by_signals
from spanscore.evaluation.signals import (
    TraceSignals,
    is_lacking,
    read_signals,
    replaced_weights,
    with_external,
)
from spanscore.metrics import Metric, SessionMetric
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, Session

_TRACES_AT_ONCE = 16


class SessionEvaluating:
    """Makes the evaluations of one session.

    The steps build on each other: the trace metrics that look at earlier traces, the signals that
    traces lack, the session's own metrics, those that rest on signals, and the rubric.
    """

    def __init__(
        self,
        evaluating: Evaluating,
        config: Config,
        session: Session,
        overrides: Overrides | None,
        signals: Mapping[str, TraceSignals],
    ) -> None:
        """`signals` are the evaluations of the traces so far, by agent trace id and metric name.

        Raises InputError where `overrides` cannot be met.
        """
        self._evaluating = evaluating
        self._config = config
        self._session = session
        self._overrides = overrides
        self._by_trace = {trace_id: dict(by_metric) for trace_id, by_metric in signals.items()}
        self._selection = evaluating.procedure.selection
        self._weights = self._selection.weights(overrides)
        chosen = self._selection.metrics(overrides)
        self._metrics = [metric for metric in chosen if metric.run == "session"]
        self._by_signals = [x for x in self._metrics if isinstance(x, SessionMetric)]
        self._signals = self._selection.signals(self._by_signals, overrides)

    async def evaluate(
        self,
        *,
        external: Iterable[Evaluation],
        unmeasured: Collection[str],
        left_out: Collection[str],
        with_signals: bool,
    ) -> list[Evaluation]:
        """The evaluations of the session, and of its traces by the metrics that run with it.

        `external` are scores that others gave. The ids of traces are in `unmeasured` where a rule
        has nothing measured of them, and in `left_out` where signals that they lack are measured
        now. What is measured only as a signal is returned `with_signals`.
        """
        found = await self._look_back(unmeasured, with_signals=with_signals)
        completed = await self._complete_signals(set(left_out) - set(unmeasured))
        if with_signals:
            found += completed
        of_session = [
            metric
            for metric in self._metrics
            if metric.scope == "session" and not isinstance(metric, SessionMetric)
        ]
        found += await self._evaluating.by_metrics(of_session, self._session)
        found += self._rest_on_signals(external)
        rubric = self._selection.rubric(self._overrides)
        if rubric:
            found += await self._evaluating.by_rubric(rubric, self._session)
        return found

    async def _look_back(
        self, unmeasured: Collection[str], *, with_signals: bool
    ) -> list[Evaluation]:
        """The evaluations of the traces by the metrics that look at earlier traces."""
        signals = {metric.name: metric for metric in self._signals if metric.run == "session"}
        of_traces = {metric.name: metric for metric in self._metrics if metric.scope == "trace"}
        metrics = list((signals | of_traces).values())
        found: list[Evaluation] = []
        for place, trace in enumerate(self._session.traces):
            if trace.id in unmeasured:
                continue
            measured = await self._measure(metrics, place, trace)
            found += [x for x in measured if x.metric in of_traces or with_signals]
        return found

    async def _complete_signals(self, trace_ids: Collection[str]) -> list[Evaluation]:
        """Measure the signals that these traces lack, some traces at a time."""
        signals = [metric for metric in self._signals if metric.run == "trace"]

        async def complete(place: int, trace: AgentTrace) -> list[Evaluation]:
            known = self._by_trace[trace.id]
            lacking = [metric for metric in signals if is_lacking(metric, known.get(metric.name))]
            return await self._measure(lacking, place, trace)

        traces = enumerate(self._session.traces)
        wanted = [(place, trace) for place, trace in traces if trace.id in trace_ids]
        completed: list[Evaluation] = []
        for first in range(0, len(wanted), _TRACES_AT_ONCE):
            some = wanted[first : first + _TRACES_AT_ONCE]
            for found in await asyncio.gather(*(complete(*one) for one in some)):
                completed += found
        return completed

    async def _measure(
        self, metrics: Sequence[Metric], place: int, trace: AgentTrace
    ) -> list[Evaluation]:
        """Evaluate the trace at a place of the session, and remember what came of it."""
        earlier = self._session.traces[:place]
        found = await self._evaluating.by_metrics(metrics, trace, earlier)
        self._by_trace.setdefault(trace.id, {}).update((x.metric, x) for x in found)
        return found

    def _rest_on_signals(self, external: Iterable[Evaluation]) -> list[Evaluation]:
        """The evaluations by the metrics that rest on signals."""
        given_weights = self._selection.given_weights(self._overrides)
        signals = read_signals(
            self._session, self._by_trace, given_weights, external=self._config.external_names
        )
        weights = dict(self._weights)
        external_signals = self._config.external_signals
        if external_signals:
            signals = with_external(signals, self._session, external, external_signals)
            weights |= {
                name: weight
                for name, weight in replaced_weights(external_signals)
                if name not in given_weights
            }
        outcomes = {
            metric.name: measured_by_signals(metric, self._session, signals, weights)
            for metric in self._by_signals
        }
        return self._evaluating.evaluations(graded(self._by_signals, outcomes), self._session)
