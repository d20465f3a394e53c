"""What tests recorded and came to, as it travels from the process that ran a test to the one that
reports on all.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spanscore.model.score import reaches
from spanscore.stats import Estimate, posterior_pass_pow_k, rate


@dataclass(frozen=True, slots=True)
class Gathered:
    """The turns and scores of one test, or of one trial of it, as plain JSON.

    `is_unknown`: it failed since it cannot be told whether it passes. `replayed` and `recorded`
    count answers.
    """

    turns: Sequence[Mapping[str, Any]] = ()
    scores: Sequence[Mapping[str, Any]] = ()
    is_unknown: bool = False
    left_out: int = 0
    replayed: int = 0
    recorded: int = 0

    def properties(self) -> list[tuple[str, object]]:
        """The scores as the properties of a test in a JUnit file; of several by one metric each
        with its number.
        """
        found: list[tuple[str, object]] = []
        counts: Counter[str] = Counter()
        for score in self.scores:
            counts[score["metric"]] += 1
            number = counts[score["metric"]]
            name = f"spanscore.{score['metric']}" + (f".{number}" if number > 1 else "")
            found.append(
                (name, score["status"] if score["value"] is None else f"{score['value']:.4g}")
            )
            found += [(f"{name}.label", score["label"])] if score["label"] else []
        traces = dict.fromkeys(x for turn in self.turns for x in turn["trace_ids"])
        return [*found, ("spanscore.trace_ids", " ".join(traces))] if traces else found


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of a test: `status` is pass, fail, skipped, or error where it cannot be told."""

    status: str
    reason: str | None
    duration_s: float
    gathered: Gathered = field(default_factory=Gathered)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the trials of one test came to. `k` None: it was run once, as any other test."""

    status: str
    trials: Sequence[Trial]
    k: int | None = None
    required: float = 1.0

    @classmethod
    def of(cls, trials: Sequence[Trial], *, k: int | None, required: float) -> "Verdict":
        """Passed or failed where it is so whatever came of the trials that cannot be told; else
        error.
        """
        counts = Counter(x.status for x in trials)
        decided = len(trials) - counts["skipped"]
        if not decided:
            return cls("skipped", trials, k, required)
        if reaches(counts["pass"] / decided, required):
            return cls("pass", trials, k, required)
        may_pass = counts["error"] and reaches(
            (counts["pass"] + counts["error"]) / decided, required
        )
        return cls("error" if may_pass else "fail", trials, k, required)

    @property
    def passed(self) -> int:
        """Trials that passed."""
        return sum(x.status == "pass" for x in self.trials)

    @property
    def n(self) -> int:
        """Trials that came out either way."""
        return sum(x.status in {"pass", "fail"} for x in self.trials)

    @property
    def pass_rate(self) -> Estimate | None:
        """The share of trials that pass."""
        return rate(self.passed, self.n) if self.n else None

    @property
    def pass_pow_k(self) -> Estimate | None:
        """The chance that `k` attempts all pass: the mean of its posterior, and its 95 %
        interval.
        """
        return (
            None
            if self.k is None or not self.n
            else posterior_pass_pow_k(self.n, self.passed, self.k)
        )

    @property
    def in_short(self) -> str:
        """How many trials passed, beside how many were to."""
        counts = Counter(x.status for x in self.trials)
        left = ", ".join(f"{counts[x]} {word}" for x, word in _LEFT_OUT.items() if counts[x])
        summary = f"{self.passed} of {len(self.trials)} trials passed" + (
            f" ({left})" if left else ""
        )
        return summary if self.required >= 1 else f"{summary}, {self.required:.0%} required"

    def in_words(self) -> str:
        """The verdict for a person, with why trials did not pass."""
        lines = [f"{self.in_short}; {self.odds()}"]
        for number, trial in enumerate(self.trials, 1):
            if trial.status != "pass":
                first, *_ = (trial.reason or "").splitlines() or [""]
                lines.append(f"trial {number}: {trial.status}: {first}")
        return "\n".join(lines)

    def odds(self) -> str:
        """The pass rate and pass^k with their intervals."""
        figures = (("pass rate", self.pass_rate), (f"pass^{self.k}", self.pass_pow_k))
        return (
            ", ".join(f"{name} {_with_interval(x)}" for name, x in figures if x)
            or "no trial came out either way"
        )

    def properties(self) -> list[tuple[str, object]]:
        """The verdict, and the scores of each trial, as the properties of a test in a JUnit
        file.
        """
        found: list[tuple[str, object]] = []
        if self.k is not None:
            found += [
                ("spanscore.trials", len(self.trials)),
                ("spanscore.trials.passed", self.passed),
            ]
            for name, estimate in (
                ("pass_rate", self.pass_rate),
                (f"pass_pow_{self.k}", self.pass_pow_k),
            ):
                found += _limits(f"spanscore.{name}", estimate)
        for number, trial in enumerate(self.trials, 1):
            prefix = f"spanscore.trial{number}." if self.k is not None else "spanscore."
            found += [
                (name.replace("spanscore.", prefix, 1), x)
                for name, x in trial.gathered.properties()
            ]
        return found

    def to_text(self) -> str:
        """As text of ASCII alone, which every way between two processes can carry."""
        return json.dumps(_plain(self))

    @classmethod
    def from_text(cls, text: str) -> "Verdict":
        """The inverse of `to_text`."""
        data = json.loads(text)
        trials = [Trial(**{**x, "gathered": Gathered(**x["gathered"])}) for x in data["trials"]]
        return cls(**{**data, "trials": trials})


_LEFT_OUT = {"error": "cannot be told", "skipped": "skipped"}


def _with_interval(estimate: Estimate) -> str:
    interval = estimate.interval
    return f"{estimate.value:.2f}" + (
        f" [{interval.low:.2f}, {interval.high:.2f}]" if interval else ""
    )


def _limits(name: str, estimate: Estimate | None) -> list[tuple[str, object]]:
    if estimate is None or estimate.interval is None:
        return []
    low, high = estimate.interval.low, estimate.interval.high
    return [
        (name, f"{estimate.value:.4g}"),
        (f"{name}.low", f"{low:.4g}"),
        (f"{name}.high", f"{high:.4g}"),
    ]


def _plain(item: Any) -> Any:
    if hasattr(item, "__dataclass_fields__"):
        return {name: _plain(getattr(item, name)) for name in item.__dataclass_fields__}
    return [_plain(x) for x in item] if isinstance(item, list | tuple) else item
