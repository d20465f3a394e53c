"""`spanscore scores create|import|update|delete|queue|agreement`, against a real server."""

import argparse
import json
from pathlib import Path

import pytest

from spanscore.cli import main, scores

_PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
_SECTION = _PAGE.split("\n## ")[0] + _PAGE.split("\n## scores\n")[1].split("\n## ")[0]
TRACE = "ab" * 16


@pytest.fixture
def act(serving, capsys):
    """`act(ACTION, OPTION…)`: the exit code, and what was printed."""

    def run(action, *words):
        code = main.main(["scores", action, "--server", serving.address, *words])
        return code, capsys.readouterr()

    return run


@pytest.fixture
def create(act):
    """`create(OPTION…)`: a score as JSON; all are deleted at the end."""
    made = []

    def run(*words):
        code, printed = act("create", "--trace", TRACE, "--metric", "helpful", *words, "--json")
        assert code == 0, printed.err
        made.append(json.loads(printed.out))
        return made[-1]

    yield run
    for score in made:
        act("delete", score["name"])


@pytest.fixture
def given_file(tmp_path):
    """`given_file(text, name)`: a file with this text."""

    def write(text, name="scores.csv"):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def test_a_score_is_created_with_what_the_options_say(create):
    found = create("--value", "4", "--author", "ada", "--reason", "quick")
    assert (found["value"], found["reason"]) == (4.0, "quick")
    assert found["evaluator"]["source"] == "human"
    assert found["evaluator"]["author"] == "ada"


def test_that_a_trace_is_not_stored_is_said(act):
    _, printed = act("create", "--trace", TRACE, "--metric", "helpful", "--label", "pass")
    assert "what it is of is not stored (yet)" in printed.out
    act("delete", printed.out.split()[0])


def test_what_is_wrong_is_said_in_one_line(act):
    code, printed = act("create", "--trace", "7", "--metric", "helpful", "--label", "pass")
    assert code == 2
    assert "score.trace_id: '7' is no id" in printed.err


def test_a_score_is_changed(act, create):
    name = create("--label", "pass")["name"]
    code, printed = act("update", name.removeprefix("scores/"), "--label", "fail", "--json")
    assert (code, json.loads(printed.out)["label"]) == (0, "fail")


def test_a_change_of_nothing_is_refused(act):
    code, printed = act("update", "abc")
    assert (code, "give what is to be changed" in printed.err) == (2, True)


def test_what_is_not_there_cannot_be_deleted(act):
    code, printed = act("delete", "abc")
    assert (code, "there is no score 'abc'" in printed.err) == (2, True)


def test_a_file_is_imported_once(act, given_file):
    file = given_file(
        f"trace_id,metric,label,annotator,comment\n{TRACE},imported,pass,ada,well\n{TRACE},imported,fail,bob,\n"
    )
    _, first = act("import", file, "--json")
    _, again = act("import", file, "--json")
    assert json.loads(first.out) == {"lines": 2, "created": 2, "already_there": 0}
    assert json.loads(again.out) == {"lines": 2, "created": 0, "already_there": 2}


def test_a_file_that_has_grown_is_imported_as_far_as_it_is_new(act, given_file):
    line = json.dumps({"trace_id": TRACE, "metric": "grown", "value": 0.5, "author": "ada"})
    act("import", given_file(line, "a.jsonl"))
    more = json.dumps({"session_id": "s", "metric": "grown", "label": "pass", "metadata": {"a": 1}})
    _, printed = act("import", given_file(f"{more}\n{line}\n", "b.jsonl"))
    assert printed.out == "1 scores were created, 1 were there already\n"


def test_all_lines_that_are_wrong_are_named_and_nothing_is_imported(act, given_file):
    rows = [f"{TRACE},bad,pass", "7,bad,pass", f"{TRACE},,pass", f"{TRACE},coherence,purple"]
    file = given_file("trace_id,metric,label\n" + "\n".join(rows) + "\n")
    code, printed = act("import", file)
    assert code == 2
    lines = printed.err.splitlines()
    assert [x.partition(f"{file}:")[2].partition(":")[0] for x in lines[:3]] == ["3", "4", "5"]
    assert lines[-1].endswith("nothing was imported")
    _, again = act("import", given_file(f"trace_id,metric,label\n{rows[0]}\n", "one.csv"), "--json")
    assert json.loads(again.out)["created"] == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("trace_id,metric,label,color\nx,y,z,red\n", "there is no column 'color'"),
        (f"trace_id,metric,value\n{TRACE},m,many\n", "'many' is no number"),
        (f"trace_id,metric,value,time\n{TRACE},m,1,noon\n", "'noon' is no time"),
        (f"trace_id,metric,value,score\n{TRACE},m,1,2\n", "value is given twice"),
        ("trace_id,metric,label\n", "a heading and no score"),
        ("", "is empty"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(act, given_file, text, problem):
    code, printed = act("import", given_file(text))
    assert (code, problem in printed.err) == (2, True)


def test_a_file_may_only_be_checked(act, given_file):
    _, printed = act(
        "import", given_file(f"trace_id,metric,label\n{TRACE},dry,pass\n"), "--dry-run"
    )
    assert printed.out == "1 scores can be imported; nothing was sent\n"


def test_a_dry_run_of_an_import_prints_json_where_it_is_asked_for(act, given_file):
    file = given_file(f"trace_id,metric,label\n{TRACE},dry,pass\n")
    _, printed = act("import", file, "--dry-run", "--json")
    assert json.loads(printed.out) == {"lines": 1, "created": 0, "already_there": 0}


def test_keys_of_json_are_written_as_those_of_all_commands(act, create):
    score = create("--value", "0.5")
    code, printed = act("agreement", "--metric", "helpful", "--label", "helpful", "--json")
    agreement = json.loads(printed.out)
    assert (code, score["trace_id"]) == (0, TRACE)
    assert {key for x in (score, agreement) for key in x if key != key.lower()} == set()


def test_an_empty_queue_says_so(act):
    code, printed = act("queue", "--metric", "nothing", "--author", "ada")
    assert (code, printed.out) == (0, "nothing is to be labelled\n")


def test_agreement_without_labels_says_so(act):
    code, printed = act("agreement", "--metric", "nothing")
    assert (code, printed.out) == (0, "no labels of what nothing has scored\n")


@pytest.mark.parametrize("action", scores.ACTIONS)
def test_an_action_is_documented_with_all_its_options(action):
    parser = argparse.ArgumentParser(add_help=False)
    scores.ACTIONS[action].add_arguments(parser)
    words = [word for x in parser._actions for word in (*x.option_strings, x.metavar)]
    assert [word for word in (action, *words) if word and word not in _SECTION] == []
