"""Runs one test several times, with fixtures made anew each time, and reports one verdict on all of
its trials.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from _pytest.runner import runtestprotocol

from spanscore.errors import InputError
from spanscore.sdk.pytest_plugin.recording import reason_of
from spanscore.sdk.pytest_plugin.results import Gathered, Trial, Verdict

FAULT = pytest.StashKey[str]()
"""What is wrong with a test's marker."""

_OPTIONS = ("trials", "k", "required_pass_rate")
_MAX_TRIALS = 1_000


@dataclass(frozen=True, slots=True)
class Plan:
    """How often a test is run, of how many attempts pass^k is, and which share of the trials must
    pass.
    """

    trials: int
    k: int
    required_pass_rate: float

    @classmethod
    def of(cls, marker: pytest.Mark, trials: int | None) -> "Plan":
        """What a marker says; `trials` in place of its own.

        Raises InputError where it cannot be used.
        """
        unknown = [x for x in marker.kwargs if x not in _OPTIONS]
        if marker.args or unknown:
            what = f"unknown option {unknown[0]!r}" if unknown else "options are given by name"
            raise InputError(f"@pytest.mark.spanscore: {what}; there are {', '.join(_OPTIONS)}")
        wanted = marker.kwargs.get("trials", 1)
        count = wanted if trials is None or wanted == 1 else trials
        k = marker.kwargs.get("k") or count
        required = marker.kwargs.get("required_pass_rate", 1.0)
        for name, number in (("trials", count), ("k", k)):
            if (
                isinstance(number, bool)
                or not isinstance(number, int)
                or not 1 <= number <= _MAX_TRIALS
            ):
                raise InputError(
                    f"@pytest.mark.spanscore: {name}={number!r}; give a number from 1 to"
                    f" {_MAX_TRIALS}"
                )
        if (
            isinstance(required, bool)
            or not isinstance(required, int | float)
            or not 0 < required <= 1
        ):
            raise InputError(
                f"@pytest.mark.spanscore: required_pass_rate={required!r}; give a share above 0, up"
                " to 1"
            )
        return cls(count, k, float(required))


def run(item: pytest.Item, nextitem: pytest.Item | None, marker: pytest.Mark) -> bool | None:
    """Run a marked test; None where it is to be run as any other, since it has one trial or its
    marker is wrong.
    """
    try:
        plan = Plan.of(marker, item.config.getoption("--spanscore-trials"))
    except InputError as error:
        item.stash[FAULT] = str(error)
        return None
    if plan.trials == 1:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    properties = list(item.user_properties)
    trials: list[_Run] = []
    for number in range(plan.trials):
        is_last = number == plan.trials - 1
        _make_anew(item, properties)
        trials.append(
            _Run(
                runtestprotocol(item, log=False, nextitem=nextitem if is_last else copy.copy(item))
            )
        )
        if item.session.shouldstop:
            break
    for report in _reports(plan, trials, properties):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@dataclass(frozen=True, slots=True)
class _Run:
    """The reports of one trial: of its setup, its call where it came to that, and its teardown."""

    reports: Sequence[pytest.TestReport]

    @property
    def status(self) -> str:
        """pass, fail, skipped, or error: the outcome is not known."""
        if any(x.failed for x in self.reports if x.when != "call"):
            return "error"
        if any(hasattr(x, "wasxfail") for x in self.reports):
            return "fail" if any(x.skipped for x in self.reports) else "pass"
        if any(x.skipped for x in self.reports):
            return "skipped"
        if (recorded := self._recorded) is not None:
            return recorded.status
        return "fail" if any(x.failed for x in self.reports) else "pass"

    @property
    def trial(self) -> Trial:
        """How it came out, with what it recorded."""
        reason = next((x for x in map(reason_of, self.reports) if x), None)
        recorded = self._recorded
        duration_s = sum(x.duration for x in self.reports if x.when == "call")
        return Trial(self.status, reason, duration_s, recorded.gathered if recorded else Gathered())

    @property
    def _recorded(self) -> Trial | None:
        text = next((x.spanscore for x in self.reports if hasattr(x, "spanscore")), None)
        return Verdict.from_text(text).trials[0] if text else None

    def of(self, when: str) -> pytest.TestReport | None:
        """The report of one phase."""
        return next((x for x in self.reports if x.when == when), None)


def _make_anew(item: pytest.Item, properties: Sequence[tuple[str, object]]) -> None:
    """Take from a test what an earlier trial left on it, so that it runs as if for the first
    time.
    """
    item.user_properties = list(properties)
    if hasattr(item, "_report_sections"):
        item._report_sections = []  # noqa: SLF001 - else each trial's output would be shown with the next one's too
    if (
        isinstance(item, pytest.Function)
        and isinstance(item.parent, pytest.Class)
        and "_obj" in vars(item)
    ):
        vars(item).pop("_instance", None)
        vars(item).pop("_obj", None)


def _reports(
    plan: Plan, trials: Sequence[_Run], properties: Sequence[tuple[str, object]]
) -> list[pytest.TestReport]:
    """The reports of one trial that stands for all, with the verdict on all of them."""
    verdict = Verdict.of([x.trial for x in trials], k=plan.k, required=plan.required_pass_rate)
    shown = _shown(verdict, trials)
    broken = next(
        (x.of("teardown") for x in trials if (end := x.of("teardown")) and end.failed), None
    )
    setup, call, teardown = (shown.of(x) for x in ("setup", "call", "teardown"))
    found = [x for x in (setup, call, broken or teardown) if x is not None]
    combined = call or found[0]
    combined.duration = sum(
        x.duration for y in trials for x in y.reports if x.when == combined.when
    )
    combined.sections.append(("spanscore trials", verdict.in_words()))
    if verdict.status != "pass":
        _explain(combined, verdict)
    combined.spanscore = verdict.to_text()  # type: ignore[attr-defined] # travels with the report
    for report in found:
        report.user_properties = [*properties, *verdict.properties()]
    return found


def _shown(verdict: Verdict, trials: Sequence[_Run]) -> _Run:
    """The trial whose reports stand for all: the first that came out as the verdict says, else the
    first bad one.
    """
    as_verdict = [x for x in trials if x.status == verdict.status]
    return as_verdict[0] if as_verdict else next(x for x in trials if x.status != "pass")


def _explain(report: pytest.TestReport, verdict: Verdict) -> None:
    """Put the verdict before what the shown trial says of itself."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        crash.message = f"{verdict.in_short}; {crash.message}"
