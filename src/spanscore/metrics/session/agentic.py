"""Agentic: does each interaction match what is expected?"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from spanscore.metrics._base import Judged, SessionMetric, Signals, Threshold
from spanscore.metrics.check._check import Evidence, counted, listed
from spanscore.metrics.expected import (
    EQUAL_WEIGHTS,
    AnswerCorrectness,
    ExpectedCall,
    Share,
    ToolCorrectness,
    UsedCall,
    WeightsOption,
    measure_tools,
)
from spanscore.model.score import Outcome, Score, Skip, reaches
from spanscore.model.trace import AgentTrace, Session, requested_in
from spanscore.stats import (
    Estimate,
    pass_at_k,
    pass_pow_k,
    posterior_pass_at_k,
    posterior_pass_pow_k,
    unbiased_pass_at_k,
    unbiased_pass_pow_k,
)

Unit: TypeAlias = Literal["conversation", "interaction"]
Statistics: TypeAlias = Literal["frequentist", "bayesian", "unbiased"]
_ODDS_OF_TURNS = (
    "n and c count the interactions of this one conversation, as some frameworks do; they are not"
    " independent trials, so pass@k and pass^k say little of another conversation"
)
_Parameter = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Interaction:
    """A turn of a conversation with what is expected of it; None: nothing is.

    `uses_tools` is a label that says whether the answer makes use of what the tools returned; None:
    see the trace.
    """

    trace: AgentTrace
    expected_answer: str | None = None
    expected_tools: tuple[ExpectedCall, ...] | None = None
    sequence_matters: bool = True
    uses_tools: bool | None = None


@dataclass(frozen=True, slots=True)
class Assessed:
    """What came of an interaction: the answer's score (None: none is expected, or known), its
    tools, and what is wrong.

    `is_correct` None: that is not known.
    """

    answer: Score | None = None
    tools: ToolCorrectness | None = None
    is_correct: bool | None = None
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Agentic(SessionMetric):
    """Whether a conversation came out as a test expects: it is right only if all of its
    interactions are.

    It needs to know what is expected, by a suite or by what the traces state, so it runs with
    `spanscore test`, and is skipped elsewhere; its options stand under `agentic` in the suite. An
    interaction is right when its answer reaches `threshold` against the expected one, as a judge
    sees it, and its tool calls, which are computed, reach `tool_threshold` against the expected
    ones. The score is 1 or 0. Metadata: `session_id`, `total_interactions`, `correct_interactions`,
    `is_fully_correct`, `threshold`, `correctness_scores`, `correct_indices`,
    `tool_correctness_scores`, `unit`, `statistics`, `n`, `c`, `k`, `pass_at_k`, `pass_at_k_ci_low`,
    `pass_at_k_ci_high`, `pass_pow_k`, `pass_pow_k_ci_low`, `pass_pow_k_ci_high`.

    >>> Agentic(k=3).odds(4, 2)["pass_at_k"]
    0.875
    """

    name: ClassVar[str] = "agentic"
    summary: ClassVar[str] = "Did the conversation come out as the test expects?"
    method: ClassVar[str] = "judge, in suites"
    signals: ClassVar[tuple[str, ...]] = ()
    answers: ClassVar[type[Judged]] = AnswerCorrectness
    """How an answer is held against the expected one; the rest is computed."""

    threshold: Annotated[
        Threshold, Field(strict=True, description="The score from which on an answer is right.")
    ] = 0.7

    tool_threshold: Share = 1.0
    """The weighted sum of the four aspects from which on an interaction's tool calls are right."""

    tool_weights: WeightsOption = EQUAL_WEIGHTS
    """How much each aspect of the tool calls counts."""

    tools_decide: Annotated[bool, Field(strict=True)] = True
    """Whether wrong tool calls make an interaction wrong; false: they are reported only."""

    k: Annotated[int, Field(strict=True, ge=1, le=1_000)] | None = None
    """The attempts of pass@k and pass^k; null: as many as the case has trials."""

    statistics: Statistics = "frequentist"
    """How pass@k and pass^k are estimated from n trials, c of them right. `frequentist`:
    1-(1-c/n)^k and (c/n)^k, without interval. `bayesian`: mean and interval of the posterior.
    `unbiased`: 1-C(n-c,k)/C(n,k) and C(c,k)/C(n,k), for k up to n.
    """

    prior: tuple[_Parameter, _Parameter] = (1.0, 1.0)
    """a and b of the Beta distribution that the Bayesian mode starts from."""

    level: Annotated[float, Field(strict=True, gt=0, lt=1)] = 0.95
    """The level of all intervals."""

    unit: Unit = "conversation"
    """What n and c count: the trials of a case, each a conversation, or the interactions of one
    conversation.
    """

    def measure(self, session: Session, signals: Signals, weights: Mapping[str, float]) -> Outcome:
        """A Skip: a session is held against what is expected of it by `spanscore test` alone."""
        del signals, weights
        if any(trace.expected is not None for trace in session.traces):
            return Skip(
                "The traces state what is expected of them; `spanscore test PATH` holds them"
                " against it."
            )
        return Skip(
            "What is expected of this session is not known; `spanscore test SUITE` measures"
            " agentic."
        )

    def unmeasurable_interaction(self, interaction: Interaction) -> Skip | None:
        """Why nothing can be said of an interaction: a fact that is compared was not recorded, or
        arrived damaged.
        """
        trace = interaction.trace
        needed = ["final_output"] if interaction.expected_answer is not None else []
        needed += ["tool_calls"] if interaction.expected_tools else []
        for fact in needed:
            if getattr(trace, fact) is None or fact in trace.damaged:
                return Skip(
                    f"The trace did not record {fact}, or it arrived cut or redacted.",
                    "not_recorded",
                )
        if not interaction.expected_tools or not trace.tool_calls:
            return None
        wanted = {x.tool_name for x in interaction.expected_tools if x.parameters is not None}
        if silent := sorted(
            {x.name for x in trace.tool_calls if x.arguments is None and x.name in wanted}
        ):
            return Skip(
                f"The trace did not record the arguments of {listed(silent)}.", "not_recorded"
            )
        if self.tool_weights.utilisation and _uses_tools(interaction) is None:
            return Skip(
                "The trace did not record what the tools returned; say final_answer_uses_tools in"
                " the suite, or give tool_weights without utilisation.",
                "not_recorded",
            )
        return None

    def assess(self, interaction: Interaction, answer: Score | None) -> Assessed:
        """What comes of an interaction that is measurable; `answer` is the judge's score where one
        is expected.
        """
        tools = self._tools(interaction)
        faults = []
        if answer is not None and not reaches(answer.value, self.threshold):
            faults.append(f"answer {answer.value:.2f}, below {self.threshold:g}: {answer.reason}")
        faults += self._tool_faults(tools)
        if answer is None and tools is None and interaction.expected_tools:
            faults.append(
                f"no tool was used; expected: {counted(len(interaction.expected_tools), 'call')}"
            )
        return Assessed(answer, tools, not faults, tuple(faults))

    def assess_unanswered(self, interaction: Interaction) -> Assessed:
        """What comes of an interaction whose answer nobody could judge: wrong where its tool calls
        alone make it so.
        """
        tools = self._tools(interaction)
        faults = self._tool_faults(tools)
        return Assessed(None, tools, False if faults else None, tuple(faults))

    def odds(self, n: int, c: int, k: int | None = None) -> dict[str, Any]:
        """pass@k and pass^k of `n` trials, `c` of them right, with the limits of their intervals.

        All are None for no trials, and of the unbiased form, which there is not then, for fewer
        trials than `k`.
        """
        attempts = k or self.k or 1
        named: dict[str, Any] = {"statistics": self.statistics, "n": n, "c": c, "k": attempts}
        estimates = _estimates(self.statistics, self.prior, self.level, n, c, attempts)
        for name, estimate in zip(("pass_at_k", "pass_pow_k"), estimates, strict=True):
            interval = None if estimate is None else estimate.interval
            named[name] = None if estimate is None else float(estimate.value)
            named[f"{name}_ci_low"] = None if interval is None else float(interval.low)
            named[f"{name}_ci_high"] = None if interval is None else float(interval.high)
        return named

    def conversation(
        self,
        session_id: str | None,
        assessed: Sequence[Assessed],
        trials: tuple[int, int],
        k: int | None = None,
    ) -> Score:
        """The score of a conversation all of whose interactions were assessed, or of which one at
        least is wrong.

        `trials` are those of its case that were assessed, and those of them that were right.
        """
        right = [place for place, x in enumerate(assessed) if x.is_correct]
        undecided = [place for place, x in enumerate(assessed) if x.is_correct is None]
        is_correct = len(right) == len(assessed)
        n, c = (
            trials if self.unit == "conversation" else (len(assessed) - len(undecided), len(right))
        )
        metadata: dict[str, Any] = {
            "session_id": session_id,
            "total_interactions": len(assessed),
            "correct_interactions": len(right),
            "is_fully_correct": is_correct,
            "threshold": self.threshold,
            "correctness_scores": [None if x.answer is None else x.answer.value for x in assessed],
            "correct_indices": right,
            "tool_correctness_scores": [
                None if x.tools is None else x.tools.to_json() for x in assessed
            ],
            "unit": self.unit,
            **self.odds(n, c, k),
            **({"undecided_indices": undecided} if undecided else {}),
        }
        faults = [
            f"interaction {at}: {fault}" for at, x in enumerate(assessed) for fault in x.faults
        ]
        reason = listed(faults) or f"{counted(len(assessed), 'interaction')} right, as expected."
        if self.unit == "interaction":
            metadata["note"] = _ODDS_OF_TURNS
            reason = f"{reason.removesuffix('.')}. Mind that {_ODDS_OF_TURNS}."
        return Score(float(is_correct), reason, metadata)

    def _tool_faults(self, tools: ToolCorrectness | None) -> list[str]:
        """Why the tool calls make an interaction wrong, if they do."""
        if tools is None or tools.is_correct or not self.tools_decide:
            return []
        below = f"below {self.tool_threshold:g}: {listed(tools.faults)}"
        return [f"tools {tools.overall:.2f} ({tools.reading}), {below}"]

    def _tools(self, interaction: Interaction) -> ToolCorrectness | None:
        return measure_tools(
            interaction.expected_tools or (),
            used_calls(interaction.trace),
            sequence_matters=interaction.sequence_matters,
            results_used=_uses_tools(interaction) is not False,
            weights=self.tool_weights,
            threshold=self.tool_threshold,
        )


@functools.lru_cache(maxsize=4096)  # the cases of a suite come to the same few counts
def _estimates(
    statistics: Statistics, prior: tuple[float, float], level: float, n: int, c: int, k: int
) -> tuple[Estimate | None, Estimate | None]:
    """pass@k and pass^k, None where there is none."""
    if n < (k if statistics == "unbiased" else 1):
        return None, None
    if statistics == "bayesian":
        return (
            posterior_pass_at_k(n, c, k, prior=prior, level=level),
            posterior_pass_pow_k(n, c, k, prior=prior, level=level),
        )
    forms = (
        (pass_at_k, pass_pow_k)
        if statistics == "frequentist"
        else (unbiased_pass_at_k, unbiased_pass_pow_k)
    )
    at, power = (Estimate(form(n, c, k), n, None, statistics) for form in forms)
    return at, power


def reading(at_k: float | None, pow_k: float | None) -> str | None:
    """What pass@k and pass^k together mean, in a word or two; None between the marks.

    On a mark is on neither side of it, whatever binary floats made of the last digit.

    >>> reading(0.99, 0.8), reading(0.99, 0.3), reading(0.5, 0.1), reading(0.9, 0.6)
    ('reliable', 'inconsistent', 'needs improvement', None)
    """
    if at_k is None or pow_k is None:
        return None
    if reaches(0.95, at_k):
        return None if reaches(at_k, 0.7) else "needs improvement"
    if not reaches(0.7, pow_k):
        return "reliable"
    return None if reaches(pow_k, 0.5) else "inconsistent"


def used_calls(trace: AgentTrace) -> list[UsedCall]:
    """The tool calls of a trace in order, each with the model answer that asked for it, or one of
    its own.
    """
    calls = trace.tool_calls or ()
    return [
        UsedCall(call.name, call.arguments, -1 - place if answer is None else answer)
        for place, (call, answer) in enumerate(
            zip(calls, requested_in(trace.model_calls, calls), strict=True)
        )
    ]


def _uses_tools(interaction: Interaction) -> bool | None:
    """Whether anything that the tools returned is in the final output; None where that was not
    recorded.

    By words of four letters or more, and numbers of two digits or more, that the user's input does
    not hold. Results that hold none cannot be missed.
    """
    if interaction.uses_tools is not None:
        return interaction.uses_tools
    trace = interaction.trace
    if trace.final_output is None or "final_output" in trace.damaged:
        return None
    evidence = Evidence(trace)
    new = {
        word
        for text in evidence.results
        for word in text.split()
        if len(word) > 3 or (len(word) > 1 and word.isdigit())
    }
    new -= set(evidence.request.split())
    if not new.isdisjoint(evidence.answer.split()):
        return True
    if any(not x.returned and x.error is None for x in evidence.calls):
        return None
    return not new
