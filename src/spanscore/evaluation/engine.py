"""The engine: runs metrics on traces and sessions."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from spanscore import metrics
from spanscore.embed.port import Embedder
from spanscore.evaluation.config import Config, Overrides
from spanscore.evaluation.inquiry import PlannedCall
from spanscore.evaluation.measurement import measured_by_signals
from spanscore.evaluation.outcomes import Graded, evaluations, for_want_of_a_judge, parted, placed
from spanscore.evaluation.procedure import Procedure, RuleJudge, Selection, as_session, rule_judges
from spanscore.evaluation.rubric import Config as RubricConfig, chosen, is_rubric
from spanscore.evaluation.rules import DEFAULT, Decision, Rules
from spanscore.evaluation.signals import TraceSignals, given_signals, is_lacking, read_signals
from spanscore.judge.config import Config as JudgeConfig
from spanscore.judge.port import Judge
from spanscore.metrics import SIGNAL_WEIGHTS, Judged, Metric, SessionMetric
from spanscore.metrics.expected import ExpectedCall
from spanscore.metrics.rubric import NOTHING_EXPECTED, Expected
from spanscore.model.score import Evaluation, JudgeUsage, ScopeKind, Score, Skip
from spanscore.model.span import changed
from spanscore.model.trace import AgentTrace, Session
from spanscore.telemetry import Meter, about, declared

if TYPE_CHECKING:
    from spanscore.store.lookup import SessionRecord

MetricT = TypeVar("MetricT", bound=Metric)
Made: TypeAlias = Callable[[Iterable[Graded], AgentTrace | Session], list[Evaluation]]
"""Makes the evaluations of a subject from what was measured of it."""


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
        certified: Callable[[Evaluation], bool] | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
        meter: Meter | None = None,
    ) -> None:
        """`judge` None: judged metrics are skipped. `embedder` None: no embedding is configured.

        `judge_config` says how `judge` is asked and what it is shown. `judges` are those of rules
        that change it, by the rules' names. `certified` says of a score whether a certificate holds
        for its judge; None: none is required. `meter` counts what rules decide.

        Raises ConfigError where a metric names a model and there is no judge.
        """
        self.config = config
        """What is measured."""
        self._certified = certified
        self._clock_ns = clock_ns
        self._meter = meter or Meter()
        slots = asyncio.Semaphore(config.max_concurrent)
        self.rules = Rules(config.rules, config.sampling)
        """Which traces and sessions are evaluated, and by which rule."""
        usual = RuleJudge(judge, judge_config)
        by_rule = {**rule_judges(config.rules, usual, lambda _config, _beside: judge), **judges}
        self._usual = Procedure(config.without_rules(), usual, embedder, slots)
        known = self._usual.configured
        self._by_rule: dict[str | None, Procedure] = {
            rule.name: Procedure(
                config.under(rule), by_rule.get(rule.name, usual), embedder, slots, beside=known
            )
            for rule in config.rules
            if rule.measures
        }
        self.ranking = self._usual.ranking()

    @property
    def uses_external_scores(self) -> bool:
        """Whether a session's evaluation uses scores that others gave."""
        return bool(self.config.external_signals)

    @property
    def looks_back(self) -> bool:
        """Whether a trace's evaluation uses the session's earlier turns: a judge reads them, and
        some checks do.
        """
        return any(x.looks_back for x in (self._usual, *self._by_rule.values()))

    def selection(self, overrides: Overrides | None = None) -> Selection:
        """What a run measures where no rule takes a trace.

        Raises InputError where `overrides` cannot be met.
        """
        return self._usual.selection(overrides)

    async def evaluate_trace(
        self,
        trace: AgentTrace,
        overrides: Overrides | None = None,
        *,
        revision: int = 1,
        earlier: Sequence[AgentTrace] | None = (),
        before: Sequence[Evaluation] = (),
    ) -> list[Evaluation]:
        """Run the trace metrics on `trace`, but those that run with its session; of one without,
        the rubric too.

        `earlier` are the session's turns before this one, as far as they are known, oldest first;
        the newest `MAX_EARLIER_TURNS` count. None: nobody has looked for them, and
        EarlierTurnsNeededError says that the scores depend on them. `before` are the newest
        evaluations of this trace so far. Signals that only session metrics need are measured too.
        Without `overrides`, which mean that somebody asked for it, a trace outside the sample gives
        []. Raises InputError where `overrides` name what there is not.
        """
        decision = self.rules.decide(trace)
        found: list[Evaluation] = []
        if self._is_taken_in(decision, trace.session_id or trace.id, overrides, before, "trace"):
            procedure = self._following(decision)
            selection = procedure.selection(overrides)
            measured = await procedure.measuring.measured(selection.of_traces, trace, earlier)
            if trace.session_id is None and selection.rubric:
                alone = as_session(trace)
                measured += await procedure.grading.graded(
                    selection.rubric, alone, NOTHING_EXPECTED
                )
            found = self._made(revision)(measured, trace)
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
        decision = self.rules.decide_session(session.traces)
        found: list[Evaluation] = []
        if self._is_taken_in(decision, session.session_id, overrides, before, "session"):
            by_session = SessionEvaluating(
                self._following(decision),
                self._made(revision),
                self.config,
                session,
                overrides,
                signals,
                self._allowed,
            )
            found = await by_session.evaluate(
                external=external,
                left_out=self._left_out(session, signals, overrides),
                with_signals=with_signals,
            )
        return self._decided(found, decision, overrides, before, run="session", revision=revision)

    def _allowed(
        self, trace: AgentTrace, wanted: Sequence[MetricT], overrides: Overrides | None
    ) -> list[MetricT]:
        """Those of `wanted` that a session's evaluation may measure of one of its traces: what a
        run names, and what the configuration and the trace's own rule do not turn off.
        """
        decision = self.rules.decide(trace)
        procedure = self._following(decision)
        names = procedure.names if decision.measures else frozenset()
        if overrides is None:
            return [x for x in wanted if x.name in names]
        named = {*(overrides.metrics or ()), *(overrides.signal_weights or ())}
        if overrides.metrics is None:
            return [x for x in wanted if x.name in named or x.name in names]
        # what these rest on need not be configured
        weights = procedure.selection(None).given_weights
        return [x for x in wanted if x.name in named or weights.get(x.name, 1.0) > 0]

    def _left_out(
        self, session: Session, signals: Mapping[str, TraceSignals], overrides: Overrides | None
    ) -> set[str]:
        """The traces, by id, whose missing signals are measured with their session: in a run that
        somebody asked for all of them, else those that were left out of the sample while their
        session is in it.
        """
        if overrides is not None:
            return {x.id for x in session.traces}
        drawn = [x for x in session.traces if self.rules.decide(x).share < 1]
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
        config = rubric or self.config.rubric
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
        found = await self._usual.grading.graded(selected, as_session(subject), expected)
        return self._stamped(self._made(revision)(found, subject))

    def _stamped(self, found: list[Evaluation]) -> list[Evaluation]:
        """The evaluations, each verdict of a judge with whether that is certified."""
        if self._certified is None:
            return found
        return [
            changed(x, evaluator=replace(x.evaluator, certified=self._certified(x)))
            if x.evaluator.kind == "LLM" and x.passed is not None
            else x
            for x in found
        ]

    def plan(
        self,
        subject: AgentTrace | Session,
        overrides: Overrides | None = None,
        *,
        earlier: Sequence[AgentTrace] = (),
        with_signals: bool = False,
    ) -> list[PlannedCall]:
        """The calls that a judge would get for `subject`; nothing is sent.

        `with_signals`: also those for a session's signals, where none is measured yet. Other
        arguments and errors as of `evaluate_trace`.
        """
        session = as_session(subject)
        decision = self.rules.decide_session(session.traces)
        procedure = self._following(decision)
        selection = procedure.selection(overrides)
        planned = procedure.measuring.planned
        found: list[PlannedCall] = []
        if with_signals:
            for place, trace in enumerate(session.traces):
                allowed = self._allowed(trace, selection.signals, overrides)
                found += planned(allowed, trace, session.traces[:place])
        if not _is_measured(decision, overrides):
            return found
        run = "session" if isinstance(subject, Session) else "trace"
        found += planned([x for x in selection.metrics if x.run == run], subject, earlier)
        if selection.rubric and (run == "session" or not session.session_id):
            found += procedure.grading.planned(selection.rubric, session)
        return found

    def _following(self, decision: Decision) -> Procedure:
        """How what was decided is done."""
        return self._by_rule.get(decision.rule, self._usual)

    def _made(self, revision: int) -> Made:
        return partial(evaluations, revision=revision, clock_ns=self._clock_ns)

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
        found: list[Evaluation],
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
        found = self._stamped(found)
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


_TRACES_AT_ONCE = 16


class SessionEvaluating:
    """Makes the evaluations of one session.

    The steps build on each other: the trace metrics that look at earlier traces, the signals that
    traces lack, the session's own metrics, those that rest on signals, and the rubric.
    """

    def __init__(
        self,
        procedure: Procedure,
        made: Made,
        config: Config,
        session: Session,
        overrides: Overrides | None,
        signals: Mapping[str, TraceSignals],
        allowed: Callable[[AgentTrace, Sequence[Metric], Overrides | None], Sequence[Metric]],
    ) -> None:
        """`signals` are the evaluations of the traces so far, by agent trace id and metric name.

        `allowed` gives those of some metrics that may be measured of a trace.

        Raises InputError where `overrides` cannot be met.
        """
        self._procedure = procedure
        self._made = made
        self._config = config
        self._session = session
        self._overrides = overrides
        self._allowed = allowed
        self._by_trace = {trace_id: dict(by_metric) for trace_id, by_metric in signals.items()}
        self._selection = procedure.selection(overrides)

    async def evaluate(
        self, *, external: Iterable[Evaluation], left_out: Collection[str], with_signals: bool
    ) -> list[Evaluation]:
        """The evaluations of the session, and of its traces by the metrics that run with it.

        `external` are scores that others gave. The ids of traces are in `left_out` where signals
        that they lack are measured now. What is measured only as a signal is returned
        `with_signals`.
        """
        found = await self._look_back(with_signals=with_signals)
        completed = await self._complete_signals(left_out)
        if with_signals:
            found += completed
        session, selection = self._session, self._selection
        metrics = [x for x in selection.metrics if x.run == "session" and x.scope == "session"]
        judged = [x for x in metrics if not isinstance(x, SessionMetric)]
        measured = await self._procedure.measuring.measured(judged, session)
        measured += self._rest_on_signals(external)
        if selection.rubric:
            measured += await self._procedure.grading.graded(
                selection.rubric, session, NOTHING_EXPECTED
            )
        return found + self._made(measured, session)

    async def _look_back(self, *, with_signals: bool) -> list[Evaluation]:
        """The evaluations of the traces by the metrics that look at earlier traces."""
        selection = self._selection
        signals = {x.name: x for x in selection.signals if x.run == "session"}
        of_traces = {
            x.name: x for x in selection.metrics if x.run == "session" and x.scope == "trace"
        }
        metrics = list((signals | of_traces).values())
        found: list[Evaluation] = []
        for place, trace in enumerate(self._session.traces):
            measured = await self._measure(metrics, place, trace)
            found += [x for x in measured if x.metric in of_traces or with_signals]
        return found

    async def _complete_signals(self, trace_ids: Collection[str]) -> list[Evaluation]:
        """Measure the signals that these traces lack, some traces at a time."""
        signals = [metric for metric in self._selection.signals if metric.run == "trace"]

        async def complete(place: int, trace: AgentTrace) -> list[Evaluation]:
            known = self._by_trace.get(trace.id, {})
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
        allowed = self._allowed(trace, metrics, self._overrides)
        earlier = self._session.traces[:place]
        measured = await self._procedure.measuring.measured(allowed, trace, earlier)
        found = self._made(measured, trace)
        self._by_trace.setdefault(trace.id, {}).update((x.metric, x) for x in found)
        return found

    def _rest_on_signals(self, external: Iterable[Evaluation]) -> list[Graded]:
        """What the metrics give that rest on signals."""
        selection, session = self._selection, self._session
        configured = self._config.external_signals
        signals = read_signals(
            session,
            self._by_trace,
            selection.given_weights,
            external=self._config.external_names,
            given=given_signals(session, external, configured),
        )
        # in whose place others' scores count, their scale is known, whatever embeds
        replaced = {
            x.counts_as: SIGNAL_WEIGHTS[x.counts_as] for x in configured.values() if x.counts_as
        }
        weights = {**selection.weights, **replaced, **selection.given_weights}
        outcomes = [
            measured_by_signals(metric, session, signals, weights)
            for metric in selection.metrics
            if isinstance(metric, SessionMetric)
        ]
        if not self._procedure.has_judge and any(isinstance(x, Judged) for x in selection.signals):
            outcomes = [for_want_of_a_judge(x) for x in outcomes]
        return outcomes


@dataclass(frozen=True, slots=True)
class SessionScores:
    """The scores of one session that are news, and those that got no answer, as the ones before
    them did.

    `session_key` and `until_row` are of the `SessionRecord` that was evaluated; `until_row` is 0
    where only what somebody asked for was.
    """

    news: list[Evaluation]
    in_vain: list[Evaluation]
    session_key: str = ""
    until_row: int = 0


@dataclass(slots=True)
class BatchScores:
    """What became of sessions that were evaluated together, by their keys.

    `failed` contains the error of each session that cannot be evaluated, by the session's key.
    `for_server` are those that only the server can evaluate.
    """

    keys: Sequence[str] = ()
    scores: list[SessionScores] = field(default_factory=list)
    failed: dict[str, Exception] = field(default_factory=dict)
    for_server: Sequence[str] = ()


async def session_scores(
    engine: Engine,
    found: "SessionRecord",
    overrides: Overrides | None = None,
    *,
    external: Iterable[Evaluation] = (),
) -> SessionScores:
    """Evaluate a session as its next revision. `external` are the scores that others gave."""
    signals: dict[str, dict[str, Evaluation]] = {}
    for score in found.scores:
        if score.scope == "trace":
            signals.setdefault(score.subject_id, {})[score.metric] = score
    with about(session_id=found.session.session_id, tenant=found.session.tenant):
        scored = await engine.evaluate_session(
            found.session,
            signals,
            overrides,
            revision=found.revision + 1,
            external=external,
            before=found.scores,
        )
    news, in_vain = parted(scored, found.scores if overrides is None else ())
    news = placed(news, found.scores, engine.ranking, "session")
    until_row = found.until_row if overrides is None else 0
    return SessionScores(news, in_vain, found.session.id, until_row)


@dataclass(frozen=True, slots=True)
class FirstScores:
    """What is stored of a trace that was not evaluated before.

    `record` is the trace as `records.encode` prints it, `digest` that of `digest_of`. `decisions`
    are the labels of each decision of `evaluation.rules`.
    """

    record: str
    digest: str
    evaluations: Sequence[Evaluation]
    decisions: Sequence[Mapping[str, str]] = ()


async def trace_scores(
    engine: Engine,
    trace: AgentTrace,
    overrides: Overrides | None = None,
    *,
    revision: int = 1,
    earlier: Sequence[AgentTrace] | None = (),
    before: Sequence[Evaluation] = (),
) -> list[Evaluation]:
    """The scores of a trace, by default as its first revision; arguments as of
    `Engine.evaluate_trace`.
    """
    target = trace.target
    with about(
        trace_id=target.trace_id,
        span_id=target.span_id,
        session_id=trace.session_id,
        tenant=trace.tenant,
    ):
        found = await engine.evaluate_trace(
            trace, overrides, revision=revision, earlier=earlier, before=before
        )
    return placed(found, before, engine.ranking, "trace")


def digest_of(trace: AgentTrace, record: str) -> str:
    """A digest of a trace but for its completeness: where it differs, the trace has changed.

    `record` is the trace as `records.encode` prints it.
    """
    record = record.replace(f'"completeness":"{trace.completeness}"', '"completeness":"complete"')
    return hashlib.blake2b(record.encode(), digest_size=16).hexdigest()
