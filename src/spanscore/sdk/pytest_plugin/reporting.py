"""What all tests of a run came to: the section at the end of pytest's output, and the HTML
report.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from spanscore import report as html
from spanscore.model.trace import AgentTrace
from spanscore.sdk.capturing import MAX_SPANS
from spanscore.sdk.pytest_plugin.results import Trial, Verdict

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
        return html.Results(
            name=name,
            traces=[AgentTrace.from_json(x) for x in traces.values()],
            cases=[_case(x) for x in self.tests.values()],
            started_at_ns=self.started_at_ns,
            notes=(f"{left_out:,} spans and log records are left out: a test keeps {MAX_SPANS:,}",)
            if left_out
            else (),
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
    replayed, recorded = (
        sum(getattr(x.gathered, y) for x in trials) for y in ("replayed", "recorded")
    )
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
    rates = (
        (("pass rate", verdict.pass_rate), (f"pass^{verdict.k}", verdict.pass_pow_k))
        if verdict.k
        else ()
    )
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
    return html.Trial(
        status=cast("Any", trial.status),
        reasons=(trial.reason,) if trial.reason and trial.status != "pass" else (),
        trace_ids=tuple(x["id"] for x in turns),
        scores=trial.gathered.scores,
        latency_s=sum(max(0, x["ended_ns"] - x["started_ns"]) for x in turns) / 1e9
        if turns
        else None,
        session_id=next((x["session_id"] for x in turns if x["session_id"]), None),
        user_input=turns[0]["user_input"] if turns else None,
    )
