"""The pytest plugin.

Every pytest run of whoever has installed spanscore loads this file. It imports nothing but pytest;
the rest is imported when the first test asks for it.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from spanscore.judge import Judge
    from spanscore.sdk.pytest_plugin.recorder import Recorder

MARKER = (
    "spanscore(trials=1, k=None, required_pass_rate=1.0): run the test `trials` times and give one"
    " verdict, whether the required share of them passes, with pass^k, the chance that k attempts"
    " all pass"
)
MODES = ("replay", "none", "once", "new", "all")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options, and what may stand in the configuration in their place."""
    group = parser.getgroup("spanscore", "scores of agents (spanscore)")
    group.addoption(
        "--spanscore-judge",
        metavar="MODEL",
        help="the model that judges, such as openai/gpt-4o-mini",
    )
    group.addoption("--spanscore-config", metavar="FILE", help="spanscore's configuration file")
    group.addoption(
        "--spanscore-record",
        metavar="MODE",
        choices=MODES,
        help=(
            "where a judge's answers come from. replay (default): recorded ones, else the judge;"
            " nothing is written. none: recorded ones alone. once: the judge, for tests that have"
            " none recorded. new: the judge, for questions that have none. all: the judge; recorded"
            " ones are replaced"
        ),
    )
    group.addoption(
        "--spanscore-trials",
        metavar="N",
        type=int,
        help="run tests with trials N times, not as marked",
    )
    group.addoption(
        "--spanscore-report",
        metavar="FILE",
        help="write each test's turns and scores as an HTML page",
    )
    parser.addini(
        "spanscore_judge", "the model that judges, where --spanscore-judge does not name one"
    )
    parser.addini(
        "spanscore_config", "spanscore's configuration file, where --spanscore-config names none"
    )
    parser.addini("spanscore_record", "what --spanscore-record is where it is not given")
    parser.addini(
        "spanscore_cassettes",
        "the folder beside a test's file with recorded answers",
        default="cassettes",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker; watch the reports, unless this is one of several processes that another
    one watches.
    """
    config.addinivalue_line("markers", MARKER)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Reporting(config), "spanscore-reporting")


@pytest.fixture(scope="session")
def spanscore_judge() -> "Judge | str | None":
    """Who judges: override it to give a model's name, or a judge of your own, such as a fake."""
    return None


@pytest.fixture(name="spanscore")
def _spanscore(
    request: pytest.FixtureRequest, spanscore_judge: "Judge | str | None"
) -> Generator["Recorder", None, None]:
    """The turns of the agent that this test runs, and what they are expected to score."""
    from spanscore.sdk.pytest_plugin import items  # noqa: PLC0415 - see this module

    with items.recording(request.node, spanscore_judge) as recorder:
        yield recorder


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test that is marked with trials; every other one is run as ever."""
    marker = item.get_closest_marker("spanscore")
    if marker is None:
        return None
    from spanscore.sdk.pytest_plugin import items  # noqa: PLC0415 - see this module

    return items.run(item, nextitem, marker)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test whose marker cannot be used."""
    if item.get_closest_marker("spanscore") is None:
        return
    from spanscore.sdk.pytest_plugin import items  # noqa: PLC0415 - see this module

    if fault := item.stash.get(items.FAULT, None):
        pytest.fail(fault, pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, Any, None]:
    """Put what a test recorded on its report."""
    if "spanscore" not in getattr(item, "fixturenames", ()):
        yield
        return
    from spanscore.sdk.pytest_plugin import items  # noqa: PLC0415 - see this module

    items.finished(item, call)
    outcome = yield
    items.attach(item, call, outcome.get_result())


class _Reporting:
    """Gathers what tests recorded, in the process that reports on all of them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in what a test recorded, also one that another process ran."""
        if hasattr(report, "spanscore"):
            from spanscore.sdk.pytest_plugin import results  # noqa: PLC0415 - see this module

            results.gather(self._config, report)
            self._has_any = True

    _has_any = False

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Show the scores, and write the report."""
        if self._has_any or self._config.getoption("--spanscore-report"):
            from spanscore.sdk.pytest_plugin import results  # noqa: PLC0415 - see this module

            results.summarise(self._config, terminalreporter)
