"""The base classes of metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field

from spanscore.embed.port import Embedder
from spanscore.model.options import Described
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
