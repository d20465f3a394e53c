"""Score, Skip, Failure, the Evaluation around them, and what judges have cost."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from spanscore.errors import line_of
from spanscore.model.span import record, tenant_of
from spanscore.model.trace import Target, Trial, TurnOutcome

_SHOWN_CHARS = 120
"""Characters of a reason that a repr has."""

ScopeKind: TypeAlias = Literal["trace", "session"]

SkipCause: TypeAlias = Literal[
    "not_recorded",  # the trace lacks a fact that the metric needs
    "damaged",  # the fact arrived cut or redacted
    "not_applicable",  # the trace gave no occasion: there is nothing to measure
    "no_judge",  # no model is configured
    "no_embedding",  # no embedding is configured
    "no_words",  # the embedding knows no word of the text
    "no_signals",  # none of the signals that a session metric rests on has a score
    "budget",  # the judge's budget is spent
    "other",
]
"""Why there is no score, in one of few words: for counting, and for deciding what is done about
it.
"""


@record()
class JudgeUsage:
    """What asking cost.

    `cost_usd` is None where a model's price is not known; `cached` counts answers from cache.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    cached: int = 0

    def __add__(self, other: "JudgeUsage") -> "JudgeUsage":
        known = [x for x in (self.cost_usd, other.cost_usd) if x is not None]
        return JudgeUsage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            sum(known) if known else None,
            self.cached + other.cached,
        )


@record()
class Score:
    """A measured value on the metric's scale; `label` only where the metric declares labels of its
    own.
    """

    value: float
    reason: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None


@record()
class Skip:
    """The metric could not be measured on this trace, for a reason that is nobody's error.

    `reason` is for people, `cause` for programs.
    """

    reason: str
    cause: SkipCause = "other"


@record()
class Failure:
    """Measuring went wrong. `type` is the error's class name, `message` what to read at 3 a.m."""

    type: str
    message: str


Outcome: TypeAlias = Score | Skip | Failure
"""What measuring gives."""


@record()
class Annotation:
    """What somebody else gave: a value, a label, or both.

    `value` is as it was given, on whatever scale that is; of a yes or no it is 1 or 0. `reason` is
    their comment, `passed` whether they call it a pass; None where they say neither.
    """

    value: float | None = None
    label: str | None = None
    reason: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    passed: bool | None = None


EvaluatorKind: TypeAlias = Literal["LLM", "CODE", "HUMAN"]


@record()
class Evaluator:
    """Who measured.

    `prompt_hash` covers prompts, schemas and model; `embedding` names the embedding used.

    `source` is None where spanscore measured. Else it is "human", "programmatic", or the name of
    another evaluator, such as "deepeval"; `author` is who of these it was, where that is recorded.
    `kind` is None where it is not. `certified` is whether a certificate held for the judge when it
    scored; None where none is required.
    """

    kind: EvaluatorKind | None
    name: str
    version: str
    model: str | None = None
    prompt_hash: str | None = None
    embedding: str | None = None
    source: str | None = None
    author: str | None = None
    certified: bool | None = None


@record()
class Result:
    """One line of a `Tally`: a metric with its value and label; `problem` says why there is no
    value.
    """

    metric: str
    value: float | None = None
    label: str | None = None
    threshold: float | None = None
    problem: str | None = None


@record()
class Tally:
    """The newest results of all metrics on one agent trace, or one session, in the order in which
    they matter.

    `supersedes` is the `tally_uid` of the tally before it, and `label_before` the label of that
    one. `same_revision` is True where both are of one revision, as where a session's run adds a
    metric to its traces. `reason` is that of the first that failed. `is_news` is False where no
    more failed than in the tally before it: a tool's own score is changed then, and no span sent.
    """

    results: tuple[Result, ...]
    supersedes: str | None = None
    label_before: str | None = None
    same_revision: bool = False
    reason: str | None = None
    is_news: bool = True

    @property
    def label(self) -> str | None:
        """`fail` where any metric failed, `pass` where none did; None where there is no verdict."""
        if self.failed:
            return "fail"
        return "pass" if self.judged else None

    @property
    def failed(self) -> list[Result]:
        """Those whose label is `fail`."""
        return [x for x in self.results if x.label == "fail"]

    @property
    def judged(self) -> list[Result]:
        """Those whose label is `pass` or `fail`."""
        return [x for x in self.results if x.label in {"pass", "fail"}]

    @property
    def errors(self) -> list[Result]:
        """Those whose measuring went wrong."""
        return [x for x in self.results if x.problem is not None]


@record(kw_only=True)
class Evaluation:
    """One metric's outcome on one agent trace or session, with all that it rests on; or what
    somebody else gave it.

    `subject_id` is the agent trace's id, or the key of the session (`AgentTrace.session_key`);
    `trace_id` and `span_id` name the evaluated span (for a session, the target of its last agent
    trace). `threshold` is None for a metric that has none. `revision` counts from 1; `supersedes`
    is the `uid` of the evaluation that a later revision takes the place of, and `label_before` the
    label of that one. `rank` is its place among the evaluations that were made with it of the same
    subject: 0 is what a reader should see first, and has the `tally` of all of them where that is
    news. `inline` says that the score left as attributes on the evaluated span, so that no
    evaluation span follows. `trial` is the test that the evaluated turn was recorded for; in a run
    of a suite its status is the case's. `sampling` is the chance with which what was evaluated had
    been drawn; a mean over a population weights by its inverse. `rule` is the name of the rule of
    `evaluation.rules` by which it was evaluated; None where no rule took it. `first_trace_id` is,
    for a session, the `trace_id` that its first agent trace's scores have. `digest` is, in a run of
    a suite, of what the score says; of a score that was created by the API, of what was asked for.
    `run` is the evaluation run that made it: its revisions count by themselves, and it takes the
    place of nothing outside of that run. One that is `withheld` is not exported.

    Of an external score, one that somebody else gave, `target` is what it was given to, mostly
    without times, and `scale` is None unless it is recorded; `subject_id` is the OTel trace id, or
    the session's key, until it is joined to an agent trace. `received_uid` is set of whatever came
    by OTLP: it is the same however often that is received.
    """

    scope: ScopeKind
    subject_id: str
    metric: str
    outcome: Outcome | Annotation
    threshold: float | None
    scale: tuple[float, float] | None
    evaluator: Evaluator
    target: Target
    session_id: str | None
    agent_name: str | None = None
    service_name: str | None = None
    usage: JudgeUsage = JudgeUsage()
    revision: int = 1
    supersedes: str | None = None
    label_before: str | None = None
    rank: int = 0
    tally: Tally | None = None
    evaluated_at_ns: int = 0
    inline: bool = False
    trial: Trial | None = None
    turn_outcome: TurnOutcome | None = None
    sampling: float = 1.0
    first_trace_id: str | None = None
    digest: str = ""
    session_key: str | None = None
    received_uid: str | None = None
    rule: str | None = None
    run: str | None = None
    withheld: bool = False

    def __repr__(self) -> str:
        value = "" if self.value is None else f" {self.value:.2f}"
        of = f"trace {self.target.trace_id[:8]}"
        if self.scope == "session":
            of = f"session {(self.session_id or self.subject_id)!r}"
        reason = line_of(self.reason, _SHOWN_CHARS)
        word = self.label or self.status
        return f"<Evaluation {self.metric!r}{value} {word!r} of {of}: {reason!r}>"

    @property
    def uid(self) -> str:
        """16 hex digits, the same however often it is sent: the evaluation span's id, the event's
        `log.record.uid`.

        What is scored in another run of a suite is another evaluation, and so is what a suite that
        has changed, or another judge, says of the same recording: nobody counts revisions of it.
        """
        if self.received_uid is not None:
            return self.received_uid
        facts = [
            self.subject_id,
            self.target.span_id,
            self.metric,
            self.evaluator.version,
            str(self.revision),
        ]
        if self.trial is not None and self.trial.run is not None:
            facts += [self.trial.suite or "", self.trial.run]
        if self.digest:
            facts.append(self.digest)
        if self.run is not None:
            facts += ["run", self.run]
        seed = "\n".join(facts)
        return hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    @property
    def tenant(self) -> str:
        """Whose it is; "" without tenants."""
        return tenant_of(self.target.resource)

    @property
    def is_external(self) -> bool:
        """Whether somebody else gave the score: it is shown, and takes part in nothing that
        spanscore measures.
        """
        return self.evaluator.source is not None

    @property
    def is_shown(self) -> bool:
        """Whether it is exported and filed with tools: of all but skips, and of two kinds of these.

        A session metric that rests on no signal was evaluated, and would else look as if it had not
        been; and what takes the place of a verdict has to be seen where that one is.
        """
        if self.withheld:
            return False
        if not isinstance(self.outcome, Skip):
            return True
        return self.outcome.cause == "no_signals" or self.label_before is not None

    @property
    def tally_uid(self) -> str:
        """16 hex digits, the same however often it is sent: the id of the span that shows the
        `tally`.
        """
        return hashlib.sha256(f"{self.uid}\ntally".encode()).hexdigest()[:16]

    @property
    def status(self) -> Literal["scored", "skipped", "failed"]:
        """Which of the three an outcome is, as a word."""
        match self.outcome:
            case Score() | Annotation():
                return "scored"
            case Skip():
                return "skipped"
            case Failure():
                return "failed"

    @property
    def value(self) -> float | None:
        """The score's value; None for a Skip, a Failure or an annotation that is a label alone."""
        return self.outcome.value if isinstance(self.outcome, Score | Annotation) else None

    @property
    def label(self) -> str | None:
        """The metric's own label, else pass or fail by the threshold; None for a Skip or a
        Failure.
        """
        outcome = self.outcome
        if not isinstance(outcome, Score):
            return outcome.label if isinstance(outcome, Annotation) else None
        if outcome.label is not None or self.threshold is None:
            return outcome.label
        return "pass" if reaches(outcome.value, self.threshold) else "fail"

    @property
    def passed(self) -> bool | None:
        """Whether the score is a pass: as its label says, else by the threshold; None where there
        is no saying.
        """
        if isinstance(self.outcome, Annotation):
            return self.outcome.passed
        if self.label in {"pass", "fail"}:
            return self.label == "pass"
        if not isinstance(self.outcome, Score) or self.threshold is None:
            return None
        return reaches(self.outcome.value, self.threshold)

    @property
    def shown_label(self) -> str | None:
        """The label as people read it: of a verdict that has no label, as a true has none, pass or
        fail.
        """
        if self.label is not None or self.passed is None:
            return self.label
        return "pass" if self.passed else "fail"

    @property
    def is_failing(self) -> bool:
        """Whether the score does not pass, or could not be measured."""
        return self.passed is False or self.status == "failed"

    @property
    def latency_s(self) -> float | None:
        """How long the agent worked, in seconds.

        None for a session, whose turns each have their own, and where the target's times are not
        known.
        """
        if self.scope == "session" or not self.target.end_ns:
            return None
        return max(0, self.target.end_ns - self.target.start_ns) / 1e9

    @property
    def reason(self) -> str:
        """Why the value is what it is, why there is none, or what went wrong."""
        return self.outcome.message if isinstance(self.outcome, Failure) else self.outcome.reason

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `spanscore eval --jsonl` prints on one line."""
        metadata: dict[str, Any] = {}
        if isinstance(self.outcome, Score):
            metadata = {**self.outcome.metadata, "threshold": self.threshold}
            if self.threshold is not None:
                metadata["success"] = reaches(self.outcome.value, self.threshold)
        if isinstance(self.outcome, Annotation):
            metadata = {**self.outcome.metadata, "success": self.outcome.passed}
        failure = self.outcome if isinstance(self.outcome, Failure) else None
        return {
            "scope": self.scope,
            "subject_id": self.subject_id,
            "status": self.status,
            "metric": self.metric,
            "value": self.value,
            "scale": None if self.scale is None else list(self.scale),
            "label": self.label,
            "threshold": self.threshold,
            "reason": self.reason,
            "skip_cause": self.outcome.cause if isinstance(self.outcome, Skip) else None,
            "metadata": metadata,
            "trace_id": self.target.trace_id,
            "span_id": self.target.span_id,
            "session_id": self.session_id,
            "session_key": self.session_key or self.session_id,
            "agent_name": self.agent_name,
            "service_name": self.service_name,
            "latency_s": self.latency_s,
            "evaluator": {
                name: getattr(self.evaluator, name) for name in Evaluator.__dataclass_fields__
            },
            "usage": {name: getattr(self.usage, name) for name in JudgeUsage.__dataclass_fields__},
            "error": {"type": failure.type, "message": failure.message} if failure else None,
            "revision": self.revision,
            "sampling": self.sampling,
            "rule": self.rule,
            "evaluated_at_ns": self.evaluated_at_ns,
            **({} if self.run is None else {"run": self.run}),
            **({} if self.turn_outcome is None else {"turn_outcome": self.turn_outcome}),
        }


def reaches(value: float, threshold: float) -> bool:
    """Whether `value >= threshold`, tolerating what binary floats add up to (.7 + .1 + .1 + .1
    reaches 1.0).
    """
    return value >= threshold - 1e-9


MAX_ERROR_CHARS = 500


@dataclass(frozen=True, slots=True)
class Undelivered:
    """`seq` is the score's number in the outbox.

    `forms` are what did not arrive: `traces` (the span), `logs` (the event), or `scores` (a tool's
    own API). `reason` is one of few words, `error` what the backend answered. `since_ns` is Unix
    ns. `to_resend`: it is to be sent again.
    """

    exporter: str
    seq: int
    forms: tuple[str, ...]
    reason: str
    error: str
    since_ns: int
    to_resend: bool = False


class Spending(NamedTuple):
    """What a tenant has spent in a window.

    `open_tokens` and `open_usd` are the part of it that is reserved for calls under way.
    """

    tokens: int = 0
    usd: float = 0.0
    open_tokens: int = 0
    open_usd: float = 0.0


class Standing(NamedTuple):
    """What other servers have spent in a window, by tenant, and who spent in the one before."""

    window: int
    others: Mapping[str, Spending]
    before: Collection[str]
