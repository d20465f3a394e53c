"""The run of a suite, as its file has it, in the words of a report."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from spanscore.model.trace import AgentTrace
from spanscore.report.results import Case, Figure, Results, Score, Status, Trial
from spanscore.stats import Estimate, Interval

_STATUSES: Mapping[str, Status] = {
    "pass": "pass",
    "fail": "fail",
    "error": "error",
    "unmatched": "unmatched",
}
_LEVEL = 0.95


def of_run(
    run: Mapping[str, Any], traces: Sequence[AgentTrace] = (), scores: Sequence[Score] = ()
) -> Results:
    """The results of a run of a suite; `run` is what `suites.to_json` gives, and a run file
    contains.

    `traces` are the agent traces that it was a run over, whose steps are shown then; `scores` are
    further ones of them. Raises KeyError, TypeError, ValueError or AttributeError where it is no
    run.
    """
    return Results(
        name=f"{run['suite']}, run {run['run_id']}",
        traces=traces,
        scores=scores,
        cases=list(map(_case, run["cases"])),
        figures=list(_whole(run["overall"])),
        started_at_ns=int(datetime.fromisoformat(run["started_at"]).timestamp()) * 10**9,
    )


def _case(case: Mapping[str, Any]) -> Case:
    return Case(
        name=str(case["id"]),
        status=_STATUSES[case["status"]],
        trials=[_trial(x) for x in case["trials"]],
        reasons=tuple(map(str, case["reasons"])),
        figures=list(_of_case(case)),
    )


def _trial(trial: Mapping[str, Any]) -> Trial:
    return Trial(
        status=_STATUSES[trial["status"]],
        reasons=tuple(map(str, trial["reasons"])),
        trace_ids=tuple(map(str, trial["trace_ids"])),
        scores=list(trial["evaluations"]),
        score=trial.get("score"),
        latency_s=trial.get("latency_s"),
        session_id=trial.get("session_id"),
        user_input=trial.get("user_input"),
    )


def _of_case(case: Mapping[str, Any]) -> Iterator[Figure]:
    if case.get("pass_rate"):
        yield Figure(name="trials that pass", estimate=_estimate(case["pass_rate"]))
    if len(case["trials"]) < 2:
        return
    for name, sign in (("pass_at_k", "@"), ("pass_pow_k", "^")):
        if case.get(name) is not None:
            low, high = case.get(f"{name}_ci_low"), case.get(f"{name}_ci_high")
            interval = (
                None if low is None or high is None else Interval(float(low), float(high), _LEVEL)
            )
            estimate = Estimate(
                float(case[name]), int(case["n"]), interval, str(case["statistics"])
            )
            yield Figure(
                name=f"pass{sign}{case['k']}", estimate=estimate, note=str(case["statistics"])
            )


def _whole(overall: Mapping[str, Any]) -> Iterator[Figure]:
    for name, title in (
        ("case_pass_rate", "cases that pass"),
        ("pass_rate", "trials that pass, over cases"),
    ):
        if overall.get(name):
            yield Figure(name=title, estimate=_estimate(overall[name]))
    for name, sign in (("pass_at_k", "@"), ("pass_pow_k", "^")):
        if overall.get(name):
            found = overall[name]
            yield Figure(
                name=f"pass{sign}{overall['k']} over cases",
                estimate=_estimate(found),
                note=found["statistics"],
            )
    for rate in overall.get("corrected_pass_rates") or ():
        if rate["corrected"]:
            name = f"{rate['metric']}: pass rate, corrected"
            yield Figure(name=name, estimate=_estimate(rate["corrected"]), note=str(rate["note"]))
    if overall.get("mean_score"):
        estimate = _estimate(overall["mean_score"])
        yield Figure(name="mean score of 100", estimate=estimate, scale=(0.0, 100.0), unit="")


def _estimate(found: Mapping[str, Any]) -> Estimate:
    """The inverse of `Estimate.to_json`."""
    low, high = found["low"], found["high"]
    interval = (
        None if low is None else Interval(float(low), float(high), float(found["level"] or _LEVEL))
    )
    return Estimate(
        float(found["value"]),
        int(found["n"]),
        interval,
        str(found["method"]),
        None,
        found["note"] or "",
    )
