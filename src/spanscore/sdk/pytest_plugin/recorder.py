"""The fixture `spanscore`: recorded turns and expectations."""

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, overload

from pydantic import ValidationError

from spanscore import dialects
from spanscore.config import Settings
from spanscore.embed import open_embedder
from spanscore.embed.port import PROVIDER, Embedder
from spanscore.errors import InputError, line_of
from spanscore.evaluation import Engine, Overrides
from spanscore.evaluation.outcomes import Measured
from spanscore.evaluation.rubric import is_rubric
from spanscore.judge import Judge, answers_file, open_judge, redactor
from spanscore.metrics import Metric, available
from spanscore.model.json import loads
from spanscore.model.score import Evaluation, Failure, Score, Skip, SkipCause, reaches
from spanscore.model.trace import AgentTrace, Session
from spanscore.rebuild import rebuild_all
from spanscore.received_scores import read_external
from spanscore.sdk.authoring import spans as names
from spanscore.sdk.authoring.record_score import record_score
from spanscore.sdk.authoring.turn import ExpectedTools, expectation
from spanscore.sdk.captures import Capture
from spanscore.sdk.cassettes import Cassette, CassetteEmbedder, CassetteJudge, Mode
from spanscore.sdk.plain_turn import of_texts
from spanscore.sdk.pytest_plugin.results import Gathered
from spanscore.suites import Case, Suite, Trial
from spanscore.suites.matches import Recording
from spanscore.suites.trial import Answers, Trying
from spanscore.threads import Loop
from spanscore.watches import ContentWatch


class Scoring:
    """What scores the tests of a run.

    Its methods may be called from any thread, also within an event loop.
    """

    def __init__(self, settings: Settings, mode: Mode, judge: Judge | None = None) -> None:
        """`judge` is asked in place of the one that `settings` describe."""
        self.settings = settings
        self.mode = mode
        self._given = judge

    def evaluated(
        self, turns: Sequence[AgentTrace], metrics: Sequence[str] | None, cassette: Cassette
    ) -> list[Evaluation]:
        """The scores of these turns and of their sessions, by `metrics` or as configured.

        Raises InputError on a metric that there is not.
        """
        engine = self._engine(self._judge_of(cassette), cassette)
        return self._loop.run(_evaluated(engine, turns, metrics))

    def tried(self, turn: AgentTrace, case: Case, cassette: Cassette) -> Trial:
        """A turn held against what a case expects of it, as `spanscore test` does.

        Raises InputError as `evaluated`.
        """
        judge = self._judge_of(cassette)
        suite = Suite(name=case.id, cases=(case,))
        trying = Trying(suite, self._engine(judge, cassette), Answers(judge, self.settings.judge))
        return self._loop.run(trying.score(Recording(case, (turn,), is_session=False)))

    def close(self) -> None:
        """Stop the event loop."""
        if "_loop" in self.__dict__:
            self._loop.close()

    @functools.cached_property
    def _loop(self) -> Loop:
        return Loop()

    @functools.cached_property
    def _judge(self) -> Judge | None:
        if self._given is not None:
            return self._given
        kept = None if self.mode == "all" else answers_file(self.settings.judge)
        return open_judge(self.settings.judge, kept)

    @functools.cached_property
    def _embedder(self) -> Embedder | None:
        return open_embedder(self.settings.embedding, redact=redactor(self.settings.judge))

    def _judge_of(self, cassette: Cassette) -> Judge | None:
        """Who answers the questions of a test; None where nobody can."""
        can_ask = self._given is not None or self.settings.judge.models
        if not (can_ask or cassette.entries or self.mode == "none"):
            return None
        rules = self.settings.judge.redact.rules
        return CassetteJudge(cassette, self.mode, lambda: self._judge, rules)

    def _embedder_of(self, cassette: Cassette) -> Embedder | None:
        """What embeds the texts of a test: of a provider's embeddings those that are recorded,
        without asking it.
        """
        config, recorded = self.settings.embedding, {x.embedding for x in cassette.vectors.values()}
        if config.chosen == "litellm":
            name = f"{PROVIDER}{config.model}"
        elif config.chosen is None and len(recorded) == 1:
            [name] = recorded
        else:
            return self._embedder
        rules = self.settings.judge.redact.rules
        return CassetteEmbedder(cassette, self.mode, name, lambda: self._embedder, rules)

    def _engine(self, judge: Judge | None, cassette: Cassette) -> Engine:
        evaluation = self.settings.evaluation.without_rules()  # a test says itself what is measured
        embedder = self._embedder_of(cassette)
        return Engine(evaluation, judge, embedder, judge_config=self.settings.judge)


async def _evaluated(
    engine: Engine, turns: Sequence[AgentTrace], names: Sequence[str] | None
) -> list[Evaluation]:
    if names is None:
        return await _by_metrics(engine, turns, None)
    criteria = tuple(name for name in names if is_rubric(name))
    found = await _by_metrics(engine, turns, tuple(x for x in names if not is_rubric(x)))
    if criteria:
        for session in sessions(turns):
            found += await engine.evaluate_rubric(_subject(session), Overrides(criteria))
    return [score for score in found if score.metric in names]


async def _by_metrics(
    engine: Engine, turns: Sequence[AgentTrace], names: tuple[str, ...] | None
) -> list[Evaluation]:
    """The scores by these metrics, none of them of the rubric; None: by those configured."""
    overrides = None if names is None else Overrides(names)
    found: list[Evaluation] = []
    by_turn: dict[str, Mapping[str, Evaluation]] = {}
    for place, turn in enumerate(turns):
        earlier = _in_session(turn, turns[:place])
        scores = await engine.evaluate_trace(turn, overrides, earlier=earlier)
        by_turn[turn.id] = {score.metric: score for score in scores}
        found += scores
    if names is None or any(available()[name].run == "session" for name in names):
        for session in sessions(turns):
            found += await engine.evaluate_session(session, by_turn, overrides)
    return found


def _in_session(turn: AgentTrace, others: Sequence[AgentTrace]) -> list[AgentTrace]:
    """Those of the other turns that are in the session of `turn`."""
    key = turn.session_key
    return [] if key is None else [other for other in others if other.session_key == key]


def _subject(session: Session) -> AgentTrace | Session:
    """What the rubric scores: the session, or its turn where that is in none."""
    first = session.traces[0]
    return session if first.session_id or len(session.traces) > 1 else first


def sessions(turns: Sequence[AgentTrace]) -> list[Session]:
    """The sessions of a test's turns; those without an id are one conversation."""
    members: dict[str | None, list[AgentTrace]] = {}
    for turn in turns:
        members.setdefault(turn.session_key, []).append(turn)
    return [Session(those[0].session_id or those[0].id, tuple(those)) for those in members.values()]


WAIT_S = 2.0
"""How long is waited for spans that are still open when a test asks for its turns, in seconds."""


Named: TypeAlias = str | type[Metric] | Callable[..., Any]
"""A metric by its name, or one of one's own as what `spanscore.metric` or `spanscore.criterion`
gave.
"""


class Recorder:
    """The turns of one test, or of one trial of it, and what they are expected to score."""

    def __init__(self, capture: Capture, scoring: Scoring, cassette: Cassette) -> None:
        self._capture = capture
        self._scoring = scoring
        self._cassette = cassette
        self._silent: list[str] = []
        self._scored: list[tuple[tuple[AgentTrace, ...], Evaluation]] = []
        self._texts: list[AgentTrace] = []

    def turn(self, *, timeout_s: float = WAIT_S) -> AgentTrace:
        """The test's latest turn: from a user's input to the agent's answer, rebuilt from what was
        emitted so far.

        Waits up to `timeout_s` seconds for spans that other threads have still to end. Raises
        NoTurnError where there is none.
        """
        __tracebackhide__ = True
        return self.turns(timeout_s=timeout_s)[-1]

    def turns(self, *, timeout_s: float = WAIT_S) -> list[AgentTrace]:
        """All turns of the test, oldest first; see `turn`."""
        __tracebackhide__ = True
        found = self.recorded(timeout_s)
        if not found:
            raise NoTurnError(self._why_none())
        return found

    def session(self, *, timeout_s: float = WAIT_S) -> Session:
        """The session of the latest turn; turns without a session id are one conversation.

        See `turn`.
        """
        __tracebackhide__ = True
        return sessions(self.turns(timeout_s=timeout_s))[-1]

    def evaluate(
        self, metrics: Sequence[Named] | Named | None = None, *, turn: AgentTrace | None = None
    ) -> list[Evaluation]:
        """The scores of the test's turns, or of one of them, and of their sessions.

        `metrics` are those to measure, or their names; None: those of the configuration. What was
        measured is not measured again. Raises NoTurnError where there is no turn, and InputError on
        a metric that there is not.
        """
        __tracebackhide__ = True
        turns = self.turns() if turn is None else [turn]
        if metrics is None:
            return self._measure(turns, None)
        names = [_name(metric) for metric in _listed(metrics)]
        missing = [name for name in names if not self._known(turns, name)]
        if missing:
            self._measure(turns, missing)
        return [score for name in names for score in self._known(turns, name)]

    def _measure(
        self, turns: Sequence[AgentTrace], names: Sequence[str] | None
    ) -> list[Evaluation]:
        """Measure metrics, and remember the scores in place of those that these turns had."""
        found = self._scoring.evaluated(turns, names, self._cassette)
        measured = {score.metric for score in found}
        own = tuple(turns)
        kept = [(x, y) for x, y in self._scored if x != own or y.metric not in measured]
        self._scored = [*kept, *((own, score) for score in found)]
        self._cassette.save()
        return found

    @overload
    def expect(
        self,
        metric: Named,
        /,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        turn: AgentTrace | None = None,
        input: str | None = None,
        output: str | None = None,
    ) -> Evaluation: ...

    @overload
    def expect(
        self,
        metric: Named,
        second: Named,
        /,
        *more: Named,
        at_least: float | None = None,
        at_most: float | None = None,
        turn: AgentTrace | None = None,
        input: str | None = None,
        output: str | None = None,
    ) -> list[Evaluation]: ...

    @overload
    def expect(
        self,
        *,
        answer: object = None,
        tools: ExpectedTools | None = None,
        outcomes: str | Sequence[str] = (),
        in_order: bool | None = None,
        turn: AgentTrace | None = None,
        input: str | None = None,
        output: str | None = None,
    ) -> None: ...

    def expect(
        self,
        *metrics: Named,
        at_least: float | None = None,
        at_most: float | None = None,
        answer: object = None,
        tools: ExpectedTools | None = None,
        outcomes: str | Sequence[str] = (),
        in_order: bool | None = None,
        turn: AgentTrace | None = None,
        input: str | None = None,  # noqa: A002 - as a turn has it
        output: str | None = None,
    ) -> Evaluation | list[Evaluation] | None:
        """Require scores of each turn of the test, or of `turn`; or what the latest turn, or
        `turn`, is to come to. `input` and `output` are a turn of two texts, without spans.

        With metrics: that each score is within bounds; without bounds the metrics' own thresholds
        decide. Gives the lowest score, of several metrics a list with that of each. Without one:
        that the answer says as much as `answer`, that the tool calls are `tools`, and that
        `outcomes` are true in the end, each as in a suite.

        Raises NotReachedError, an AssertionError, where it is not so, NotScoredError, another one,
        where it cannot be told, and InputError where it makes no sense.
        """
        __tracebackhide__ = True
        stated = answer is not None or tools is not None or bool(outcomes)
        if bool(metrics) == stated:
            raise InputError(
                "expect either a metric, such as task_completion, or an answer, tools or outcomes"
            )
        given = self._given_turn(turn, input, output)
        if stated:
            expected = expectation(answer, tools, outcomes, in_order=in_order)
            self._expect_outcome(given or self.turn(), case_of(expected, in_order=in_order))
            return None
        turns = self.turns() if given is None else [given]
        found = self.evaluate(metrics, turn=given)
        bounds = Bounds(at_least, at_most)
        lowest = []
        for name in map(_name, metrics):
            of_metric = [x for x in found if x.metric == name]
            lowest.append(require(name, of_metric, bounds, turns, self._how_to_score))
        return lowest[0] if len(metrics) == 1 else lowest

    def _given_turn(
        self, turn: AgentTrace | None, input_: str | None, output: str | None
    ) -> AgentTrace | None:
        """The turn that a test names, or that its two texts are. Raises InputError."""
        if input_ is None and output is None:
            return turn
        if turn is not None or input_ is None or output is None:
            raise InputError("expect: give input and output together, and no turn beside them")
        made = of_texts({"input": input_, "output": output}, len(self._texts))
        self._texts.append(made)
        return made

    def _expect_outcome(self, turn: AgentTrace, case: Case) -> None:
        """Require what a turn is to come to."""
        __tracebackhide__ = True
        trial = self._scoring.tried(turn, case, self._cassette)
        self._cassette.save()
        self._scored += [((turn,), x) for x in trial.evaluations]
        require_outcome(trial, turn, self._how_to_score("no_judge"))

    def record_score(
        self,
        name: str,
        value: bool | float | str,
        *,
        comment: str | None = None,
        scale: tuple[float, float] | None = None,
        source: str = "programmatic",
        author: str | None = None,
        turn: AgentTrace | None = None,
    ) -> None:
        """Record what the test itself found of its latest turn, or of `turn`, as
        `spanscore.record_score` does.

        It is shown beside the other scores in reports, and leaves with the agent's own spans.
        Raises NoTurnError.
        """
        __tracebackhide__ = True
        target = (turn or self.turn()).target
        traceparent = f"00-{target.trace_id}-{target.span_id}-01"
        record_score(
            name,
            value,
            comment=comment,
            scale=scale,
            source=source,
            author=author,
            trace=traceparent,
        )

    def recorded(self, timeout_s: float = 0.0) -> list[AgentTrace]:
        """The turns so far, oldest first; none is no error."""
        watch = ContentWatch()
        spans, logs = self._capture.telemetry(timeout_s)
        settings = self._scoring.settings
        dialects.configure(settings.span_names)
        found = rebuild_all(spans, logs, watch=watch, stitch_off=settings.assemble.stitch_off)
        self._silent = [str(x) for x in watch.silent]
        return found

    def gathered(self, *, is_unknown: bool = False) -> Gathered:
        """What the test recorded, for reports."""
        turns = [x.to_json() for x in (*self.recorded(), *self._texts)]
        given = read_external(*self._capture.telemetry())
        scores = [x.to_json() for x in (*(x for _, x in self._scored), *given)]
        answers = self._cassette
        left_out, replayed = self._capture.left_out, answers.replayed
        return Gathered(turns, scores, is_unknown, left_out, replayed, answers.recorded)

    def _known(self, turns: Sequence[AgentTrace], metric: str) -> list[Evaluation]:
        return [x for those, x in self._scored if those == tuple(turns) and x.metric == metric]

    def _how_to_score(self, cause: SkipCause) -> str:
        """What may be done where there is no score for this cause; "" where nothing is known."""
        if cause == "no_judge":
            return (
                "name a judge with --spanscore-judge MODEL or SPANSCORE_JUDGE_MODEL, and"
                " --spanscore-record=once to keep its answers for runs without one"
            )
        return "; ".join(self._silent) if cause == "not_recorded" else ""

    def _why_none(self) -> str:
        """Why there is no turn, and what may be done about it."""
        scopes = self._capture.scopes()
        count, open_spans = sum(scopes.values()), self._capture.open_spans()
        if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return (
                "no turn was recorded: OTEL_SDK_DISABLED is set, so that no span is made; unset it"
                " for this test"
            )
        if open_spans:
            how = "consume the agent's answer to its end, or wait longer with turn(timeout_s=30)"
            return f"no turn was recorded: {open_spans} of its spans have not ended; {how}"
        if not count:
            how = "turn on the instrumentation of its framework, in a conftest.py for instance"
            return f"no turn was recorded: the agent emitted no span in this test; {how}"
        names = ", ".join(f"{x or 'no name'} ({n})" for x, n in sorted(scopes.items())[:5])
        return (
            f"no turn was recorded: of {count} spans, from {names}, none is known to be of an agent"
            " or a model; is the instrumentation one of GenAI spans?"
        )


def _name(metric: Named) -> str:
    """What a metric is called."""
    from spanscore.metrics.own import name_of  # noqa: PLC0415 - not in runs of pytest that score nothing

    return metric if isinstance(metric, str) else name_of(metric)


def _listed(metrics: Sequence[Named] | Named) -> Sequence[Named]:
    return metrics if isinstance(metrics, Sequence) and not isinstance(metrics, str) else [metrics]


_SHOWN_CHARS = 200
_SHOWN_CALLS = 8


class NoTurnError(AssertionError):
    """A test asks for a turn, and its agent emitted none that can be read."""


class NotScoredError(AssertionError):
    """What a test expects cannot be told: there is no score."""


class NotReachedError(AssertionError):
    """A score is not what a test expects."""


for _error in (NoTurnError, NotScoredError, NotReachedError):
    # where users find them, and what stands before the message of a failed test
    _error.__module__ = "spanscore"


class Bounds(NamedTuple):
    """What a score is to be, both limits included; without any, what its metric's threshold makes a
    pass.
    """

    at_least: float | None
    at_most: float | None

    def hold(self, evaluation: Evaluation) -> bool:
        """Whether a score keeps to them. Raises InputError where nothing says what a pass is."""
        value = evaluation.value
        if value is None:
            return False
        if self.at_least is None and self.at_most is None:
            if evaluation.passed is None:
                raise InputError(f"{evaluation.metric} has no threshold; give at_least or at_most")
            return evaluation.passed
        low = self.at_least is None or reaches(value, self.at_least)
        return low and (self.at_most is None or reaches(self.at_most, value))

    def in_words(self, evaluation: Evaluation) -> str:
        """What was expected, in words."""
        least = None if self.at_least is None else f"at least {self.at_least:g}"
        most = None if self.at_most is None else f"at most {self.at_most:g}"
        bounds = " and ".join(x for x in (least, most) if x)
        if bounds or evaluation.threshold is None:
            return bounds
        return f"at least {evaluation.threshold:g}, which is its threshold"


def require(
    metric: str,
    found: Sequence[Evaluation],
    bounds: Bounds,
    turns: Sequence[AgentTrace],
    how: Callable[[SkipCause], str] = lambda _: "",
) -> Evaluation:
    """The lowest score, where all are within bounds.

    Raises NotReachedError, NotScoredError or InputError.

    `how` says what may be done where there is no score.
    """
    __tracebackhide__ = True
    scored = [x for x in found if isinstance(x.outcome, Score)]
    missed = [x for x in scored if not bounds.hold(x)]
    if missed:
        raise NotReachedError("\n".join(_fault(x, bounds, turns) for x in missed))
    unknown = [x for x in found if not isinstance(x.outcome, Score) and not _does_not_apply(x)]
    if unknown or not scored:
        raise NotScoredError(_unknown(metric, (unknown or list(found))[:1], how))
    return min(scored, key=lambda x: x.value or 0.0)


def case_of(stated: Mapping[str, Any], *, in_order: bool | None) -> Case:
    """What a test expects of a turn, as a case of a suite.

    Raises InputError where it cannot be one.
    """
    listed = loads(str(stated[names.EXPECTED_TOOLS] or "[]"))
    calls = [{"tool_name": x["name"], "parameters": x.get("arguments")} for x in listed]
    case = {
        "id": "test",
        "expected_answer": stated[names.EXPECTED_ANSWER],
        "expected_tools": calls,
        "tool_sequence_matters": in_order is not False,
        "final_answer_uses_tools": True,  # which nothing is said about here
        "expected_outcomes": stated[names.EXPECTED_OUTCOMES] or [],
    }
    try:
        return Case.model_validate(case)
    except ValidationError as error:
        problems = "; ".join(f"{x['loc'][0]}: {x['msg']}" for x in error.errors(include_url=False))
        raise InputError(f"expect: {problems}") from None


def require_outcome(trial: Trial, turn: AgentTrace, how: str) -> None:
    """Require that a turn came to what is expected; `how` to name a judge.

    Raises NotReachedError or NotScoredError.
    """
    __tracebackhide__ = True
    reasons = "; ".join(trial.reasons)
    if trial.status == "fail":
        what = f"the turn is not what is expected: {reasons}"
        raise NotReachedError("\n".join([what, *described(turn)]))
    if trial.status != "pass":
        mend = f"; {how}" if _lacks_judge([*trial.evaluations, *trial.conversation.rulings]) else ""
        raise NotScoredError(
            f"whether the turn is as expected cannot be told: {reasons.rstrip('.')}{mend}"
        )


def _lacks_judge(found: Sequence[Evaluation | Measured]) -> bool:
    return any(isinstance(x.outcome, Skip) and x.outcome.cause == "no_judge" for x in found)


def _fault(evaluation: Evaluation, bounds: Bounds, turns: Sequence[AgentTrace]) -> str:
    """A score that is out of bounds, with why it is what it is, and what it is of."""
    by = f" by {evaluation.evaluator.model}" if evaluation.evaluator.model else ""
    expected = bounds.in_words(evaluation)
    lines = [f"{evaluation.metric} is {evaluation.value:.4g}{by}; expected is {expected}"]
    lines.append(f"  reason: {evaluation.reason}")
    turn = next((x for x in turns if x.id == evaluation.subject_id), None)
    return "\n".join([*lines, *(described(turn) if turn else [])])


def described(turn: AgentTrace) -> list[str]:
    """What a turn was, in a few lines."""
    calls = [f"{x.name} (failed)" if x.error else x.name for x in turn.tool_calls or ()]
    more = f" and {len(calls) - _SHOWN_CALLS} more" if len(calls) > _SHOWN_CALLS else ""
    lines = [f"  input:  {_short(turn.user_input)}"]
    lines += [f"  tools:  {', '.join(calls[:_SHOWN_CALLS])}{more}"] if calls else []
    return [*lines, f"  answer: {_short(turn.final_output)}"]


def _unknown(metric: str, found: Sequence[Evaluation], how: Callable[[SkipCause], str]) -> str:
    """Why there is no score, and what may be done about it."""
    if not found:
        return f"{metric} was not measured"
    outcome = found[0].outcome
    if isinstance(outcome, Failure):
        return f"{metric} has no score: {outcome.type}: {outcome.message}"
    unscored = f"{metric} has no score: {found[0].reason}"
    mend = how(outcome.cause) if isinstance(outcome, Skip) else ""
    return f"{unscored.rstrip('.')}; {mend}" if mend else unscored


def _does_not_apply(evaluation: Evaluation) -> bool:
    return isinstance(evaluation.outcome, Skip) and evaluation.outcome.cause == "not_applicable"


def _short(text: str | None) -> str:
    return "(not recorded)" if text is None else line_of(text, _SHOWN_CHARS)
