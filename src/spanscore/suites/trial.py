"""One trial, scored."""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from spanscore.evaluation import Engine, Overrides
from spanscore.evaluation.inquiry import Case as JudgedCase, Inquiry
from spanscore.evaluation.judgement import staged
from spanscore.evaluation.outcomes import Attempt, Measured, given, no_judge
from spanscore.evaluation.rubric import NAME as RUBRIC, OVERALL, is_rubric
from spanscore.judge.config import Config
from spanscore.judge.port import Judge
from spanscore.judge.transcript import Transcript, excerpt
from spanscore.metrics import available
from spanscore.metrics.expected import AnswerCorrectness
from spanscore.metrics.session.agentic import Agentic, Assessed, Interaction
from spanscore.model.score import Evaluation, Evaluator, Failure, JudgeUsage, Score, Skip, reaches
from spanscore.model.trace import AgentTrace, Session, Trial as Origin
from spanscore.suites import matches
from spanscore.suites.matches import Recording
from spanscore.suites.suite import TO_FILL_IN, Suite

_NOT_FILLED_IN = (
    "expected_answer is still to be filled in: write in the suite what the agent should have"
    " answered, or take the key out where expected_tools say enough"
)
_NOTHING_EXPECTED = "nothing is expected of this case, and nothing that decides was measured"
_NOBODY = Evaluator("CODE", "agentic", "1")


@dataclass(frozen=True, slots=True)
class Answers:
    """The judge of answers, None: none can be judged; `model` is asked in place of the judge's own.

    Belongs to one event loop.
    """

    judge: Judge | None
    config: Config
    model: str | None = None

    async def rule(self, interaction: Interaction) -> Measured | None:
        """Judge the interaction's answer; None where none is expected."""
        if interaction.expected_answer is None:
            return None
        metric = AnswerCorrectness(expected=interaction.expected_answer, model=self.model)
        if self.judge is None:
            return Measured(no_judge(metric.name), _NOBODY)
        case = JudgedCase(metric, interaction.trace)
        with Attempt("comparing an answer") as attempt:
            shown = partial(_shown, interaction, self.config)
            most = self.config.max_output_tokens
            inquiry = Inquiry(self.judge, interaction.trace, shown, most)
            await staged(case, inquiry)
            case.note((await inquiry.transcript()).metadata)
            attempt.outcome = case.outcome
        return Measured(given(attempt.outcome, "the judge"), case.evaluator, case.usage)


def _shown(
    interaction: Interaction,
    config: Config,
    subject: AgentTrace | Session,
    *,
    max_tokens: int | None = None,
    earlier: Sequence[AgentTrace] = (),
    focus: Collection[int] | None = None,
) -> Transcript:
    """What an answer is judged by: the input, the answer and the expected one; see `Renderer`.

    Neither the turns before nor tool calls have a part in it.
    """
    del earlier, focus
    trace = subject.traces[-1] if isinstance(subject, Session) else subject
    texts = {
        "User input": trace.user_input,
        "Answer of the agent": trace.final_output,
        "Expected answer": interaction.expected_answer,
    }
    longest = max_tokens or config.max_transcript_tokens
    return excerpt(texts, max_tokens=longest, rules=config.redact.rules)


def summed(rulings: list[Measured]) -> tuple[Evaluator, JudgeUsage]:
    """Who judged the answers of a conversation, and what all of them cost together."""
    evaluator = next((x.evaluator for x in rulings), _NOBODY)
    return evaluator, sum((x.usage for x in rulings), JudgeUsage())


_MAX_REASON_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Conversation:
    """What came of the interactions; `obstacle` is why one of them, the first, could not be told.

    That leaves the whole open, unless another one is wrong: a conversation is right only if all of
    them are.
    """

    assessed: tuple[Assessed, ...] = ()
    rulings: tuple[Measured, ...] = ()
    obstacle: Skip | Failure | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was expected of any interaction."""
        return not self.assessed and self.obstacle is None

    @property
    def is_decided(self) -> bool:
        """Whether it is known to be right or wrong."""
        if self.obstacle is None:
            return bool(self.assessed)
        return any(x.is_correct is False for x in self.assessed)


@dataclass(frozen=True, slots=True)
class Trial:
    """A recording, scored.

    `status` is error where it is not known whether it passed; `score` is 0..100 or None.

    `origin` names the test in the words of OpenTelemetry, as its evaluations do.
    """

    recording: Recording
    status: str
    reasons: tuple[str, ...]
    score: float | None
    conversation: Conversation
    evaluations: tuple[Evaluation, ...]
    origin: Origin | None = None

    @property
    def is_open(self) -> bool:
        """Whether it could not have come out either way: some of it cannot be told, so that it
        failed, or is an error.

        Rates leave it out: they would count failures alone. An agent that raised has failed,
        whatever else cannot be told.
        """
        if self.recording.error is not None:
            return False
        return self.status == "error" or (
            self.status == "fail" and self.conversation.obstacle is not None
        )

    @property
    def latency_s(self) -> float:
        """How long the agent worked, in seconds: the sum over its turns."""
        return sum(max(0, x.ended_ns - x.started_ns) for x in self.recording.traces) / 1e9


class Trying:
    """Scores recordings. Belongs to one event loop."""

    def __init__(
        self,
        suite: Suite,
        engine: Engine,
        answers: Answers,
        *,
        metrics: Sequence[str] = (),
        rubric: bool = False,
        model: str | None = None,
    ) -> None:
        """`metrics` are measured besides what the suite names; `rubric`: so is the rubric.

        `model` judges all of it.
        """
        self._model = model
        self._suite = suite
        self._engine = engine
        self._answers = answers
        self._metrics = tuple(dict.fromkeys((*suite.measured(), *metrics)))
        self._rubric = rubric or any(map(is_rubric, self._metrics))

    async def score(self, recording: Recording) -> Trial:
        """Score one recording; of a case that is not filled in nothing is measured."""
        case = recording.case
        if any(x.expected_answer == TO_FILL_IN for x in case.expectations):
            return Trial(recording, "fail", (_NOT_FILLED_IN,), None, Conversation(), ())
        conversation = await self._conversation(recording)
        found = [*await self._measured(recording), *await self._by_rubric(recording, conversation)]
        checks = list(self._checks(conversation, found, recording))
        reasons = [x for x in checks if x is not None]
        failed = [x for x in reasons if not isinstance(x, Skip | Failure)]
        status = "fail" if failed else "error" if reasons or not checks else "pass"
        shown = tuple(_readable(x)[:_MAX_REASON_CHARS] for x in failed or reasons)
        shown = shown if checks else (_NOTHING_EXPECTED,)
        score = _score(conversation, found)
        return Trial(recording, status, shown, score, conversation, tuple(found))

    async def _conversation(self, recording: Recording) -> Conversation:
        try:
            expected = matches.interactions(recording)
        except matches.UnalignedError as error:
            return Conversation(obstacle=Skip(str(error)))
        assessed: list[Assessed] = []
        rulings: list[Measured] = []
        obstacle: Skip | Failure | None = None
        for number, interaction in enumerate(expected):
            ruling, found, why = await self._interaction(interaction)
            rulings += [ruling] if ruling else []
            assessed.append(found)
            if why is not None and obstacle is None:
                obstacle = _at(number, why)
        return Conversation(tuple(assessed), tuple(rulings), obstacle)

    async def _interaction(
        self, interaction: Interaction
    ) -> tuple[Measured | None, Assessed, Skip | Failure | None]:
        """Who judged it, what came of it, and why that is not known."""
        agentic = self._suite.agentic
        lacking = agentic.unmeasurable_interaction(interaction)
        if lacking is not None:
            return None, Assessed(), lacking
        ruling = await self._answers.rule(interaction)
        if ruling is not None and not isinstance(ruling.outcome, Score):
            return ruling, agentic.assess_unanswered(interaction), ruling.outcome
        answer = (
            ruling.outcome if ruling is not None and isinstance(ruling.outcome, Score) else None
        )
        return ruling, agentic.assess(interaction, answer), None

    async def _measured(self, recording: Recording) -> list[Evaluation]:
        """The metrics of the suite on the recording's turns, and on the whole of it."""
        names = [x for x in self._metrics if not is_rubric(x)]
        if not names:
            return []
        overrides = Overrides(metrics=tuple(names), model=self._model)
        turns = recording.traces
        by_trace = {
            x.id: await self._engine.evaluate_trace(x, overrides, earlier=turns[:place])
            for place, x in enumerate(turns)
        }
        found = [x for evaluations in by_trace.values() for x in evaluations]
        if any(available()[x].run == "session" for x in names):
            known = {trace_id: {x.metric: x for x in each} for trace_id, each in by_trace.items()}
            found += await self._engine.evaluate_session(_session(recording), known, overrides)
        return [_of(recording, x) for x in found if x.metric in names]

    async def _by_rubric(
        self, recording: Recording, conversation: Conversation
    ) -> list[Evaluation]:
        case = recording.case
        expected_outcomes = matches.outcomes(recording)
        decides = bool(expected_outcomes) or self._is_left_to_the_rubric(recording, conversation)
        if not (decides or self._rubric or case.evaluation_criteria_override):
            return []
        names = tuple(x for x in self._metrics if is_rubric(x))
        calls, are_ordered = matches.expected_calls(recording)
        is_session = recording.session_id or len(recording.traces) > 1
        found = await self._engine.evaluate_rubric(
            _session(recording) if is_session else recording.traces[0],
            Overrides(metrics=(*names, OVERALL) if names else (RUBRIC,), model=self._model),
            expected_outcomes=expected_outcomes,
            evaluation_criteria_override=case.evaluation_criteria_override or "",
            expected_tools=calls,
            tool_sequence_matters=are_ordered,
            rubric=self._suite.rubric_of(case),
        )
        return [_of(recording, x) for x in found]

    def _checks(
        self, conversation: Conversation, found: Sequence[Evaluation], recording: Recording
    ) -> Iterator[str | Skip | Failure | None]:
        """What decides, one after the other: None where it holds, else why it does not, or why
        nobody knows.
        """
        if recording.error is not None:
            yield f"the agent raised {recording.error}"
            return
        if conversation.is_decided:
            yield _faults(conversation)
        elif conversation.obstacle is not None:
            yield conversation.obstacle
        overall = next((x for x in found if x.metric == OVERALL), None)
        left = overall is not None and self._is_left_to_the_rubric(recording, conversation)
        if matches.outcomes(recording) or left:
            yield _rubric_check(overall)
        for name, least in self._suite.thresholds_of(recording.case).items():
            measured = [x for x in found if x.metric == name]
            if not measured or not all(map(_does_not_apply, measured)):
                yield _threshold_check(name, least, measured)
        if stated := _stated(recording):
            yield "the recording says test.case.result.status = fail" if "fail" in stated else None

    def _is_left_to_the_rubric(self, recording: Recording, conversation: Conversation) -> bool:
        """Whether nothing else decides: nothing is expected, and the recording does not say how it
        came out.
        """
        thresholds = self._suite.thresholds_of(recording.case)
        expects = matches.outcomes(recording) or thresholds or not conversation.is_empty
        return not expects and not _stated(recording)


def _faults(conversation: Conversation) -> str | None:
    faults = [
        f"interaction {number}: {fault}"
        for number, x in enumerate(conversation.assessed)
        for fault in x.faults
    ]
    return "; ".join(faults) or None


def agentic_evaluation(
    trial: Trial, agentic: Agentic, trials: tuple[int, int], k: int
) -> Evaluation | None:
    """The score of the trial's conversation, or why there is none; None where nothing was expected
    of its turns.

    `trials` are those of its case that could be assessed, and those of them that were right.
    """
    conversation, last = trial.conversation, trial.recording.traces[-1]
    if conversation.is_empty:
        return None
    session_id = trial.recording.session_id
    obstacle = None if conversation.is_decided else conversation.obstacle
    outcome = obstacle or agentic.conversation(session_id, conversation.assessed, trials, k)
    evaluator, usage = summed(list(conversation.rulings))
    made = Evaluation(
        scope="session",
        subject_id=session_id or last.id,
        metric=agentic.name,
        outcome=outcome,
        threshold=agentic.threshold,
        scale=agentic.scale,
        evaluator=evaluator,
        target=last.target,
        session_id=session_id,
        first_trace_id=trial.recording.traces[0].target.trace_id if session_id else None,
        agent_name=last.agent_name,
        service_name=last.service_name,
        usage=usage,
        evaluated_at_ns=time.time_ns(),
        trial=last.trial,
    )
    return _of(trial.recording, made)


def _session(recording: Recording) -> Session:
    return Session(recording.session_id or recording.traces[-1].id, recording.traces)


def _of(recording: Recording, evaluation: Evaluation) -> Evaluation:
    """An evaluation of the whole of a recording that is no whole session is one of its last turn.

    So the scores of several cases, or trials, in one session are told apart by all that know a
    score by its session.
    """
    if evaluation.scope == "trace" or (recording.session_id is not None and recording.is_session):
        return evaluation
    return replace(
        evaluation,
        scope="trace",
        subject_id=recording.traces[-1].id,
        session_id=recording.session_id,
        first_trace_id=None,
    )


def _stated(recording: Recording) -> set[str]:
    """How the recording itself says that it came out."""
    return {x.trial.status for x in recording.traces if x.trial and x.trial.status}


def _rubric_check(overall: Evaluation | None) -> str | Skip | Failure | None:
    if overall is None:
        return Skip("the rubric was not scored")
    if isinstance(overall.outcome, Skip | Failure):
        return overall.outcome
    return None if overall.label == "pass" else f"{OVERALL} {overall.value:.0f}: {overall.reason}"


def _threshold_check(
    name: str, least: float, found: Sequence[Evaluation]
) -> str | Skip | Failure | None:
    """Each turn's score must reach it, as each interaction of a conversation must be right."""
    for evaluation in found:
        if isinstance(evaluation.outcome, Score) and not reaches(evaluation.outcome.value, least):
            return (
                f"{name} {evaluation.outcome.value:.2f}, below {least:g}:"
                f" {evaluation.outcome.reason}"
            )
    for evaluation in found:
        if isinstance(evaluation.outcome, Skip | Failure) and not _does_not_apply(evaluation):
            return evaluation.outcome
    return None if found else Skip(f"{name} was not measured")


def _does_not_apply(evaluation: Evaluation) -> bool:
    """Whether the metric had no occasion, which speaks neither for a trial nor against it."""
    return isinstance(evaluation.outcome, Skip) and evaluation.outcome.cause == "not_applicable"


def _score(conversation: Conversation, found: Sequence[Evaluation]) -> float | None:
    """How good it was, 0..100: by the rubric's overall score, else its interactions, else the
    metrics on its turns.
    """
    overall = next((x.value for x in found if x.metric == OVERALL and x.value is not None), None)
    if overall is not None:
        return overall
    # none: tools were all, and none was used
    parts = [_mean(list(_values(x)) or [0.0]) for x in conversation.assessed]
    if conversation.obstacle is not None or not parts:
        # what the rubric could not sum up is no whole
        measured = [x for x in found if not is_rubric(x.metric)]
        parts = [
            (x.value - x.scale[0]) / (x.scale[1] - x.scale[0])
            for x in measured
            if x.value is not None and x.scale is not None
        ]
    return 100 * _mean(parts) if parts else None


def _values(assessed: Assessed) -> Iterator[float]:
    if assessed.answer is not None:
        yield assessed.answer.value
    if assessed.tools is not None:
        yield assessed.tools.overall


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _at(number: int, outcome: Skip | Failure) -> Skip | Failure:
    """An outcome that says which interaction it is about."""
    if isinstance(outcome, Failure):
        return Failure(outcome.type, f"interaction {number}: {outcome.message}")
    return Skip(f"interaction {number}: {outcome.reason}", outcome.cause)


def _readable(reason: str | Skip | Failure) -> str:
    if isinstance(reason, Failure):
        return f"{reason.type}: {reason.message}"
    return reason.reason if isinstance(reason, Skip) else reason
