"""`spanscore monitors`: what its options ask for, and what it prints, against the services of a
real server.
"""

import json
import re

import pytest

from spanscore.cli import main
from spanscore.cli import monitors as monitor_options
from spanscore.cli.main import _parser

METRIC = "check.errors_recovered"
RUN = ("--run", "--metric", METRIC, "--everything")


@pytest.fixture
def monitors(serving, capsys):
    """`monitors(ACTION, OPTION…)`: the exit code, and what was printed."""

    def run(*words):
        code = main.main(["monitors", words[0], "--server", serving.address, *words[1:]])
        return code, capsys.readouterr()

    return run


@pytest.fixture
def created(monitors):
    """`created(OPTION…)`: a monitor as JSON; all are deleted at the end."""
    made = []

    def create(*options):
        code, printed = monitors("create", *options, "--json")
        assert code == 0, printed.err
        made.append(json.loads(printed.out))
        return made[-1]

    yield create
    for monitor in made:
        monitors("delete", monitor["name"])


def asked(*words):
    return monitor_options.wanted(_parser(["monitors"]).parse_args(["monitors", "create", *words]))


def test_options_are_the_monitor_that_is_asked_for():
    words = [
        "--watch",
        "coherence",
        "--reference",
        "50",
        "--tolerance",
        "0.1",
        "--label",
        "severity=page",
        "--cron",
    ]
    found = asked(*words, "0 3 * * *", "--time-zone", "Europe/Berlin", "--no-catch-up")
    assert (found.watch.metric, found.watch.reference.sessions, found.watch.labels["severity"]) == (
        "coherence",
        50,
        "page",
    )
    assert (found.schedule.cron, found.schedule.time_zone, found.schedule.catch_up) == (
        "0 3 * * *",
        "Europe/Berlin",
        False,
    )
    assert not found.HasField("run")


def test_options_of_runs_are_those_of_the_runs_it_starts():
    found = asked(
        "--run",
        "--service",
        "shop",
        "--count",
        "9",
        "--max-usd",
        "2",
        "--look-back",
        "1d",
        "--overlap",
        "queue",
    )
    assert (found.run.target.filter.service, found.run.target.sampling.count) == ("shop", 9)
    assert (found.run.budget.max_usd, found.run.look_back_s, found.run.overlap) == (2.0, 86400.0, 2)
    assert not found.HasField("watch")


WRONG = [
    (["--every", "5"], "--every 5: '5' is no duration"),
    (["--service", "shop"], "no --run"),
    (["--label", "page", "--watch", METRIC], "--label page: write NAME=VALUE"),
    (["--watch", METRIC, "--cron", "61 * * * *"], "monitor.schedule.cron: cron '61 * * * *'"),
    (["--watch", "nonsense"], "monitor.watch.metric: there is no metric 'nonsense'"),
    ([], "give watch"),
]


@pytest.mark.parametrize(("words", "why"), WRONG, ids=lambda x: str(x)[:40])
def test_an_option_that_is_wrong_is_named(words, why, monitors):
    code, printed = monitors("create", *words)
    assert (code, why in printed.err) == (2, True), printed.err


def test_those_of_the_configuration_and_those_that_were_created_are_listed(
    monitors, created, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "200")
    created("mine", "--watch", METRIC, "--floor", "0.5")
    _, printed = monitors("list")
    assert [line.split()[0] for line in printed.out.splitlines()] == [
        "monitor",
        "configured",
        "mine",
    ]


def test_a_list_on_a_narrow_terminal_has_the_whole_id_and_next_tick_of_each_monitor(
    monitors, created, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "80")
    created("0123456789ab", "--watch", METRIC, "--floor", "0.5")
    created("another-one-of-these", *RUN, "--every", "1h")
    _, printed = monitors("list")
    lines = printed.out.splitlines()
    assert max(map(len, lines)) <= 80
    for name in ("0123456789ab", "another-one-of-these"):
        [line] = [x for x in lines if x.startswith(name)]
        assert re.search(r" \d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", line)


def test_a_monitor_is_shown_with_what_it_does(monitors, created):
    created(
        "nightly", *RUN, "--every", "1h", "--watch", METRIC, "--floor", "0.5", "--name", "by night"
    )
    _, printed = monitors("get", "nightly")
    for line in (
        "monitor nightly  by night",
        "ticks      every 3600 s, next",
        f"watches    {METRIC}, 0 sessions, 0 alerts",
        "runs       over all of the target; skip while one is going",
    ):
        assert line in printed.out


def test_an_update_of_the_tolerance_keeps_the_number_of_first_sessions(monitors, created):
    created("mine", "--watch", METRIC, "--reference", "50", "--tolerance", "0.1")
    _, printed = monitors("update", "mine", "--tolerance", "0.05", "--json")
    assert json.loads(printed.out)["watch"]["reference"] == {"sessions": 50, "tolerance": 0.05}


def test_an_update_changes_what_its_options_name(monitors, created):
    created(
        "mine", "--watch", METRIC, "--floor", "0.5", "--every", "1h", "--watch-agent", "planner"
    )
    options = ("--reference", "50", "--cron", "0 3 * * *", "--clear", "watch.agent", "--json")
    _, printed = monitors("update", "mine", *options)
    found = json.loads(printed.out)
    assert found["watch"]["reference"]["sessions"] == 50
    assert found["schedule"]["cron"] == "0 3 * * *"
    assert {"floor", "agent"}.isdisjoint(found["watch"])
    assert "every_s" not in found["schedule"]


def test_an_update_of_an_old_etag_is_refused(monitors, created):
    etag = created("mine", "--watch", METRIC, "--floor", "0.5")["etag"]
    assert monitors("update", "mine", "--floor", "0.6", "--etag", etag)[0] == 0
    code, printed = monitors("update", "mine", "--floor", "0.7", "--etag", etag)
    assert (code, "was changed since" in printed.err) == (2, True)


def test_a_monitor_is_paused_resumed_and_triggered(monitors, created, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    created("mine", *RUN, "--every", "1d")
    assert "state      paused" in monitors("pause", "mine")[1].out
    assert "run " in monitors("trigger", "mine")[1].out
    assert "state      new" in monitors("resume", "mine")[1].out
    _, printed = monitors("history", "mine")
    assert "manual" in printed.out
    assert len(monitors("history", "mine", "--json")[1].out.splitlines()) == 1


def test_what_is_not_there_is_named(monitors):
    code, printed = monitors("get", "nothing")
    assert (code, "there is no monitor 'nothing'" in printed.err) == (2, True)


def test_those_of_the_configuration_are_not_changed_here(monitors):
    code, printed = monitors("update", "configured", "--floor", "0.1")
    assert (code, "configuration file" in printed.err) == (2, True)
