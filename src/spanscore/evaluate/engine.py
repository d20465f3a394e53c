"""The engine: runs the metrics on a trace or a session, and turns all that may happen into evaluations."""

import asyncio
import functools
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from spanscore.embed.ngrams import Ngrams
from spanscore.embed.port import Embedder
from spanscore.errors import InputError
from spanscore.evaluate import grading
from spanscore.evaluate.attempt import Attempt
from spanscore.evaluate.case import Case
from spanscore.evaluate.config import Config, Overrides, check_signals, model_named
from spanscore.evaluate.grading import Graded
from spanscore.evaluate.judging import Judging
from spanscore.evaluate.panel import Panel
from spanscore.evaluate.planning import PlannedCall
from spanscore.evaluate.readable import readable
from spanscore.evaluate.rubric import Config as RubricConfig
from spanscore.evaluate.rubric import Rubric, chosen
from spanscore.evaluate.signals import TraceSignals, is_lacking, needed, read_signals, usual_weights
from spanscore.evaluate.unjudged import no_judge
from spanscore.evaluate.valued import valued
from spanscore.judge.config import RULES, warn_of_rules
from spanscore.judge.config import Config as JudgeConfig
from spanscore.judge.opening import renderer
from spanscore.judge.port import Judge
from spanscore.judge.transcript import Transcript
from spanscore.metrics import Computed, Embedded, Judged, JudgedSession, Metric, SessionMetric, Signals
from spanscore.metrics.expected_tools import ExpectedCall
from spanscore.metrics.rubric import NOTHING_EXPECTED, Expected
from spanscore.model.score import Evaluation, Evaluator, Failure, JudgeUsage, Outcome, Skip
from spanscore.model.trace import AgentTrace, Session

MAX_EARLIER_TURNS = 20
"""Turns of a session before the evaluated one that its evaluation looks at, at most: the newest."""

NO_EMBEDDING = (
    "No embedding is configured: set embedding.model to a provider's model (such as text-embedding-3-small), or "
    "embedding.local_model to a model2vec model; embedding.provider: ngrams compares spelling only."
)

_TRACES_AT_ONCE = 16
_ALL = 1 << 32
_NGRAMS = Ngrams()


class _Measured(NamedTuple):
    """An outcome with who measured it, and what that cost."""

    outcome: Outcome
    evaluator: Evaluator
    usage: JudgeUsage = JudgeUsage()


class Engine:
    """Evaluates traces and sessions. Belongs to one event loop; no error of a metric or judge escapes it."""

    def __init__(
        self,
        config: Config,
        judge: Judge | None,
        embedder: Embedder | None,
        *,
        judge_config: JudgeConfig = JudgeConfig(),  # noqa: B008 - frozen
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """`judge` None: judged metrics are skipped. `embedder` None: no embedding is configured.

        `judge_config` says how `judge` is asked and what it is shown.

        Raises ConfigError where a metric names a model and there is no judge.
        """
        self._config = config
        self._judge = judge
        self._embedder = embedder
        self._clock_ns = clock_ns
        self._render = renderer(judge_config)
        self._longest = judge_config.max_transcript_tokens
        self._metrics = config.build()
        self._slots = asyncio.Semaphore(config.max_concurrent)
        judging = Judging(judge, judge_config, self._render, self._slots) if judge else None
        self._panel = Panel(judging, judge_config) if judging else None
        if judge is None:
            config.refuse_models()
        if config.names_rules():
            warn_of_rules()

    @property
    def looks_back(self) -> bool:
        """Whether a trace's evaluation uses the session's earlier turns: a judge reads them, and some checks do."""
        return self._judge is not None or any(isinstance(x, Computed) and x.looks_back for x in self._metrics)

    async def evaluate_trace(
        self,
        trace: AgentTrace,
        overrides: Overrides | None = None,
        *,
        revision: int = 1,
        earlier: Sequence[AgentTrace] = (),
    ) -> list[Evaluation]:
        """Run the trace metrics on `trace`, but those that run with its session; of one without, the rubric too.

        `earlier` are the session's turns before this one, as far as they are known, oldest first; the newest
        `MAX_EARLIER_TURNS` count. Signals that only session metrics need are measured too. Without `overrides`, which
        mean that somebody asked for it, a trace outside the sample gives []. Raises InputError where `overrides` name
        what there is not.
        """
        if overrides is None and not self._is_sampled(trace.session_id or trace.id):
            return []
        metrics = [x for x in self._selected(overrides) if x.run == "trace"]
        found = await self._evaluated(metrics, trace, earlier, revision)
        rubric = self._rubric(overrides) if trace.session_id is None else None
        return self._drawn(found + (await self._by_rubric(rubric, trace, revision) if rubric else []), overrides)

    async def evaluate_session(
        self,
        session: Session,
        signals: Mapping[str, TraceSignals],
        overrides: Overrides | None = None,
        *,
        revision: int = 1,
    ) -> list[Evaluation]:
        """Run the session metrics on `session`, and before them the trace metrics that look at earlier traces.

        `signals` are the traces' evaluations by agent trace id and metric name. A run that somebody asked for measures
        signals that are missing there, or that another model judged than the one it names, for itself: they are not
        returned. All that is returned has the session's `revision`. A session without traces, or outside the sample,
        gives []; for the latter and for errors see `evaluate_trace`.
        """
        if not session.traces or (overrides is None and not self._is_sampled(session.session_id)):
            return []
        weights = self._weights(overrides)
        metrics = [x for x in self._selected(overrides) if x.run == "session"]
        of_session = [x for x in metrics if isinstance(x, SessionMetric)]
        wanted = [x for x in metrics if x.scope == "trace"]
        resting = self._signals(of_session, overrides, weights)
        looking_back = {x.name: x for x in (*(x for x in resting if x.run == "session"), *wanted)}
        found: list[Evaluation] = []
        known = {trace_id: dict(evaluations) for trace_id, evaluations in signals.items()}
        for place, trace in enumerate(session.traces):
            evaluations = await self._evaluated(list(looking_back.values()), trace, session.traces[:place], revision)
            known.setdefault(trace.id, {}).update((x.metric, x) for x in evaluations)
            found += evaluations
        if overrides is not None:
            await self._complete(known, session, [x for x in resting if x.run == "trace"], revision)
        names = {x.name for x in wanted}
        rest_on = read_signals(session, known, self._given_weights(overrides))
        rubric = self._rubric(overrides)
        measured_all = [
            *(x for x in found if x.metric in names),
            *await self._session_judged([x for x in metrics if isinstance(x, JudgedSession)], session, revision),
            *(self._of_session(metric, session, rest_on, weights, revision) for metric in of_session),
            *(await self._by_rubric(rubric, session, revision) if rubric else ()),
        ]
        return self._drawn(measured_all, overrides)

    async def evaluate_rubric(
        self,
        subject: AgentTrace | Session,
        overrides: Overrides | None = None,
        *,
        expected_outcomes: Sequence[str] = (),
        evaluation_criteria_override: str = "",
        expected_tools: Sequence[ExpectedCall] = (),
        tool_sequence_matters: bool = True,
        rubric: RubricConfig | None = None,
        revision: int = 1,
    ) -> list[Evaluation]:
        """Score a session, or a trace by itself, by the rubric: each criterion, and `rubric.overall` as the last.

        What is scored is what `rubric` says, else what is configured under `evaluation.rubric`, else the defaults.
        `expected_outcomes` are statements that are to hold in the end: the overall label is `pass` when all do.
        `expected_tools` are the calls that the criteria about tools are held against.
        `evaluation_criteria_override` tells the judge what matters most in this case. Raises InputError as
        `evaluate_trace`.
        """
        config = rubric or self._config.rubric
        selected = (overrides.rubric(config) if overrides else None) or chosen(config or RubricConfig())
        expected = Expected(
            tuple(expected_outcomes), evaluation_criteria_override, tuple(expected_tools), tool_sequence_matters
        )
        return await self._by_rubric(selected, subject, revision, expected) if selected else []

    def plan_session(self, session: Session, overrides: Overrides | None = None) -> list[PlannedCall]:
        """The calls that a judge would get for the judged metrics of `session`, and for its rubric; as `plan`."""
        metrics = [x for x in self._selected(overrides) if isinstance(x, JudgedSession)]
        judged = [x for x in metrics if self._at_once(x, session) is None]
        planned = self._panel.planned(judged, session) if judged and self._panel is not None else []
        return [*planned, *self.plan_rubric(session, overrides)]

    def plan_rubric(self, subject: AgentTrace | Session, overrides: Overrides | None = None) -> list[PlannedCall]:
        """The call that a judge would get for the rubric of `subject`; as `plan`."""
        rubric = self._rubric(overrides)
        if rubric is None or self._judge is None or rubric.model == RULES:
            return []
        session = _as_session(subject)
        return grading.planned(rubric, session, self._render(session), NOTHING_EXPECTED)

    def plan(
        self, trace: AgentTrace, overrides: Overrides | None = None, *, earlier: Sequence[AgentTrace] = ()
    ) -> list[PlannedCall]:
        """The calls that a judge would get for `trace`; nothing is sent. Arguments and errors as `evaluate_trace`."""
        metrics = [x for x in self._selected(overrides) if x.run == "trace" and isinstance(x, Judged)]
        judged = [x for x in metrics if self._at_once(x, trace, earlier) is None]
        if not judged or self._panel is None:
            return []
        return self._panel.planned(judged, trace, earlier[-MAX_EARLIER_TURNS:])

    def _selected(self, overrides: Overrides | None) -> list[Metric]:
        if overrides is None:
            return self._metrics
        if overrides.model == RULES:
            warn_of_rules()
        selected = overrides.applied(self._metrics)
        rubric = overrides.rubric(self._config.rubric)
        if self._judge is None and (model := model_named((*selected, *self._signals(selected, overrides)), rubric)):
            raise InputError(f"model {model!r} cannot judge: judge.model names none, so there is no judge to ask it")
        return selected

    def _rubric(self, overrides: Overrides | None) -> Rubric | None:
        configured = self._config.rubric
        return chosen(configured) if overrides is None else overrides.rubric(configured)

    def _weights(self, overrides: Overrides | None) -> dict[str, float]:
        embedding = self._embedder.name if self._embedder else None
        return {**usual_weights(embedding), **self._given_weights(overrides)}

    def _given_weights(self, overrides: Overrides | None) -> dict[str, float]:
        """The weights of signals that the configuration or the run gives. Raises InputError on what is no signal."""
        changed = (overrides.signal_weights if overrides else None) or {}
        try:
            check_signals(changed)
        except ValueError as error:
            raise InputError(str(error)) from None
        return {**self._config.signal_weights, **changed}

    def _signals(
        self, run: Sequence[Metric], overrides: Overrides | None, weights: Mapping[str, float] | None = None
    ) -> list[Metric]:
        """The metrics of the signals that the session metrics of a run rest on, as that run measures them."""
        names = needed(run, weights or self._weights(overrides))
        return Overrides(names, overrides.model if overrides else None).applied(self._metrics)

    async def _complete(
        self, known: dict[str, dict[str, Evaluation]], session: Session, signals: Sequence[Metric], revision: int
    ) -> None:
        """Measure the signals that traces lack, some traces at a time, and add them to `known`."""

        async def complete(place: int, trace: AgentTrace) -> None:
            lacking = [x for x in signals if is_lacking(x, known[trace.id].get(x.name))]
            evaluations = await self._evaluated(lacking, trace, session.traces[:place], revision)
            known[trace.id].update((x.metric, x) for x in evaluations)

        places = list(enumerate(session.traces))
        for first in range(0, len(places), _TRACES_AT_ONCE):
            await asyncio.gather(*(complete(*x) for x in places[first : first + _TRACES_AT_ONCE]))

    def _is_sampled(self, subject_id: str) -> bool:
        share = self._config.sampling
        return share >= 1 or zlib.crc32(subject_id.encode("utf-8", "surrogatepass")) < share * _ALL

    def _drawn(self, found: list[Evaluation], overrides: Overrides | None) -> list[Evaluation]:
        """The evaluations, with the chance that their subject had of being evaluated."""
        share = self._config.sampling
        return found if overrides is not None or share >= 1 else [replace(x, sampling=share) for x in found]

    async def _evaluated(
        self, metrics: Sequence[Metric], trace: AgentTrace, earlier: Sequence[AgentTrace], revision: int
    ) -> list[Evaluation]:
        """The evaluations of one trace by these metrics."""
        measured, judged = await self._measured(metrics, trace, earlier)
        if judged and self._panel is not None:
            cases = await self._panel.settled(judged, trace, earlier[-MAX_EARLIER_TURNS:])
            measured |= {case.metric.name: self._ruling(case) for case in cases}
        return self._of_trace(metrics, measured, trace, revision)

    async def _measured(
        self, metrics: Sequence[Metric], trace: AgentTrace, earlier: Sequence[AgentTrace]
    ) -> tuple[dict[str, _Measured], list[Judged]]:
        """What can be measured without a judge, by metric name; and what is left for one."""
        measured: dict[str, _Measured] = {}
        judged: list[Judged] = []
        for metric in metrics:
            at_once = self._at_once(metric, trace, earlier)
            if at_once is not None:
                measured[metric.name] = at_once
            elif isinstance(metric, Embedded):
                measured[metric.name] = await self._embedded(metric, trace, earlier)
            elif isinstance(metric, Judged):
                judged.append(metric)
            else:
                measured[metric.name] = _Measured(_given(None), self._evaluator(metric))
        return measured, judged

    def _at_once(
        self, metric: Metric, subject: AgentTrace | Session, earlier: Sequence[AgentTrace] = ()
    ) -> _Measured | None:
        """The outcome where nothing has to be awaited for it: a Skip, a computed metric; else None."""
        with Attempt(metric.name) as attempt:
            attempt.outcome = _unmeasurable(metric, subject)
            if attempt.outcome is None and isinstance(metric, Judged):
                attempt.outcome = metric.settle(subject, {})
                if attempt.outcome is None and (self._judge is None or metric.model == RULES):
                    attempt.outcome = no_judge(metric.name)
            elif attempt.outcome is None and isinstance(metric, Computed) and isinstance(subject, AgentTrace):
                attempt.outcome = metric.measure_after(subject, earlier)
        if attempt.outcome is None:
            return None
        return _Measured(attempt.outcome, self._evaluator(metric))

    def _evaluator(self, metric: Metric) -> Evaluator:
        embedder = self._embedder_of(metric) if isinstance(metric, Embedded) else None
        return _code(metric.name, metric.version, embedder.name if embedder else None)

    def _embedder_of(self, metric: Embedded) -> Embedder | None:
        """The configured embedder; where there is none, the n-grams for a metric that makes do with them."""
        if self._embedder is None and metric.falls_back_on_ngrams:
            return _NGRAMS
        return self._embedder

    async def _embedded(self, metric: Embedded, trace: AgentTrace, earlier: Sequence[AgentTrace]) -> _Measured:
        embedder = self._embedder_of(metric)
        with Attempt(metric.name) as attempt:
            if embedder is None:
                attempt.outcome = Skip(NO_EMBEDDING, "no_embedding")
            else:
                attempt.outcome = await metric.measure(trace, earlier, embedder)
        return _Measured(_given(attempt.outcome), self._evaluator(metric))

    async def _session_judged(
        self, metrics: Sequence[JudgedSession], session: Session, revision: int
    ) -> list[Evaluation]:
        """The evaluations of the whole session by a judge."""
        measured: dict[str, _Measured] = {}
        for metric in metrics:
            if (at_once := self._at_once(metric, session)) is not None:
                measured[metric.name] = at_once
        judged = [x for x in metrics if x.name not in measured]
        if judged and self._panel is not None:
            cases = await self._panel.settled(judged, session)
            measured |= {case.metric.name: self._ruling(case) for case in cases}
        of_last = self._of_trace(metrics, measured, session.traces[-1], revision)
        return [_of_whole(x, session) for x in of_last]

    async def _by_rubric(
        self, rubric: Rubric, subject: AgentTrace | Session, revision: int, expected: Expected = NOTHING_EXPECTED
    ) -> list[Evaluation]:
        session = _as_session(subject)
        with Attempt("the rubric") as attempt:
            graded = await self._graded(rubric, session, expected)
        if attempt.outcome is not None:
            graded = grading.alike(rubric, attempt.outcome)
        found = [
            self._evaluation(x.metric, x.scale, x.threshold, _Measured(*x[3:]), session.traces[-1], revision)
            for x in graded
        ]
        return [_of_whole(x, session) for x in found] if isinstance(subject, Session) else found

    async def _graded(self, rubric: Rubric, session: Session, expected: Expected) -> list[Graded]:
        if self._judge is None or rubric.model == RULES:
            return grading.alike(rubric, no_judge("the rubric"))

        def show(longest: int) -> Transcript:
            return grading.rendered(session, self._render, longest, expected)

        async with self._slots:
            return await grading.by_judge(rubric, session, self._judge, show, self._longest, expected)

    def _ruling(self, case: Case) -> _Measured:
        return _Measured(_given(case.outcome), case.evaluator, case.usage)

    def _of_trace(
        self, metrics: Sequence[Metric], measured: Mapping[str, _Measured], trace: AgentTrace, revision: int
    ) -> list[Evaluation]:
        return [
            self._evaluation(metric.name, metric.scale, threshold, of_metric, trace, revision)
            for metric in metrics
            for threshold, of_metric in (_thresholded(metric, measured[metric.name]),)
        ]

    def _evaluation(
        self,
        metric: str,
        scale: tuple[float, float],
        threshold: float | None,
        measured: _Measured,
        trace: AgentTrace,
        revision: int,
    ) -> Evaluation:
        outcome = readable(measured.outcome) if measured.evaluator.kind == "LLM" else measured.outcome
        return Evaluation(
            scope="trace",
            subject_id=trace.id,
            metric=metric,
            outcome=valued(outcome, metric, scale),
            threshold=threshold,
            scale=scale,
            evaluator=measured.evaluator,
            target=trace.target,
            session_id=trace.session_id,
            agent_name=trace.agent_name,
            service_name=trace.service_name,
            usage=measured.usage,
            revision=revision,
            evaluated_at_ns=self._clock_ns(),
            trial=trace.trial,
        )

    def _of_session(
        self, metric: SessionMetric, session: Session, signals: Signals, weights: Mapping[str, float], revision: int
    ) -> Evaluation:
        with Attempt(metric.name) as attempt:
            attempt.outcome = metric.measure(session, signals, weights)
        measured = {metric.name: _Measured(_given(attempt.outcome), self._evaluator(metric))}
        [of_last] = self._of_trace([metric], measured, session.traces[-1], revision)
        return _of_whole(of_last, session)


def _unmeasurable(metric: Metric, subject: AgentTrace | Session) -> Skip | None:
    if isinstance(subject, AgentTrace):
        return metric.unmeasurable(subject)
    return metric.unmeasurable_session(subject) if isinstance(metric, JudgedSession) else None


def _as_session(subject: AgentTrace | Session) -> Session:
    """A trace as a session of its own."""
    return subject if isinstance(subject, Session) else Session(subject.session_id or "", (subject,))


def _of_whole(of_last: Evaluation, session: Session) -> Evaluation:
    """What was measured on a session, from the same as if it were of its last trace."""
    session_id, first_trace_id = session.session_id, session.traces[0].target.trace_id
    return replace(
        of_last, scope="session", subject_id=session_id, session_id=session_id, first_trace_id=first_trace_id
    )


@functools.lru_cache(maxsize=256)  # the same few for every trace
def _code(name: str, version: str, embedding: str | None) -> Evaluator:
    return Evaluator("CODE", name, version, embedding=embedding)


def _thresholded(metric: Metric, measured: _Measured) -> tuple[float | None, _Measured]:
    """The threshold that holds for what was measured; without one, since the metric raised, that is its Failure."""
    with Attempt(f"the threshold of {metric.name}") as attempt:
        return metric.threshold_for(measured.evaluator.embedding), measured
    return None, measured._replace(outcome=_given(attempt.outcome))


def _given(outcome: Outcome | None) -> Outcome:
    """A metric that gives neither an outcome nor an error is broken: that is its Failure."""
    return outcome if outcome is not None else Failure("NoOutcomeError", "the metric gave no outcome")
