"""What a report shows: a run's turns, scores and tests, and how it differs from another run.

Values alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.stats import Estimate

Status: TypeAlias = Literal["pass", "fail", "error", "skipped", "unmatched"]
"""How a test came out. `error`: that is not known; `unmatched`: nothing is recorded for it."""

Verdict: TypeAlias = Literal["better", "worse", "cannot tell"]

Score: TypeAlias = Evaluation | Mapping[str, Any]
"""A score, or its JSON object as `Evaluation.to_json` gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number of the whole run or of one test, with its interval; `note` is what a reader must
    know of it.

    `scale` is the range that the value can have. `unit` is written after it: "%" makes a share of 1
    a percentage.
    """

    name: str
    estimate: Estimate
    note: str = ""
    scale: tuple[float, float] = (0.0, 1.0)
    unit: str = "%"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One attempt at a test: how it came out and why, in which turns, and its scores.

    `trace_ids` are those of OpenTelemetry traces, or the ids of agent traces. `score` is 0..100, or
    None.
    """

    status: Status
    reasons: tuple[str, ...] = ()
    trace_ids: tuple[str, ...] = ()
    scores: Sequence[Score] = ()
    score: float | None = None
    latency_s: float | None = None
    session_id: str | None = None
    user_input: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test of a suite, or one test function.

    `detail` is further text, such as a failed assertion's traceback.
    """

    name: str
    status: Status
    trials: Sequence[Trial] = ()
    reasons: tuple[str, ...] = ()
    figures: Sequence[Figure] = ()
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """One run: what a report is made of.

    `scores` are those of `traces` and of their sessions; a trial's own are listed with the trial. A
    score whose turn is not among `traces` is shown without steps. `figures` are of the whole run.
    `notes` are sentences for the reader, such as what was left out.
    """

    name: str
    traces: Sequence[AgentTrace] = ()
    scores: Sequence[Score] = ()
    cases: Sequence[Case] = ()
    figures: Sequence[Figure] = ()
    started_at_ns: int | None = None
    notes: tuple[str, ...] = ()

    def named(self, name: str) -> "Results":
        """The same under another name."""
        return replace(self, name=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One measure in both runs: `difference` is the run's own value minus the baseline's, over
    pairs that both have.

    `unit` is as of a `Figure`, such as "s". `regression` says which limit is passed, or is empty.
    `counted` says what a share is of, such as "of 4 traces", where its name does not.
    """

    name: str
    baseline: Estimate
    own: Estimate
    difference: Estimate
    verdict: Verdict
    unit: str = ""
    regression: str = ""
    note: str = ""
    counted: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One test, turn or session in both runs: its status in the baseline and its own, and what is
    sure of that.
    """

    name: str
    baseline: str
    own: str
    measure: str = ""
    values: tuple[float, float] | None = None
    verdict: Verdict = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A run beside its baseline.

    `remarks` are sentences: how sure the intervals are, what is not comparable.
    """

    baseline: str
    verdict: Verdict
    differences: Sequence[Difference] = ()
    changes: Sequence[Change] = ()
    only_in_baseline: Sequence[str] = ()
    only_in_own: Sequence[str] = ()
    remarks: tuple[str, ...] = ()
