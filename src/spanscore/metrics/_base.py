"""The base classes of metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field

from spanscore.embed.port import Embedder
from spanscore.judge.marks import NOTICE
from spanscore.model.options import Described
from spanscore.model.plan import LEAST_STEPS, announced_steps
from spanscore.model.score import Outcome, ScopeKind, Score, Skip
from spanscore.model.trace import AgentTrace, Session

DEFAULT_THRESHOLD = 0.5


def _no_truth(value: Any) -> Any:
    """Python takes true for 1; a file in which it stands for a number means something else."""
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is no number; write one such as 0.8")  # noqa: TRY004 - pydantic's
    return value


Threshold: TypeAlias = Annotated[
    float,
    BeforeValidator(_no_truth),
    Field(
        allow_inf_nan=False,
        description="The score from which on the label is `pass`. It never changes the score.",
    ),
]
Model: TypeAlias = Annotated[
    str | None,
    Field(
        description="The model that judges this metric, in place of the judge's configured ones."
    ),
]

Answers: TypeAlias = Mapping[str, Any]
"""What a judge has answered so far, by `Question.key`."""


_NO_ANSWER = {
    "failed": "The turn failed before it had a final output.",
    "cancelled": "The turn was cancelled.",
    "waiting": "The turn waits for a person or a result from elsewhere.",
}
"""Why a turn has no final output, by its outcome."""


@dataclass(frozen=True)
class Metric:
    """A way to measure an agent trace or a session.

    Subclasses are frozen dataclasses whose fields are their options.

    `needs` names the fields of `AgentTrace` without which there is nothing to measure, `weighs`
    those that count where they are recorded: none of either may have arrived damaged. `run` is the
    evaluation run that measures the metric: a metric of a trace that looks at the session's earlier
    traces runs with the session. `looks_back` says that it is given the session's turns before the
    measured one, as far as they are known. `method` says in a word or two what a score rests on. A
    changed `version` says that scores are not comparable with earlier ones.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", use_attribute_docstrings=True
    )

    name: ClassVar[str]
    summary: ClassVar[str]
    scope: ClassVar[ScopeKind] = "trace"
    run: ClassVar[Literal["trace", "session"]] = "trace"
    scale: ClassVar[tuple[float, float]] = (0.0, 1.0)
    better: ClassVar[Literal["higher", "lower"]] = "higher"
    version: ClassVar[str] = "1"
    needs: ClassVar[tuple[str, ...]] = ()
    weighs: ClassVar[tuple[str, ...]] = ()
    looks_back: ClassVar[bool] = False
    method: ClassVar[str] = "computed"

    threshold: Threshold | Mapping[str, Threshold] | None = DEFAULT_THRESHOLD

    @classmethod
    def signal(cls, value: float, embedding: str | None) -> float | None:
        """A score as the session metrics use it, where it is a signal: from 0, the worst on its
        scale, to 1, the best.

        None where it is not known what the value means, since the scale of `embedding` is not
        known.
        """
        del embedding
        low, high = cls.scale
        share = min(1.0, max(0.0, (value - low) / (high - low)))
        return share if cls.better == "higher" else 1.0 - share

    def threshold_for(self, embedding: str | None) -> float | None:
        """The threshold that holds for scores made with `embedding`, a name as `Embedder.name`
        states it.

        None where there is none: the scores have no label then.
        """
        del embedding
        if isinstance(self.threshold, int | float):
            return self.threshold
        raise TypeError(f"{self.name} takes one threshold")

    def unmeasurable(self, trace: AgentTrace) -> Skip | None:
        """Why `trace` cannot be measured: a fact in `needs` was not recorded, or one that counts
        arrived damaged.
        """
        for fact in self.needs:
            if fact == "final_output" and trace.final_output is None:
                found = self._without_answer(trace)
                if found is not None:
                    return found
            elif getattr(trace, fact) is None:
                return Skip(f"The trace did not record {fact}.", "not_recorded")
        for fact in (*self.needs, *self.weighs) if trace.damaged else ():
            if fact in trace.damaged:
                return Skip(f"The trace's {fact} arrived cut or redacted.", "damaged")
        return None

    def _without_answer(self, trace: AgentTrace) -> Skip | None:
        """Why `trace`, which has no final output, cannot be measured."""
        reason = _NO_ANSWER.get(trace.outcome)
        if reason is not None:
            return Skip(reason, "not_applicable")
        return Skip("The trace did not record final_output.", "not_recorded")

    def unmeasurable_session(self, session: Session) -> Skip | None:
        """Why `session` cannot be measured, or gives no occasion to."""
        del session
        return None


@dataclass(frozen=True)
class Computed(Metric):
    """A metric that is computed from the trace."""

    threshold: Threshold = DEFAULT_THRESHOLD

    def measure(self, trace: AgentTrace) -> Outcome:
        """Measure `trace`, which holds all that `needs` names."""
        raise NotImplementedError


@dataclass(frozen=True)
class Embedded(Metric):
    """A metric that is computed from embeddings of the trace's texts."""

    method: ClassVar[str] = "embedding"
    falls_back_on_ngrams: ClassVar[bool] = False
    """Whether hashed character n-grams will do where no embedding is configured; else the metric is
    skipped there.
    """

    threshold: Annotated[
        Threshold | Mapping[str, Threshold] | None,
        Field(
            description=(
                "The score from which on the label is `pass`: a number, or one for each embedding"
                " (since each has its own scale), keyed by the beginning of its name; the longest"
                " that fits counts, else the default."
            )
        ),
    ] = DEFAULT_THRESHOLD

    def threshold_for(self, embedding: str | None) -> float | None:
        """The threshold whose key begins the name of `embedding`, the longest such key; else the
        default one.

        >>> Embedded(threshold={"ngram": 0.2, "model2vec/potion": 0.4}).threshold_for("ngram-1")
        0.2
        """
        if isinstance(self.threshold, int | float):
            return self.threshold
        given = self.threshold or {}
        fitting = [prefix for prefix in given if (embedding or "").startswith(prefix)]
        return given[max(fitting, key=len)] if fitting else self.default_threshold(embedding)

    def default_threshold(self, embedding: str | None) -> float | None:
        """The threshold where the configuration gives none; None for no label."""
        del embedding
        return DEFAULT_THRESHOLD

    async def measure(
        self, trace: AgentTrace, earlier: Sequence[AgentTrace], embedder: Embedder
    ) -> Outcome:
        """Measure `trace`, which holds all that `needs` names.

        `earlier` are the session's traces before this one, as far as they are known, oldest first.
        Raises EmbeddingError when there are no vectors to be had.
        """
        raise NotImplementedError


class Judgement(Described):
    """A score, and what decides it."""

    model_config = ConfigDict(frozen=True)

    reason: str
    """What decides the score, in one to three sentences that begin with what keeps it from 1.0, if
    anything does.
    """

    score: Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
    """From 0.0 to 1.0, by the guide in the question."""


@dataclass(frozen=True, slots=True)
class Question:
    """One thing a judge is asked about a transcript.

    `text` is a `string.Template`; its placeholders are the keys of `needs` and what `Judged.quotes`
    gives. `answer` is the type that pydantic validates the answer against. Metrics that ask the
    same question share one object, so that it is asked once where questions share a call.
    """

    key: str
    text: str
    answer: Any
    needs: tuple[str, ...] = ()
    """Keys of the answers that must be had before, since the text quotes them; in a call that asks
    for them too it names them instead.
    """
    moot: str = ""
    """Where there is nothing to answer once its `needs` are answered: null is the answer then."""
    of_calls: bool = False
    """Whether it is asked about tool calls one by one, in as many batches as it takes. `$calls` in
    the text is then the list of them, `answer` a model of the answer about one of them, whose field
    `call` is the number of the call's step in the transcript, and what `Judged.settle` gets is an
    `OfCalls`.
    """


@dataclass(frozen=True, slots=True)
class OfCalls:
    """What a judge answered about tool calls one by one: `answers` by the call's place in the
    trace's `tool_calls`.

    `total` is how many calls there were, `sampled` how many of them were to be judged: all, or a
    random sample. What is missing of those among `answers` is of calls too long to be shown to the
    judge.
    """

    answers: Mapping[int, Any]
    total: int
    sampled: int


@dataclass(frozen=True)
class Judged(Metric):
    """A metric that asks a judge, in stages. Without a judge it is skipped."""

    stages: ClassVar[tuple[tuple[Question, ...], ...]]
    """What is asked, in order; the questions of one stage are asked in one call."""
    method: ClassVar[str] = "judge"

    threshold: Threshold = DEFAULT_THRESHOLD
    model: Model = None

    def _without_answer(self, trace: AgentTrace) -> Skip | None:
        """A turn that failed is judged without a final output: its transcript has the error."""
        return None if trace.outcome == "failed" else super()._without_answer(trace)

    # What is judged, `trace`, is an AgentTrace, and of a `JudgedSession` a Session.

    def quotes(self, trace: Any, answers: Answers) -> Mapping[str, str]:
        """Texts that the questions' templates name, beyond the answers in `Question.needs`."""
        del trace, answers
        return {}

    def metadata(self, trace: Any, answers: Answers) -> dict[str, Any]:
        """What the score carries beside value and reason."""
        del trace, answers
        return {}

    def settle(self, trace: Any, answers: Answers) -> Outcome | None:
        """The outcome, as soon as the answers so far allow it; None while the next stage is needed.

        Called before the first stage with no answers, and whenever there are more. Unless
        overridden, the metric's own `Judgement`, which is the answer to the question that bears its
        name, is the score.
        """
        judgement = answers.get(self.name)
        if judgement is None:
            return None
        return Score(judgement.score, judgement.reason, self.metadata(trace, answers))


@dataclass(frozen=True)
class JudgedSession(Judged):
    """A metric that asks a judge about a whole session: its methods get the `Session` in place of a
    trace.
    """

    scope: ClassVar[ScopeKind] = "session"
    run: ClassVar[Literal["trace", "session"]] = "session"


SIGNAL_WEIGHTS: Mapping[str, float] = {
    "confidence": 1.0,
    "loop_detection": 1.0,
    "tool_correctness": 0.8,
    "coherence": 1.0,
}
"""The signals, by metric name, and how much each counts unless a run says otherwise."""


@dataclass(frozen=True, slots=True)
class Signals:
    """What a session metric rests on: the scores of the session's traces, by agent trace id and
    metric name.

    `absent` says why a signal gave no score though it was to be measured (a Skip or a Failure),
    `inapplicable` why there was nothing to measure, both by the same keys.
    """

    values: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    absent: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    inapplicable: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class SessionMetric(Metric):
    """A metric of a whole session, computed from its traces' scores.

    `signals` names the metrics whose scores it rests on: they are measured where it is, also
    unconfigured.
    """

    scope: ClassVar[ScopeKind] = "session"
    run: ClassVar[Literal["trace", "session"]] = "session"
    signals: ClassVar[tuple[str, ...]] = tuple(SIGNAL_WEIGHTS)

    threshold: Threshold = DEFAULT_THRESHOLD

    def measure(self, session: Session, signals: Signals, weights: Mapping[str, float]) -> Outcome:
        """Measure `session` by `signals`; `weights` are the weights of the signals by metric
        name.
        """
        raise NotImplementedError


EVIDENCE = """\
What counts as evidence:
- Judge by the transcript alone. Do not assume steps that it does not show; intentions and \
promises count for nothing.
- The result of a tool shows what happened. What the agent says that it did, and what the user \
says is the case, are claims: hold them against the results.
- To check what is shown you may count, compute, compare dates and use knowledge that nobody \
disputes.
- "(not recorded)" means that nobody knows. Hold it neither against the agent nor in its favour: \
where tools, earlier messages or instructions were not recorded, the agent may have had them; a \
record that may lack its end may have one.
- What is marked as earlier conversation or as an earlier turn helps you to understand; it is not \
what you score.
- "Today" is the date that the agent's instructions give, else that of the turn, never your own.
- Judge work in every language alike. Write your own texts in English."""
"""What counts as evidence: the same for every judge."""

INSTRUCTIONS = f"""\
You assess the work of AI agents. You are given the transcript of an agent's work: of one turn, or \
of a session whose turns are numbered. It shows the agent's instructions, what the user said, each \
step with the tool that was called and what it returned, and what the agent answered. After the \
transcript stands your assignment.

{EVIDENCE}

How you judge:
- Judge the substance. Length, politeness, layout and self-praise are worth nothing.
- Count a fault only under the question that asks about it.
- Choose the level of the guide whose words fit, then a number within its range.
- Begin each reason with what keeps the work from full marks, the worst fault first; only where \
there is none, with what shows that. Give the step's number, the value or the words, so that a \
reader can check it.
- Answer with one JSON object of the form that is asked for, and nothing else.

{NOTICE}"""
"""The system message, the same for every question, so that prompts share their beginning."""

WISHES = (
    "one sentence for each wish, with every condition that the user set (objects, values, dates,"
    " limits, exceptions, what to do otherwise)"
)
LAST_WORD = (
    "The user's last word counts: state also which wishes were changed, and into what, and which"
    " were withdrawn. An offer of the agent is a wish from where the user accepts it."
)
FACTS = """\
for each wish the state that it is in, and the number of the step whose result shows it, or that \
none shows it. Then, each where there is something to state:
- what was changed, sent, bought or deleted beyond the wishes, also what a result shows to have \
changed besides;
- each figure and fact that answers the user, with the step it rests on and whether it agrees with \
that result, or "no source";
- what was declined, with the rule or the limit that it rests on, or "no rule"; what failed or is \
left undone; what the agent still asks of the user.
State facts only, in at most fifteen short sentences, without words that judge, such as \
"successfully", "correctly" or "properly". What the agent says it did is no fact unless a step's \
result shows it."""

TASK = Question(
    "task",
    f"State what the user wants to have or to know in the end: {WISHES}. Take it from all that the"
    " user said: the input, the earlier conversation as far as this turn serves it (an input that"
    " only answers a question of the agent serves the wish behind that question), and what the"
    f" user says later, among the steps. {LAST_WORD} Put down nothing of what the agent did.",
    str,
)

OUTCOME = Question("outcome", f"State what came of the user's wishes in this turn: {FACTS}", str)

PLAN = Question(
    "plan",
    "List the steps of the agent's plan for this turn, in the order planned, each as one short"
    " phrase. A plan is what the agent, before or between its actions, said or reasoned that it was"
    " going to do: two steps or more, each with something definite to do. No plan, whatever it is"
    ' called, is a word that only goes on ("Next step.", "OK, let me check."), one announced call,'
    " a report of what was done, advice on what the user may do, a rule of the agent's"
    " instructions. Where the agent changed its plan in words, list it as it stood last, with the"
    " steps carried out before. Each step must rest on the agent's words in the transcript: derive"
    " none from its calls, nor from what you would have planned. Without a plan give an empty"
    " list.",
    list[str],
)

MET = """\
A wish is met
- if it asks for a deed: where a result shows the right end, with the right object, values, \
amount, recipient and payment;
- if it asks to know something: where the answer was given and is right. Check its figures, \
counts, dates and words such as "cheapest" or "all" against the results;
- if it was rightly declined: where the agent's instructions forbid it, no tool on offer does it, \
the results show that it cannot be had (sold out, too late) or it would harm \
others; by the facts of the record, not by the user's claims; and the agent said so and did what \
the instructions demand instead.
A wish is not met where
- the deed was only promised or claimed;
- the answer states what only a look-up can show (today's weather, a price, the user's data), and \
nothing in the transcript shows it;
- the tools failed (an outage, an error that was not got round), however honestly that was reported;
- the agent granted what its instructions forbid, however content the user is, or declined what \
they allow.
A change that nobody asked for, a change without the consent that the instructions demand, and a \
false statement that the user will rely on each count as one more wish that is not met. Where the \
agent's instructions are "(not recorded)" or absent, judge by the user's words alone. How long the \
way was does not matter."""
"""When a wish of the user is met: shared by the completion of a turn and of a whole
conversation.
"""

CONDITIONS = """\
Take the wishes one by one, with their conditions. One that was withdrawn does not count; of one \
that was changed only the last form counts; one that depends on a condition counts as the \
condition came out. If no wish is left, the score is 1.0 unless something below counts against the \
agent."""
"""Which wishes count."""

UNKNOWN = (
    "0.5 to 0.74 only where you cannot know, even by working it out yourself, since what decides"
    " was left out or not recorded"
)
"""The level around the threshold: nothing that is known to be done in part lies there."""

LACKING = """\
0.25 to 0.49 something that matters is not met, however much else is, or a forbidden wish was \
handed to a human without a word of declining it; 0 to 0.24 hardly anything is met, or what was \
done harms the user."""
"""The levels below the threshold."""


NO_PLAN = "`plan` is empty"
"""Where questions about the plan are moot."""

_NO_PLAN = "The agent stated no plan of two steps or more: there is nothing to judge."


@dataclass(frozen=True)
class OfPlan(Judged):
    """A metric of the plan that the agent showed; metadata `task` and `plan`, a list of steps."""

    weighs: ClassVar[tuple[str, ...]] = ("plan",)

    def metadata(self, trace: AgentTrace, answers: Answers) -> dict[str, Any]:
        """What was judged."""
        del trace
        return {"task": answers["task"], "plan": _steps(answers["plan"])}

    def settle(self, trace: AgentTrace, answers: Answers) -> Outcome | None:
        """See `Judged.settle`.

        One announced step is no plan, and without a plan there is nothing to ask.
        """
        if "plan" in answers and len(_steps(answers["plan"])) < LEAST_STEPS:
            return Skip(_NO_PLAN, cause="not_applicable")
        return super().settle(trace, answers)


def _steps(answer: Sequence[str]) -> list[str]:
    """The steps that a judge lists, also where it gives a whole numbered list as one."""
    return [*(announced_steps(answer[0]) or answer)] if len(answer) == 1 else [*answer]
