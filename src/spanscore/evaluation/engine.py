"""The engine: runs the metrics on a trace or a session, and turns all that may happen into evaluations."""

import asyncio
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from spanscore.embed.port import Embedder
from spanscore.evaluation.config import Config, Overrides
from spanscore.evaluation.evaluations import Graded, evaluations, graded
from spanscore.evaluation.grading import Grading
from spanscore.evaluation.judging import Judging
from spanscore.evaluation.measuring import Measuring, measured_by_signals
from spanscore.evaluation.panel import Panel
from spanscore.evaluation.planning import PlannedCall
from spanscore.evaluation.rubric import Config as RubricConfig
from spanscore.evaluation.rubric import Rubric, chosen
from spanscore.evaluation.selection import Selection
from spanscore.evaluation.signals import TraceSignals, is_lacking, read_signals, replaced_weights, with_external
from spanscore.judge.config import Config as JudgeConfig
from spanscore.judge.config import warn_of_rules
from spanscore.judge.opening import renderer
from spanscore.judge.port import Judge
from spanscore.metrics import Judged, JudgedSession, Metric, SessionMetric
from spanscore.metrics.expected_tools import ExpectedCall
from spanscore.metrics.rubric import NOTHING_EXPECTED, Expected
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, Session

_TRACES_AT_ONCE = 16
_ALL = 1 << 32


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
        self._clock_ns = clock_ns
        self._has_judge = judge is not None
        self._selection = Selection(config, embedder, has_judge=self._has_judge)
        render = renderer(judge_config)
        slots = asyncio.Semaphore(config.max_concurrent)
        panel = Panel(Judging(judge, judge_config, render, slots), judge_config) if judge else None
        self._measuring = Measuring(panel, embedder)
        self._grading = Grading(judge, render, judge_config.max_transcript_tokens, slots, judge_config.samples)
        self.ranking = self._selection.ranking()
        if judge is None:
            config.refuse_models()
        if config.names_rules():
            warn_of_rules()

    @property
    def uses_external_scores(self) -> bool:
        """Whether a session's evaluation uses scores that others gave."""
        return bool(self._config.external_signals)

    @property
    def looks_back(self) -> bool:
        """Whether a trace's evaluation uses the session's earlier turns: a judge reads them, and some checks do."""
        configured = self._selection.configured
        return self._has_judge or any(x.looks_back for x in configured)

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
        if self._is_left_out(trace.session_id or trace.id, overrides):
            return []
        metrics = [x for x in self._selection.metrics(overrides) if x.run == "trace"]
        found = await self._evaluated(metrics, trace, revision, earlier)
        if trace.session_id is None and (rubric := self._selection.rubric(overrides)):
            found += await self._by_rubric(rubric, trace, revision)
        return self._drawn(found, overrides)

    async def evaluate_session(
        self,
        session: Session,
        signals: Mapping[str, TraceSignals],
        overrides: Overrides | None = None,
        *,
        revision: int = 1,
        external: Iterable[Evaluation] = (),
    ) -> list[Evaluation]:
        """Run the session metrics on `session`, and before them the trace metrics that look at earlier traces.

        `external` are the scores that others gave, which count as signals where they are configured to.
        `signals` are the traces' evaluations by agent trace id and metric name. A run that somebody asked for measures
        signals that are missing there, or that another model judged than the one it names, for itself: they are not
        returned. All that is returned has the session's `revision`. A session without traces, or outside the sample,
        gives []; for the latter and for errors see `evaluate_trace`.
        """
        if not session.traces or self._is_left_out(session.session_id, overrides):
            return []
        weights = self._selection.weights(overrides)
        metrics = [x for x in self._selection.metrics(overrides) if x.run == "session"]
        by_signals = [x for x in metrics if isinstance(x, SessionMetric)]
        of_traces = {x.name: x for x in metrics if x.scope == "trace"}
        resting = self._selection.signals(by_signals, overrides)
        looking_back = {x.name: x for x in resting if x.run == "session"} | of_traces
        known = {trace_id: dict(by_metric) for trace_id, by_metric in signals.items()}
        found: list[Evaluation] = []
        for place, trace in enumerate(session.traces):
            measured = await self._evaluated([*looking_back.values()], trace, revision, session.traces[:place])
            known.setdefault(trace.id, {}).update((x.metric, x) for x in measured)
            found += [x for x in measured if x.metric in of_traces]
        if overrides is not None:
            await self._complete(known, session, [x for x in resting if x.run == "trace"], revision)
        of_session = [x for x in metrics if x.scope == "session" and not isinstance(x, SessionMetric)]
        found += await self._evaluated(of_session, session, revision)
        given_weights = self._selection.given_weights(overrides)
        rest_on = read_signals(session, known, given_weights)
        if self._config.external_signals:
            rest_on = with_external(rest_on, session, external, self._config.external_signals)
            weights |= {x: y for x, y in replaced_weights(self._config.external_signals) if x not in given_weights}
        computed = {x.name: measured_by_signals(x, session, rest_on, weights) for x in by_signals}
        found += self._made(graded(by_signals, computed), session, revision)
        if rubric := self._selection.rubric(overrides):
            found += await self._by_rubric(rubric, session, revision)
        return self._drawn(found, overrides)

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

    def plan(
        self, trace: AgentTrace, overrides: Overrides | None = None, *, earlier: Sequence[AgentTrace] = ()
    ) -> list[PlannedCall]:
        """The calls that a judge would get for `trace`; nothing is sent. Arguments and errors as `evaluate_trace`."""
        metrics = self._selection.metrics(overrides)
        judged = [x for x in metrics if x.run == "trace" and isinstance(x, Judged)]
        return self._measuring.planned(judged, trace, earlier)

    def plan_session(self, session: Session, overrides: Overrides | None = None) -> list[PlannedCall]:
        """The calls that a judge would get for the judged metrics of `session`, and for its rubric; as `plan`."""
        judged = [x for x in self._selection.metrics(overrides) if isinstance(x, JudgedSession)]
        return self._measuring.planned(judged, session) + self.plan_rubric(session, overrides)

    def plan_rubric(self, subject: AgentTrace | Session, overrides: Overrides | None = None) -> list[PlannedCall]:
        """The call that a judge would get for the rubric of `subject`; as `plan`."""
        rubric = self._selection.rubric(overrides)
        return self._grading.planned(rubric, _as_session(subject)) if rubric else []

    def _is_left_out(self, subject_id: str, overrides: Overrides | None) -> bool:
        """Whether a subject is outside the sample; none is that somebody asked for."""
        share = self._config.sampling
        if overrides is not None or share >= 1:
            return False
        return zlib.crc32(subject_id.encode("utf-8", "surrogatepass")) >= share * _ALL

    def _drawn(self, found: list[Evaluation], overrides: Overrides | None) -> list[Evaluation]:
        """The evaluations, with the chance that their subject had of being evaluated."""
        share = self._config.sampling
        return found if overrides is not None or share >= 1 else [replace(x, sampling=share) for x in found]

    async def _evaluated(
        self,
        metrics: Sequence[Metric],
        subject: AgentTrace | Session,
        revision: int,
        earlier: Sequence[AgentTrace] = (),
    ) -> list[Evaluation]:
        """The evaluations of a trace, or of a session by a judge."""
        measured = await self._measuring.measured(metrics, subject, earlier)
        return self._made(graded(metrics, measured), subject, revision)

    async def _complete(
        self, known: dict[str, dict[str, Evaluation]], session: Session, signals: Sequence[Metric], revision: int
    ) -> None:
        """Measure the signals that traces lack, some traces at a time, and add them to `known`."""

        async def complete(place: int, trace: AgentTrace) -> None:
            lacking = [x for x in signals if is_lacking(x, known[trace.id].get(x.name))]
            found = await self._evaluated(lacking, trace, revision, session.traces[:place])
            known[trace.id].update((x.metric, x) for x in found)

        places = list(enumerate(session.traces))
        for first in range(0, len(places), _TRACES_AT_ONCE):
            await asyncio.gather(*(complete(*x) for x in places[first : first + _TRACES_AT_ONCE]))

    async def _by_rubric(
        self, rubric: Rubric, subject: AgentTrace | Session, revision: int, expected: Expected = NOTHING_EXPECTED
    ) -> list[Evaluation]:
        found = await self._grading.graded(rubric, _as_session(subject), expected)
        return self._made(found, subject, revision)

    def _made(self, found: Iterable[Graded], subject: AgentTrace | Session, revision: int) -> list[Evaluation]:
        return evaluations(found, subject, revision=revision, now_ns=self._clock_ns())


def _as_session(subject: AgentTrace | Session) -> Session:
    """A trace as a session of its own."""
    return subject if isinstance(subject, Session) else Session(subject.session_id or "", (subject,))
