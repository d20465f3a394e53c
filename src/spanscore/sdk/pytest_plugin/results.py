"""Results of tests, gathered across processes."""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from spanscore import report as html
from spanscore.model.score import reaches
from spanscore.model.trace import AgentTrace
from spanscore.sdk.captures import MAX_SPANS
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
            value = score["value"]
            found.append((name, score["status"] if value is None else f"{value:.4g}"))
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
        most = (counts["pass"] + counts["error"]) / decided
        may_pass = counts["error"] and reaches(most, required)
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
        if self.k is None or not self.n:
            return None
        return posterior_pass_pow_k(self.n, self.passed, self.k)

    @property
    def in_short(self) -> str:
        """How many trials passed, beside how many were to."""
        counts = Counter(x.status for x in self.trials)
        left = ", ".join(f"{counts[x]} {word}" for x, word in _LEFT_OUT.items() if counts[x])
        left = f" ({left})" if left else ""
        required = f", {self.required:.0%} required" if self.required < 1 else ""
        return f"{self.passed} of {len(self.trials)} trials passed{left}{required}"

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
        shown = (f"{name} {_with_interval(x)}" for name, x in self.figures if x)
        return ", ".join(shown) or "no trial came out either way"

    @property
    def figures(self) -> tuple[tuple[str, Estimate | None], ...]:
        """The pass rate and pass^k, by their names."""
        return ("pass rate", self.pass_rate), (f"pass^{self.k}", self.pass_pow_k)

    def properties(self) -> list[tuple[str, object]]:
        """The verdict, and the scores of each trial, as the properties of a test in a JUnit
        file.
        """
        found: list[tuple[str, object]] = []
        if self.k is not None:
            found += [
                ("spanscore.trials", len(self.trials)),
                ("spanscore.trials.passed", self.passed),
                *_limits("spanscore.pass_rate", self.pass_rate),
                *_limits(f"spanscore.pass_pow_{self.k}", self.pass_pow_k),
            ]
        for number, trial in enumerate(self.trials, 1):
            prefix = f"spanscore.trial{number}." if self.k is not None else "spanscore."
            own = trial.gathered.properties()
            found += [(name.replace("spanscore.", prefix, 1), x) for name, x in own]
        return found

    def to_text(self) -> str:
        """As text of ASCII alone, which every way between two processes can carry."""
        return json.dumps(self, default=lambda x: {y: getattr(x, y) for y in x.__slots__})

    @classmethod
    def from_text(cls, text: str) -> "Verdict":
        """The inverse of `to_text`."""
        data = json.loads(text)
        trials = [Trial(**{**x, "gathered": Gathered(**x["gathered"])}) for x in data["trials"]]
        return cls(**{**data, "trials": trials})


_LEFT_OUT = {"error": "cannot be told", "skipped": "skipped"}


def _with_interval(estimate: Estimate) -> str:
    interval = estimate.interval
    limits = f" [{interval.low:.2f}, {interval.high:.2f}]" if interval else ""
    return f"{estimate.value:.2f}{limits}"


def _limits(name: str, estimate: Estimate | None) -> list[tuple[str, object]]:
    if estimate is None or estimate.interval is None:
        return []
    low, high = estimate.interval.low, estimate.interval.high
    facts = {"": estimate.value, ".low": low, ".high": high}
    return [(f"{name}{of}", f"{x:.4g}") for of, x in facts.items()]


_MAX_DETAIL_CHARS = 100_000


@dataclass(frozen=True, slots=True)
class Reported:
    """One test: what it came to, and what pytest prints of its failure."""

    name: str
    verdict: Verdict
    detail: str | None


@dataclass(slots=True)
class Run:
    """The tests of a run that recorded something, by their names; turns are kept only where a
    report is wanted.
    """

    keeps_turns: bool
    started_at_ns: int = field(default_factory=time.time_ns)
    tests: dict[str, Reported] = field(default_factory=dict)

    def add(self, report: Any) -> None:
        """Take in the report of a test; of one that is run again the last counts."""
        verdict = Verdict.from_text(report.spanscore)
        if not self.keeps_turns:
            trials = [replace(x, gathered=replace(x.gathered, turns=())) for x in verdict.trials]
            verdict = replace(verdict, trials=trials)
        detail = report.longreprtext[:_MAX_DETAIL_CHARS] if report.failed else None
        self.tests[report.nodeid] = Reported(report.nodeid, verdict, detail)

    @property
    def trials(self) -> list[Trial]:
        """All trials of all tests."""
        return [x for test in self.tests.values() for x in test.verdict.trials]

    def lines(self) -> Iterator[str]:
        """What is printed at the end: a line for each metric, for each test with trials, and what
        the judge cost.
        """
        scores: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
        for test in self.tests.values():
            for score in _scores(test.verdict.trials):
                if score["value"] is not None:
                    scores[score["metric"]].append((score["value"], test.name))
        width = max(map(len, scores), default=0)
        for metric, found in sorted(scores.items()):
            lowest, name = min(found)
            mean = sum(x for x, _ in found) / len(found)
            where = f", lowest {lowest:.2f} in {name}" if len(found) > 1 else ""
            yield f"{metric.ljust(width)}  mean {mean:.2f}, n = {len(found)}{where}"
        for test in self.tests.values():
            if test.verdict.k is not None:
                yield f"{test.name}: {test.verdict.in_short}; {test.verdict.odds()}"
        yield from _costs(self.trials)

    def results(self, name: str) -> html.Results:
        """The run as a report shows it."""
        traces = {x["id"]: x for trial in self.trials for x in trial.gathered.turns}
        left_out = sum(x.gathered.left_out for x in self.trials)
        note = f"{left_out:,} spans and log records are left out: a test keeps {MAX_SPANS:,}"
        return html.Results(
            name=name,
            traces=[AgentTrace.from_json(x) for x in traces.values()],
            cases=[_case(x) for x in self.tests.values()],
            started_at_ns=self.started_at_ns,
            notes=(note,) if left_out else (),
        )


_RUN = pytest.StashKey[Run]()


def gather(config: pytest.Config, report: pytest.TestReport) -> None:
    """Take in the report of a test, in the process that reports on all of them."""
    if _RUN not in config.stash:
        config.stash[_RUN] = Run(keeps_turns=bool(config.getoption("--spanscore-report")))
    config.stash[_RUN].add(report)


def summarise(config: pytest.Config, terminal: Any) -> None:
    """Print the section at the end, and write the report, if one is wanted."""
    run = config.stash.get(_RUN, None) or Run(keeps_turns=True)
    lines = list(run.lines())
    if path := config.getoption("--spanscore-report"):
        html.save(Path(path), run.results(config.rootpath.name))
        lines.append(f"report: {path}")
    if lines:
        terminal.section("spanscore")
        for line in lines:
            terminal.write_line(line)


def _costs(trials: Sequence[Trial]) -> Iterator[str]:
    """What the judge was asked, and what was recorded of it."""
    usages = [x["usage"] for x in _scores(trials)]
    calls = sum(x["calls"] for x in usages)
    cost = sum(x["cost_usd"] or 0.0 for x in usages)
    replayed = sum(x.gathered.replayed for x in trials)
    recorded = sum(x.gathered.recorded for x in trials)
    costs = [f"{calls} calls" + (f", {cost:.4f} USD" if cost else "")] if calls else []
    costs += [f"{replayed} answers replayed"] if replayed else []
    costs += [f"{recorded} recorded"] if recorded else []
    if costs:
        yield f"judge: {', '.join(costs)}"


def _scores(trials: Iterable[Trial]) -> Iterator[Mapping[str, Any]]:
    for trial in trials:
        yield from trial.gathered.scores


def _case(test: Reported) -> html.Case:
    verdict = test.verdict
    rates = verdict.figures if verdict.k else ()
    reasons = dict.fromkeys(x.reason for x in verdict.trials if x.status != "pass" and x.reason)
    return html.Case(
        name=test.name,
        status=cast("Any", verdict.status),
        trials=[_trial(x) for x in verdict.trials],
        reasons=tuple(reasons),
        figures=[html.Figure(name=name, estimate=x) for name, x in rates if x is not None],
        detail=test.detail,
    )


def _trial(trial: Trial) -> html.Trial:
    turns = trial.gathered.turns
    took_ns = sum(max(0, x["ended_ns"] - x["started_ns"]) for x in turns)
    return html.Trial(
        status=cast("Any", trial.status),
        reasons=(trial.reason,) if trial.reason and trial.status != "pass" else (),
        trace_ids=tuple(x["id"] for x in turns),
        scores=trial.gathered.scores,
        latency_s=took_ns / 1e9 if turns else None,
        session_id=next((x["session_id"] for x in turns if x["session_id"]), None),
        user_input=turns[0]["user_input"] if turns else None,
    )
