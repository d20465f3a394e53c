"""From pytest's items and options to what the fixture needs, and from there to pytest's reports."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast, get_args

import pytest

from spanscore import config as configuration
from spanscore.config import Settings
from spanscore.errors import InputError
from spanscore.judge import Judge
from spanscore.sdk.cassettes import Cassette, Mode
from spanscore.sdk.providers import attached
from spanscore.sdk.pytest_plugin.expecting import NotScoredError
from spanscore.sdk.pytest_plugin.recorder import Recorder
from spanscore.sdk.pytest_plugin.results import Gathered, Trial, Verdict
from spanscore.sdk.pytest_plugin.scoring import Scoring

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
        report.spanscore = Verdict(
            "error", [Trial("error", reason_of(report), call.duration)]
        ).to_text()
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
    mode = cast(
        "Mode",
        config.getoption("--spanscore-record") or config.getini("spanscore_record") or "replay",
    )
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
