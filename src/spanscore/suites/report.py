"""Results of a suite, as text, JSON and JUnit."""

import hashlib
import re
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from spanscore.metrics.session.agentic import Agentic, reading
from spanscore.model.json import dumps
from spanscore.model.score import Evaluation, JudgeUsage, reaches
from spanscore.model.trace import Trial as Origin
from spanscore.stats import Estimate, connected, mean, over_tasks, rate, unbiased_pass_at_k
from spanscore.suites.suite import Case, Suite
from spanscore.suites.trial import Trial, agentic_evaluation

SCHEMA = "spanscore.run/1"
"""The form of a run file; what is added to it later leaves the name as it is."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """A case with its trials.

    Rates are of `n` of them, `passed` of which passed; `errors` could not be told.
    """

    case: Case
    status: str
    trials: tuple[Trial, ...]
    required_pass_rate: float
    odds: Mapping[str, Any]

    @property
    def passed(self) -> int:
        """Trials that passed."""
        return sum(x.status == "pass" for x in self.trials)

    @property
    def errors(self) -> int:
        """Trials of which it cannot be told whether they passed."""
        return sum(x.status == "error" for x in self.trials)

    @property
    def n(self) -> int:
        """Trials that could have come out either way, which rates are of."""
        return sum(not x.is_open for x in self.trials)

    @property
    def reasons(self) -> list[str]:
        """What kept trials from passing, each with the numbers of those trials, from 1."""
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for number, trial in enumerate(self.trials, 1):
            for text in trial.reasons:
                numbers[text].append(number)
        named = ((text, "s" if len(x) > 1 else "", _ranges(x)) for text, x in numbers.items())
        return [f"trial{plural} {those}: {text}" for text, plural, those in named]


@dataclass(frozen=True, slots=True)
class Run:
    """A suite, run once over recorded traces. `started_at_ns` is Unix time."""

    suite: Suite
    run_id: str
    started_at_ns: int
    cases: tuple[CaseResult, ...]

    def count(self, status: str) -> int:
        """How many cases have this status."""
        return sum(x.status == status for x in self.cases)

    @property
    def case_pass_rate(self) -> float:
        """The share of the matched cases that passed, for a gate: one with an error did not."""
        matched = len(self.cases) - self.count("unmatched")
        return self.count("pass") / matched if matched else 0.0

    @property
    def cases_that_pass(self) -> Estimate | None:
        """The share of the cases that pass, among those of which it can be told; None where there
        are none.
        """
        decided = [x for x in self.cases if x.status in {"pass", "fail"} and x.n]
        if not decided:
            return None
        passed, level = [float(x.status == "pass") for x in decided], self.suite.agentic.level
        if (clusters := self.clusters_of(decided)) is not None:
            return mean(passed, level=level, clusters=clusters)
        return rate(int(sum(passed)), len(decided), level=level)

    @property
    def usage(self) -> JudgeUsage:
        """What judging cost."""
        return sum((x.usage for x in self.evaluations), JudgeUsage())

    @property
    def evaluations(self) -> list[Evaluation]:
        """All scores of all trials."""
        return [x for case in self.cases for trial in case.trials for x in trial.evaluations]

    def clusters_of(self, cases: Sequence[CaseResult]) -> list[int] | None:
        """The number of a cluster for each of `cases`, where some were recorded in one session;
        else None.

        What happens in one session is not independent.
        """
        found = connected({x.recording.session_id for x in case.trials} - {None} for case in cases)
        return None if len(set(found)) == len(found) else found

    def over_cases(self, name: str) -> tuple[Estimate, str] | None:
        """pass@k (`pass_at_k`) or pass^k (`pass_pow_k`) as the mean over cases, and by which form
        each is estimated.

        The unbiased form where every case has k trials: a mean of the other forms over cases is off
        by as much however many cases there are. Else the form of the suite's statistics. None where
        no trial can be told, or where cases have different k.
        """
        cases = [x for x in self.cases if x.odds["n"]]
        counted = [(x.odds["n"], x.odds["c"]) for x in cases]
        ks = {x.odds["k"] for x in cases}
        if len(ks) != 1:
            return None
        k, agentic = ks.pop(), self.suite.agentic
        enough = all(n >= k for n, _ in counted)
        if enough:
            agentic = replace(agentic, statistics="unbiased")
        if agentic.statistics == "unbiased" and not enough:  # some of the trials could not be told
            return None
        estimate = over_tasks(
            counted,
            k,
            estimator=lambda n, c, k: float(agentic.odds(n, c, k)[name]),
            level=agentic.level,
            clusters=self.clusters_of(cases),
        )
        return estimate, agentic.statistics

    @property
    def pass_rate(self) -> Estimate | None:
        """The share of trials that pass, as the mean over cases: trials of one case are not
        independent.
        """
        cases = [x for x in self.cases if x.n]
        if not cases:
            return None
        counts, level = [(x.n, x.passed) for x in cases], self.suite.agentic.level
        clusters = self.clusters_of(cases)
        return over_tasks(counts, 1, estimator=unbiased_pass_at_k, level=level, clusters=clusters)

    @property
    def mean_score(self) -> Estimate | None:
        """The mean of the trials' scores, 0..100."""
        numbers = self.clusters_of(self.cases) or range(len(self.cases))
        cases = zip(self.cases, numbers, strict=True)
        scored = [(number, y.score) for x, number in cases for y in x.trials if y.score is not None]
        if not scored:
            return None
        clusters, values = zip(*scored, strict=True)
        return mean(values, clusters=clusters, bounds=(0, 100), level=self.suite.agentic.level)


def result(suite: Suite, case: Case, trials: Sequence[Trial], run_id: str) -> CaseResult:
    """The result of a case; its trials' evaluations now say of which test they are, and with which
    result.
    """
    agentic = suite.agentic
    decided = [x for x in trials if not x.is_open]
    k = suite.attempts(case)
    finished = _finished(suite, trials, run_id, k)
    n, c = len(decided), sum(x.status == "pass" for x in decided)
    if agentic.unit == "interaction":
        assessed = [y for x in decided for y in x.conversation.assessed]
        n, c = len(assessed), sum(x.is_correct is True for x in assessed)
    required = suite.required_of(case)
    status, odds = _status(trials, required), agentic.odds(n, c, k)
    return CaseResult(case, status, tuple(finished), required, odds)


def unmatched(suite: Suite, case: Case) -> CaseResult:
    """The result of a case that nothing recorded matches."""
    odds = suite.agentic.odds(0, 0, suite.attempts(case))
    return CaseResult(case, "unmatched", (), suite.required_of(case), odds)


def to_json(run: Run) -> dict[str, Any]:
    """The run file: one JSON object, which `spanscore compare` reads."""
    return {
        "schema": SCHEMA,
        "suite": run.suite.name,
        "run_id": run.run_id,
        "started_at": _iso(run.started_at_ns),
        "cases": [_case_json(x, run.suite.agentic) for x in run.cases],
        "overall": _overall_json(run),
    }


def as_text(value: Any) -> str:
    """A result file's text: JSON on one line, as plain JSON types alone."""
    return dumps(value) + "\n"


def _finished(suite: Suite, trials: Sequence[Trial], run_id: str, k: int) -> list[Trial]:
    conversations = [x.conversation for x in trials]
    assessed = [x for x in conversations if x.assessed and x.obstacle is None]
    counts = len(assessed), sum(all(y.is_correct for y in x.assessed) for x in assessed)
    found = []
    for trial in trials:
        own = agentic_evaluation(trial, suite.agentic, counts, k)
        evaluations = (*((own,) if own else ()), *trial.evaluations)
        status = trial.status if trial.status in {"pass", "fail"} else None
        origin = Origin(suite.name, trial.recording.run or run_id, trial.recording.case.id, status)
        scores = tuple(replace(x, trial=origin, digest=_digest(x, status)) for x in evaluations)
        found.append(replace(trial, evaluations=scores, origin=origin))
    return found


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in short.

    >>> _ranges([1, 2, 3, 5, 7, 8])
    '1-3, 5, 7-8'
    """
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, x)) for x in parts)


_IDENTITY = ("status", "value", "label", "threshold", "reason", "metadata", "evaluator", "error")


def _digest(evaluation: Evaluation, status: str | None) -> str:
    """Of all that an evaluation says of the trial, but not of when it was made and what that
    cost.
    """
    fields = evaluation.to_json()
    identity = dumps([*(fields[x] for x in _IDENTITY), status])
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _status(trials: Sequence[Trial], required: float) -> str:
    """Pass or fail where it is so whatever came of the trials that cannot be told; else error."""
    counts = Counter(x.status for x in trials)
    if reaches(counts["pass"] / len(trials), required):
        return "pass"
    may_pass = reaches((counts["pass"] + counts["error"]) / len(trials), required)
    return "error" if may_pass else "fail"


def _case_json(result: CaseResult, agentic: Agentic) -> dict[str, Any]:
    odds = dict(result.odds)
    passing = rate(result.passed, result.n, level=agentic.level) if result.n else None
    return {
        "id": result.case.id,
        "status": result.status,
        "passed": result.passed,
        "errors": result.errors,
        "required_pass_rate": result.required_pass_rate,
        "pass_rate": passing.to_json() if passing else None,
        "unit": agentic.unit,
        **odds,
        "reading": reading(odds["pass_at_k"], odds["pass_pow_k"]),
        "reasons": result.reasons,
        "trials": [_trial_json(x) for x in result.trials],
    }


def _trial_json(trial: Trial) -> dict[str, Any]:
    recording = trial.recording
    return {
        "session_id": recording.session_id,
        "trace_ids": list(dict.fromkeys(x for trace in recording.traces for x in trace.trace_ids)),
        "user_input": recording.traces[0].user_input,
        "run_id": recording.run,
        "status": trial.status,
        "passed": None if trial.status == "error" else trial.status == "pass",
        "score": trial.score,
        "latency_s": trial.latency_s,
        "reasons": list(trial.reasons),
        "test": _origin(trial),
        "evaluations": [x.to_json() for x in trial.evaluations],
    }


def _origin(trial: Trial) -> dict[str, Any]:
    """The trial as OpenTelemetry names its facts, which its evaluation spans have too."""
    origin = trial.origin or Origin()
    return {
        "test.suite.name": origin.suite,
        "test.suite.run.id": origin.run,
        "test.case.id": origin.case,
        "test.case.result.status": origin.status,
    }


def _overall_json(run: Run) -> dict[str, Any]:
    ks = {x.odds["k"] for x in run.cases}
    odds: dict[str, Any] = {"k": ks.pop() if len(ks) == 1 else None}
    for name in ("pass_at_k", "pass_pow_k"):
        found = run.over_cases(name)
        odds[name] = None if found is None else {**found[0].to_json(), "statistics": found[1]}
    at_k, pow_k = ((odds[name] or {}).get("value") for name in ("pass_at_k", "pass_pow_k"))
    return {
        "cases": {
            "total": len(run.cases),
            **{x: run.count(x) for x in ("pass", "fail", "error", "unmatched")},
        },
        "trials": {
            "total": sum(len(x.trials) for x in run.cases),
            "passed": sum(x.passed for x in run.cases),
            "errors": sum(x.errors for x in run.cases),
        },
        "case_pass_rate": run.cases_that_pass.to_json() if run.cases_that_pass else None,
        "pass_rate": run.pass_rate.to_json() if run.pass_rate else None,
        **odds,
        "reading": reading(at_k, pow_k),
        "mean_score": run.mean_score.to_json() if run.mean_score else None,
        "usage": {name: getattr(run.usage, name) for name in JudgeUsage.__dataclass_fields__},
    }


def _iso(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(timespec="seconds")


_MAX_CHARS = 20_000
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(run: Run) -> str:
    """The document.

    It keeps to what the schemas in use have in common (Apache Ant's, Jenkins' in all its versions).

    A case that fails is a `failure`, one of which it cannot be told an `error`, one that nothing
    matches `skipped`.
    """
    root = ET.Element("testsuites")
    started = datetime.fromtimestamp(run.started_at_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    suite = ET.SubElement(
        root,
        "testsuite",
        {
            "id": "0",
            "package": "spanscore",
            "name": _clean(run.suite.name),
            "timestamp": started,
            "hostname": "localhost",
            "tests": str(len(run.cases)),
            "failures": str(run.count("fail")),
            "errors": str(run.count("error")),
            "skipped": str(run.count("unmatched")),
            "time": f"{sum(map(_time_s, run.cases)):.3f}",
        },
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in (("test.suite.name", run.suite.name), ("test.suite.run.id", run.run_id)):
        ET.SubElement(properties, "property", {"name": name, "value": _clean(value)})
    for result in run.cases:
        _add(suite, run, result)
    ET.SubElement(suite, "system-out").text = ""
    ET.SubElement(suite, "system-err").text = ""
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _add(suite: ET.Element, run: Run, result: CaseResult) -> None:
    named = {
        "classname": _clean(run.suite.name),
        "name": _clean(result.case.id),
        "time": f"{_time_s(result):.3f}",
    }
    case = ET.SubElement(suite, "testcase", named)
    if result.status == "unmatched":
        ET.SubElement(case, "skipped")
    if result.status in {"fail", "error"}:
        summary = f"{result.passed} of {len(result.trials)} trials passed"
        summary += f", {result.errors} cannot be told" if result.errors else ""
        message = f"{summary}; required is {result.required_pass_rate:.0%}"
        tag = "failure" if result.status == "fail" else "error"
        fault = ET.SubElement(case, tag, {"type": result.status, "message": message})
        fault.text = _clean("\n".join(result.reasons))


def _time_s(result: CaseResult) -> float:
    return sum(x.latency_s for x in result.trials)


def _clean(text: str) -> str:
    """`text` without what no XML document may hold, and within bounds."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text[:_MAX_CHARS])
