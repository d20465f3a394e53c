"""The engine: runs the metrics on a trace or a session, and turns all that may happen into
evaluations.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from spanscore.embed.port import Embedder
from spanscore.evaluation.config import Config, Overrides
from spanscore.evaluation.evaluating import Evaluating, as_session
from spanscore.evaluation.planning import PlannedCall
from spanscore.evaluation.procedure import Procedure, make_procedure
from spanscore.evaluation.revising import drawn_before, withdrawn
from spanscore.evaluation.rubric import Config as RubricConfig
from spanscore.evaluation.rubric import chosen
from spanscore.evaluation.rule_judges import RuleJudge, rule_judges
from spanscore.evaluation.rules import DEFAULT, Decision, Rules
from spanscore.evaluation.session_evaluating import SessionEvaluating
from spanscore.evaluation.signals import TraceSignals
from spanscore.judge.config import Config as JudgeConfig
from spanscore.judge.port import Judge
from spanscore.metrics import Judged, JudgedSession, Metric, SessionMetric
from spanscore.metrics.expected_tools import ExpectedCall
from spanscore.metrics.rubric import Expected
from spanscore.model.record import changed
from spanscore.model.score import Evaluation, ScopeKind
from spanscore.model.trace import AgentTrace, Session
from spanscore.telemetry import Meter, declared


class Engine:
    """Evaluates traces and sessions.

    Belongs to one event loop; no error of a metric or judge escapes it.
    """

    def __init__(
        self,
        config: Config,
        judge: Judge | None,
        embedder: Embedder | None,
        *,
        judge_config: JudgeConfig = JudgeConfig(),  # noqa: B008 - frozen
        judges: Mapping[str, RuleJudge] = MappingProxyType({}),
        clock_ns: Callable[[], int] = time.time_ns,
        meter: Meter | None = None,
    ) -> None:
        """`judge` None: judged metrics are skipped. `embedder` None: no embedding is configured.

        `judge_config` says how `judge` is asked and what it is shown. `judges` are those of rules
        that change it, by the rules' names. `meter` counts what rules decide.

        Raises ConfigError where a metric names a model and there is no judge.
        """
        self._config = config
        self._clock_ns = clock_ns
        self._meter = meter or Meter()
        slots = asyncio.Semaphore(config.max_concurrent)
        self._rules = Rules(config.rules, config.sampling)
        usual = RuleJudge(judge, judge_config)
        by_rule = {**rule_judges(config.rules, usual, lambda _config, _beside: judge), **judges}
        self._usual = make_procedure(config.without_rules(), usual, embedder, slots)
        known = self._usual.selection.configured
        self._by_rule = {
            rule.name: make_procedure(
                config.under(rule), by_rule.get(rule.name, usual), embedder, slots, beside=known
            )
            for rule in config.rules
            if rule.measures
        }
        self.ranking = self._usual.selection.ranking()

    @property
    def uses_external_scores(self) -> bool:
        """Whether a session's evaluation uses scores that others gave."""
        return bool(self._config.external_signals)

    @property
    def looks_back(self) -> bool:
        """Whether a trace's evaluation uses the session's earlier turns: a judge reads them, and
        some checks do.
        """
        return any(x.looks_back for x in (self._usual, *self._by_rule.values()))

    def decide(self, trace: AgentTrace) -> Decision:
        """Which rule takes a trace, and with what chance it is evaluated."""
        return self._rules.decide(trace)

    def decide_session(self, session: Session) -> Decision:
        """Which rule takes a session, and with what chance it is evaluated: see
        `Rules.decide_session`.
        """
        return self._rules.decide_session(session.traces)

    def metrics_of(self, overrides: Overrides | None = None) -> list[Metric]:
        """The metrics that a run measures, but for the rubric.

        Raises InputError where `overrides` cannot be met.
        """
        self._usual.selection.weights(overrides)
        return self._usual.selection.metrics(overrides)

    def has_rubric(self, overrides: Overrides | None = None) -> bool:
        """Whether a run scores by the rubric."""
        return self._usual.selection.rubric(overrides) is not None

    async def evaluate_trace(
        self,
        trace: AgentTrace,
        overrides: Overrides | None = None,
        *,
        revision: int = 1,
        earlier: Sequence[AgentTrace] = (),
        before: Sequence[Evaluation] = (),
    ) -> list[Evaluation]:
        """Run the trace metrics on `trace`, but those that run with its session; of one without,
        the rubric too.

        `earlier` are the session's turns before this one, as far as they are known, oldest first;
        the newest `MAX_EARLIER_TURNS` count. `before` are the newest evaluations of this trace so
        far. Signals that only session metrics need are measured too. Without `overrides`, which
        mean that somebody asked for it, a trace outside the sample gives []. Raises InputError
        where `overrides` name what there is not.
        """
        decision = self._rules.decide(trace)
        found: list[Evaluation] = []
        if self._is_taken_in(decision, trace.session_id or trace.id, overrides, before, "trace"):
            evaluating = self._evaluating(self._following(decision), revision)
            found = await self._of_trace(evaluating, trace, overrides, earlier)
        return self._decided(found, decision, overrides, before, run="trace", revision=revision)

    async def evaluate_session(
        self,
        session: Session,
        signals: Mapping[str, TraceSignals],
        overrides: Overrides | None = None,
        *,
        revision: int = 1,
        external: Iterable[Evaluation] = (),
        before: Sequence[Evaluation] = (),
        with_signals: bool = False,
    ) -> list[Evaluation]:
        """Run the session metrics on `session`, and before them the trace metrics that look at
        earlier traces.

        `external` are the scores that others gave, which count as signals where they are configured
        to. `signals` are the traces' evaluations by agent trace id and metric name. A run that
        somebody asked for measures signals that are missing there, or that another model judged
        than the one it names, for itself: they are returned only `with_signals`. The same holds for
        the signals of traces that were left out of the sample while their session is in it.
        `before` are the newest evaluations of the session and its traces so far. All that is
        returned has the session's `revision`. A session without traces, or outside the sample,
        gives []; for the latter and for errors see `evaluate_trace`.
        """
        if not session.traces:
            return []
        decision = self._rules.decide_session(session.traces)
        found: list[Evaluation] = []
        if self._is_taken_in(decision, session.session_id, overrides, before, "session"):
            evaluating = self._evaluating(self._following(decision), revision)
            by_session = SessionEvaluating(evaluating, self._config, session, overrides, signals)
            found = await by_session.evaluate(
                external=external,
                unmeasured=self._unmeasured(session, overrides),
                left_out=self._left_out(session, signals, overrides),
                with_signals=with_signals,
            )
        return self._decided(found, decision, overrides, before, run="session", revision=revision)

    async def _of_trace(
        self,
        evaluating: Evaluating,
        trace: AgentTrace,
        overrides: Overrides | None,
        earlier: Sequence[AgentTrace],
    ) -> list[Evaluation]:
        selection = evaluating.procedure.selection
        metrics = [x for x in selection.metrics(overrides) if x.run == "trace"]
        found = await evaluating.by_metrics(metrics, trace, earlier)
        if trace.session_id is None and (rubric := selection.rubric(overrides)):
            found += await evaluating.by_rubric(rubric, trace)
        return found

    def _unmeasured(self, session: Session, overrides: Overrides | None) -> set[str]:
        """The traces of which a rule has nothing measured, by id."""
        if overrides is not None:
            return set()
        return {x.id for x in session.traces if not self._rules.decide(x).measures}

    def _left_out(
        self,
        session: Session,
        signals: Mapping[str, TraceSignals],
        overrides: Overrides | None,
    ) -> set[str]:
        """The traces, by id, whose missing signals are measured with their session: in a run that
        somebody asked for all of them, else those that were left out of the sample while their
        session is in it.
        """
        if overrides is not None:
            return {x.id for x in session.traces}
        drawn = [x for x in session.traces if self._rules.decide(x).share < 1]
        return {x.id for x in drawn if not drawn_before(signals.get(x.id, {}).values(), "trace")}

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
        """Score a session, or a trace by itself, by the rubric: each criterion, and
        `rubric.overall` as the last.

        What is scored is what `rubric` says, else what is configured under `evaluation.rubric`,
        else the defaults. `expected_outcomes` are statements that are to hold in the end: the
        overall label is `pass` when all do. `expected_tools` are the calls that the criteria about
        tools are held against. `evaluation_criteria_override` tells the judge what matters most in
        this case. Raises InputError as `evaluate_trace`.
        """
        config = rubric or self._config.rubric
        selected = (overrides.rubric(config) if overrides else None) or chosen(
            config or RubricConfig()
        )
        expected = Expected(
            tuple(expected_outcomes),
            evaluation_criteria_override,
            tuple(expected_tools),
            tool_sequence_matters,
        )
        if not selected:
            return []
        return await self._evaluating(self._usual, revision).by_rubric(selected, subject, expected)

    def plan(
        self,
        trace: AgentTrace,
        overrides: Overrides | None = None,
        *,
        earlier: Sequence[AgentTrace] = (),
    ) -> list[PlannedCall]:
        """The calls that a judge would get for `trace`; nothing is sent.

        Arguments and errors as `evaluate_trace`.
        """
        decision = self._rules.decide(trace)
        if not _is_measured(decision, overrides):
            return []
        procedure = self._following(decision)
        metrics = procedure.selection.metrics(overrides)
        judged = [x for x in metrics if x.run == "trace" and isinstance(x, Judged)]
        return procedure.measuring.planned(judged, trace, earlier)

    def plan_session(
        self, session: Session, overrides: Overrides | None = None
    ) -> list[PlannedCall]:
        """The calls that a judge would get for the judged metrics of `session`, and for its rubric;
        as `plan`.
        """
        decision = self._rules.decide_session(session.traces)
        if not _is_measured(decision, overrides):
            return []
        procedure = self._following(decision)
        judged = [x for x in procedure.selection.metrics(overrides) if isinstance(x, JudgedSession)]
        return procedure.measuring.planned(judged, session) + self.plan_rubric(session, overrides)

    def plan_signals(
        self, session: Session, overrides: Overrides | None = None
    ) -> list[PlannedCall]:
        """The calls that a judge would get for the signals of `session`, where none is measured
        yet; as `plan`.
        """
        procedure = self._following(self._rules.decide_session(session.traces))
        metrics = [
            x for x in procedure.selection.metrics(overrides) if isinstance(x, SessionMetric)
        ]
        signals = procedure.selection.signals(metrics, overrides)
        judged = [x for x in signals if isinstance(x, Judged)]
        return [
            call
            for place, trace in enumerate(session.traces)
            for call in procedure.measuring.planned(judged, trace, session.traces[:place])
        ]

    def plan_rubric(
        self, subject: AgentTrace | Session, overrides: Overrides | None = None
    ) -> list[PlannedCall]:
        """The call that a judge would get for the rubric of `subject`; as `plan`."""
        session = as_session(subject)
        decision = self._rules.decide_session(session.traces)
        procedure = self._following(decision)
        rubric = (
            procedure.selection.rubric(overrides) if _is_measured(decision, overrides) else None
        )
        return procedure.grading.planned(rubric, session) if rubric else []

    def _following(self, decision: Decision) -> Procedure:
        """How what was decided is done."""
        if decision.rule is None:
            return self._usual
        return self._by_rule.get(decision.rule, self._usual)

    def _evaluating(self, procedure: Procedure, revision: int) -> Evaluating:
        return Evaluating(procedure, revision, self._clock_ns)

    def _is_taken_in(
        self,
        decision: Decision,
        subject_id: str,
        overrides: Overrides | None,
        before: Sequence[Evaluation],
        run: ScopeKind,
    ) -> bool:
        """Whether a subject is evaluated; one that somebody asked for is, unless its rule has
        nothing measured.
        """
        if overrides is not None:
            return _is_measured(decision, overrides)
        is_in = decision.takes_in(subject_id, _chance(decision, before, run))
        outcome = "evaluated" if is_in else "left_out" if decision.measures else "not_measured"
        self._meter.add(
            declared.RULES_DECISIONS, rule=decision.rule or DEFAULT, scope=run, outcome=outcome
        )
        return is_in

    def _decided(
        self,
        found: Sequence[Evaluation],
        decision: Decision,
        overrides: Overrides | None,
        before: Sequence[Evaluation],
        *,
        run: ScopeKind,
        revision: int,
    ) -> list[Evaluation]:
        """The evaluations with the rule that decided them and the chance that their subject had of
        being evaluated.

        What was drawn with a greater chance before keeps that: its place among all was the same
        then.
        """
        if overrides is not None:
            return [x if decision.rule is None else changed(x, rule=decision.rule) for x in found]
        given = [
            *found,
            *withdrawn(
                before, found, decision, run=run, revision=revision, now_ns=self._clock_ns()
            ),
        ]
        chance = _chance(decision, before, run) or 1.0
        if chance >= 1 and decision.rule is None:
            return given
        return [changed(x, sampling=chance, rule=decision.rule) for x in given]


def _chance(decision: Decision, before: Sequence[Evaluation], run: ScopeKind) -> float:
    """The chance with which a subject is evaluated: its rule's, or that with which it was drawn
    before, if greater.
    """
    return decision.share if decision.share >= 1 else max(decision.share, drawn_before(before, run))


def _is_measured(decision: Decision, overrides: Overrides | None) -> bool:
    """Whether anything is measured; where a run names metrics, these are, whatever the rule
    says.
    """
    return decision.measures or (overrides is not None and overrides.metrics is not None)
