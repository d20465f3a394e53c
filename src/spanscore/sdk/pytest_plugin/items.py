"""Trials of pytest's items, and their reports."""

import copy
import hashlib
import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

import pytest
from _pytest.runner import runtestprotocol

from spanscore import config as configuration
from spanscore.config import Settings
from spanscore.errors import InputError
from spanscore.judge import Judge
from spanscore.sdk.captures import attached
from spanscore.sdk.cassettes import Cassette, Mode
from spanscore.sdk.pytest_plugin.recorder import NotScoredError, Recorder, Scoring
from spanscore.sdk.pytest_plugin.results import Gathered, Trial, Verdict

_MAX_NAME_CHARS = 100
_UNUSUAL = re.compile(r"[^A-Za-z0-9_.,=+-]+")

_STATUS = {"passed": "pass", "failed": "fail", "skipped": "skipped"}

_RECORDER = pytest.StashKey[Recorder]()
_GATHERED = pytest.StashKey[Gathered]()
_CASSETTE = pytest.StashKey[Cassette]()
_SCORINGS = pytest.StashKey[dict[str | None, Scoring]]()


@contextmanager
def recording(item: pytest.Item, judge: Judge | str | None) -> Iterator[Recorder]:
    """Record what is emitted within the block, for the test that `item` is."""
    with _usable():
        scoring = _scoring(item.config, judge)
        cassette = _cassette(item, scoring.mode)
    providers = attached()
    providers.require_providers()
    with providers.captures.running() as capture:
        recorder = item.stash[_RECORDER] = Recorder(capture, scoring, cassette)
        try:
            yield recorder
        finally:
            cassette.save()
            if judge is not None and not isinstance(judge, str):
                scoring.close()


def _cassette(item: pytest.Item, mode: Mode) -> Cassette:
    """The recorded answers for a test, which all of its trials share."""
    if _CASSETTE not in item.stash:
        item.stash[_CASSETTE] = Cassette.load(cassette_path(item), mode)
    return item.stash[_CASSETTE]


def cassette_path(item: pytest.Item) -> Path:
    """The file with the recorded answers for a test: beside its own file, by its name."""
    name = item.nodeid.partition("::")[2].replace("::", ".")
    plain = _UNUSUAL.sub("-", name).strip("-.")
    if plain != name or len(plain) > _MAX_NAME_CHARS:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        plain = f"{plain[:_MAX_NAME_CHARS]}-{digest}"
    folder = str(item.config.getini("spanscore_cassettes"))
    return item.path.parent / folder / item.path.stem / f"{plain}.json"


def finished(item: pytest.Item, call: pytest.CallInfo[Any]) -> None:
    """A test has run: gather what it recorded, and add its scores to its properties, which JUnit
    files contain.
    """
    recorder = item.stash.get(_RECORDER, None)
    if call.when != "call" or recorder is None:
        return
    is_unknown = call.excinfo is not None and call.excinfo.errisinstance(NotScoredError)
    gathered = item.stash[_GATHERED] = recorder.gathered(is_unknown=is_unknown)
    item.user_properties += gathered.properties()


def attach(item: pytest.Item, call: pytest.CallInfo[Any], report: Any) -> None:
    """Put on a test's report what it recorded, as text that reaches the process which gathers the
    reports.
    """
    if call.when == "setup" and report.failed:
        broken = Trial("error", reason_of(report), call.duration)
        report.spanscore = Verdict("error", [broken]).to_text()
    elif call.when == "call" and (gathered := item.stash.get(_GATHERED, None)) is not None:
        status = "error" if gathered.is_unknown else _STATUS[report.outcome]
        trial = Trial(status, reason_of(report), call.duration, gathered)
        report.spanscore = Verdict(status, [trial]).to_text()


def reason_of(report: pytest.TestReport) -> str | None:
    """Why a test did not pass, as its report says in short."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message)
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2]
    return str(report.longrepr) if report.longrepr is not None else None


def _scoring(config: pytest.Config, judge: Judge | str | None) -> Scoring:
    """What scores: one for all tests of a run, or one for the tests that bring a judge of their
    own.
    """
    asked = config.getoption("--spanscore-record") or config.getini("spanscore_record")
    mode = cast("Mode", asked or "replay")
    if mode not in get_args(Mode):
        raise InputError(f"spanscore_record = {mode}: give one of {', '.join(get_args(Mode))}")
    named = judge if isinstance(judge, str) else None
    if judge is not None and named is None:
        return Scoring(_settings(config, None), mode, cast("Judge", judge))
    scorings = config.stash.setdefault(_SCORINGS, {})
    if named not in scorings:
        scorings[named] = scoring = Scoring(_settings(config, named), mode)
        config.add_cleanup(scoring.close)
    return scorings[named]


def _settings(config: pytest.Config, judge: str | None) -> Settings:
    """The configuration that the options name, with the model that is to judge.

    Raises ConfigError.
    """
    path = config.getoption("--spanscore-config") or config.getini("spanscore_config")
    settings = configuration.load(config.rootpath / path) if path else configuration.default()
    model = config.getoption("--spanscore-judge") or judge or config.getini("spanscore_judge")
    changed = settings.judge.model_copy(update={"model": model} if model else {})
    return settings.model_copy(update={"judge": changed})


@contextmanager
def _usable() -> Iterator[None]:
    """Tell of what cannot be used as pytest tells of its own options."""
    try:
        yield
    except InputError as error:
        raise pytest.UsageError(str(error)) from None


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
            if type(number) is not int or not 1 <= number <= _MAX_TRIALS:
                raise InputError(
                    f"@pytest.mark.spanscore: {name}={number!r}; give a number from 1 to"
                    f" {_MAX_TRIALS}"
                )
        if type(required) not in {int, float} or not 0 < required <= 1:
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
        after = nextitem if is_last else copy.copy(item)
        trials.append(_Run(runtestprotocol(item, log=False, nextitem=after)))
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
    is_method = isinstance(item, pytest.Function) and isinstance(item.parent, pytest.Class)
    if is_method and "_obj" in vars(item):
        vars(item).pop("_instance", None)
        vars(item).pop("_obj", None)


def _reports(
    plan: Plan, trials: Sequence[_Run], properties: Sequence[tuple[str, object]]
) -> list[pytest.TestReport]:
    """The reports of one trial that stands for all, with the verdict on all of them."""
    verdict = Verdict.of([x.trial for x in trials], k=plan.k, required=plan.required_pass_rate)
    shown = _shown(verdict, trials)
    ends = (x.of("teardown") for x in trials)
    broken = next((x for x in ends if x and x.failed), None)
    setup, call, teardown = (shown.of(x) for x in ("setup", "call", "teardown"))
    found = [x for x in (setup, call, broken or teardown) if x is not None]
    combined = call or found[0]
    every = itertools.chain.from_iterable(x.reports for x in trials)
    combined.duration = sum(x.duration for x in every if x.when == combined.when)
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
