"""`spanscore monitors`: what its files ask for, and what it prints, against a real server."""

import json
import re

import pytest

from spanscore.cli import main

METRIC = "check.errors_recovered"
RUN = {"measure": {"metrics": [METRIC]}, "everything": True}
WATCH = {"metric": METRIC, "floor": 0.5}


@pytest.fixture
def monitors(serving, capsys):
    """`monitors(ACTION, OPTION…)`: the exit code, and what was printed."""

    def run(*words):
        code = main.main(["monitors", words[0], "--server", serving.address, *words[1:]])
        return code, capsys.readouterr()

    return run


@pytest.fixture
def told(monitors, tmp_path):
    """`told(ACTION, ID, OPTION…, field=…)`: an action by a file with these fields."""

    def tell(action, monitor, *options, **fields):
        file = tmp_path / "monitor.yaml"
        file.write_text(json.dumps({"name": monitor, **fields}))
        return monitors(action, "-f", str(file), *options)

    return tell


@pytest.fixture
def created(monitors, told):
    """`created(ID, field=…)`: a monitor as JSON; all are deleted at the end."""
    made = []

    def create(monitor, **fields):
        code, printed = told("create", monitor, "--json", **fields)
        assert code == 0, printed.err
        made.append(json.loads(printed.out))
        return made[-1]

    yield create
    for monitor in made:
        monitors("delete", monitor["name"])


WRONG = [
    ("watch: {metrik: coherence}", "watch.metrik: there is no such field; did you mean 'metric'?"),
    ("wotch: {}", "monitor.yaml: wotch: there is no such field; did you mean 'watch'?"),
    ("watch: 3", "monitor.yaml: watch: give fields, such as metric"),
    ("watch: {floor: low}", "floor"),
    ("watch", "monitor.yaml: "),
    ("watch: [", "monitor.yaml: "),
    (
        f"{{name: mine, watch: {{metric: {METRIC}}}, schedule: {{cron: 61 * * * *}}}}",
        "monitor.schedule.cron: ",
    ),
    (
        "{name: mine, watch: {metric: nonsense}}",
        "monitor.watch.metric: there is no metric 'nonsense'",
    ),
    ("name: mine", "give watch"),
]


@pytest.mark.parametrize(("text", "why"), WRONG, ids=lambda x: str(x)[:40])
def test_what_is_wrong_with_a_file_is_named(text, why, monitors, tmp_path):
    file = tmp_path / "monitor.yaml"
    file.write_text(text)
    code, printed = monitors("create", "-f", str(file))
    assert (code, why in printed.err) == (2, True), printed.err


def test_a_file_that_is_not_there_is_named(monitors):
    code, printed = monitors("create", "-f", "/nowhere")
    assert (code, "/nowhere: cannot be read" in printed.err) == (2, True)


def test_those_of_the_configuration_and_those_that_were_created_are_listed(
    monitors, created, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "200")
    created("mine", watch=WATCH)
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
    created("0123456789ab", watch=WATCH)
    created("another-one-of-these", run=RUN, schedule={"every_s": 3600})
    _, printed = monitors("list")
    lines = printed.out.splitlines()
    assert max(map(len, lines)) <= 80
    for name in ("0123456789ab", "another-one-of-these"):
        [line] = [x for x in lines if x.startswith(name)]
        assert re.search(r" \d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", line)


def test_a_monitor_is_shown_with_what_it_does(monitors, created):
    created("nightly", run=RUN, schedule={"every_s": 3600}, watch=WATCH, display_name="by night")
    _, printed = monitors("get", "nightly")
    for line in (
        "name          monitors/nightly",
        "display name  by night",
        "schedule      every s 3600,",
        f"watch         metric {METRIC}, scope trace, ",
        "  overlap       skip",
        "next tick     2",
    ):
        assert line in printed.out


def test_an_update_of_the_tolerance_keeps_the_number_of_first_sessions(told, created):
    created("mine", watch={"metric": METRIC, "reference": {"sessions": 50, "tolerance": 0.1}})
    _, printed = told("apply", "mine", "--json", watch={"reference": {"tolerance": 0.05}})
    assert json.loads(printed.out)["watch"]["reference"] == {"sessions": 50, "tolerance": 0.05}


def test_an_update_changes_what_its_file_names_and_clears_what_is_null(told, created):
    created("mine", watch={**WATCH, "agent": "planner"}, schedule={"every_s": 3600})
    watch = {"reference": {"sessions": 50}, "agent": None}
    _, printed = told("apply", "mine", "--json", watch=watch, schedule={"cron": "0 3 * * *"})
    found = json.loads(printed.out)
    assert found["watch"]["reference"]["sessions"] == 50
    assert found["schedule"]["cron"] == "0 3 * * *"
    assert {"floor", "agent"}.isdisjoint(found["watch"])
    assert "every_s" not in found["schedule"]


def test_what_get_prints_can_be_edited_and_given_back(told, created, monitors):
    created("mine", watch={**WATCH, "labels": {"severity": "page"}}, run=RUN)
    found = json.loads(monitors("get", "mine", "--json")[1].out)
    found["watch"]["floor"] = 0.7
    code, printed = told("apply", "mine", "--json", **found)
    assert code == 0, printed.err
    changed = json.loads(printed.out)
    assert (changed["watch"], changed["run"]) == (found["watch"], found["run"])


def test_what_is_applied_is_created_where_it_is_not_there(told, created, monitors):
    created("other", watch=WATCH)
    _, printed = told("apply", "other", "--json", watch={"floor": 0.7})
    assert json.loads(printed.out)["watch"]["metric"] == METRIC
    code, printed = told("apply", "mine", "--json", watch=WATCH)
    assert (code, json.loads(printed.out)["name"]) == (0, "monitors/mine"), printed.err
    assert monitors("delete", "mine")[0] == 0


def test_a_file_without_the_name_of_its_monitor_is_refused(monitors, tmp_path):
    file = tmp_path / "monitor.yaml"
    file.write_text(json.dumps({"watch": WATCH}))
    code, printed = monitors("create", "-f", str(file))
    assert (code, "name: is missing; give the monitor's id" in printed.err) == (2, True)


def test_an_update_of_an_old_etag_is_refused(told, created):
    etag = created("mine", watch=WATCH)["etag"]
    assert told("apply", "mine", watch={"floor": 0.6}, etag=etag)[0] == 0
    code, printed = told("apply", "mine", watch={"floor": 0.7}, etag=etag)
    assert (code, "was changed since" in printed.err) == (2, True)


def test_an_update_that_names_nothing_is_refused(told, created):
    created("mine", watch=WATCH)
    code, printed = told("apply", "mine")
    assert (code, "give what is to change" in printed.err) == (2, True)


def test_a_monitor_is_paused_resumed_and_triggered(monitors, created, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    created("mine", run=RUN, schedule={"every_s": 86400})
    assert "state         paused" in monitors("pause", "mine")[1].out
    assert "run           runs/" in monitors("trigger", "mine")[1].out
    assert "state         active" in monitors("resume", "mine")[1].out
    _, printed = monitors("history", "mine")
    assert "manual" in printed.out
    assert len(monitors("history", "mine", "--json")[1].out.splitlines()) == 1


def test_what_is_not_there_is_named(monitors):
    code, printed = monitors("get", "nothing")
    assert (code, "there is no monitor 'nothing'" in printed.err) == (2, True)


def test_those_of_the_configuration_are_not_changed_here(told):
    code, printed = told("apply", "configured", watch={"floor": 0.1})
    assert (code, "configuration file" in printed.err) == (2, True)
