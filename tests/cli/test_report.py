"""`spanscore report`: what it takes, and what it writes."""

import json
import os
import signal
import stat

import pytest
from report_turns import Opened

from spanscore import metrics
from spanscore.cli import demo, main
from spanscore.cli.demo import recorded_judge

_RECORDINGS = str(demo.recordings() / "pydantic-ai")


@pytest.fixture
def report(tmp_path, monkeypatch):
    """Runs the command in an empty folder, with recorded answers as the judge; gives what was
    written.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "judge.yaml").write_text(json.dumps({"judge": recorded_judge()}))

    def report(*words):
        assert main.main(["report", "-c", "judge.yaml", *map(str, words)]) == 0
        return Opened((tmp_path / "report.html").read_bytes())

    return report


@pytest.fixture
def scores(tmp_path, capsys):
    """A file of scores, as `eval --jsonl` prints them."""
    config = tmp_path / "eval.yaml"
    config.write_text(json.dumps({"judge": recorded_judge()}))
    main.main(["eval", _RECORDINGS, "-c", str(config), "--jsonl"])
    path = tmp_path / "scores.jsonl"
    path.write_text(capsys.readouterr().out)
    return path


@pytest.fixture
def run(tmp_path):
    """The file of a run of a suite."""
    suite = tmp_path / "suite.yaml"
    case = {
        "id": "move",
        "input": "Move the booking to 20:00.",
        "expected_tools": [{"tool_name": "restaurant_booking"}],
    }
    suite.write_text(json.dumps({"name": "travel", "cases": [case]}))
    main.main(["test", str(suite), _RECORDINGS, "--output", str(tmp_path / "run.json")])
    return tmp_path / "run.json"


def test_traces_without_scores_are_scored(report, capsys):
    found = report(_RECORDINGS)
    assert [x["state"] for x in found.index["turns"]] == ["fail", "pass", "pass", "pass"]
    assert "scored now" in capsys.readouterr().err


def test_scores_that_are_given_are_not_made_again(report, scores, capsys):
    found = report(_RECORDINGS, scores)
    assert (len(found.index["turns"]), "scored now" in capsys.readouterr().err) == (4, False)


def test_scores_alone_make_a_report(report, scores):
    assert {x["state"] for x in report(scores).index["turns"]} == {"fail", "pass"}


def test_a_run_of_a_suite_has_its_tests_with_their_intervals(report, run):
    found = report(run)
    [case] = found.index["cases"]
    figure = case["figures"][0]["estimate"]
    assert (case["name"], case["status"], figure["value"]) == ("move", "pass", 1.0)
    assert 0 < figure["low"] < 1


def test_the_tests_of_a_run_lead_to_the_steps_of_its_recordings(report, run):
    found = report(run, _RECORDINGS)
    [trial] = found.detail(found.index["cases"][0])["trials"]
    [place] = trial["turns"]
    assert [
        x["name"] for x in found.detail(found.index["turns"][place])["steps"] if x["kind"] == "tool"
    ] == ["restaurant_booking"]


def test_what_inspect_prints_has_its_steps(report, scores, tmp_path, capsys):
    main.main(["inspect", "--jsonl", _RECORDINGS])
    (tmp_path / "traces.jsonl").write_text(capsys.readouterr().out)
    found = report(tmp_path / "traces.jsonl", scores)
    assert all(found.detail(x)["steps"] for x in found.index["turns"])


@pytest.mark.slow
def test_a_baseline_is_compared_and_stands_beside_the_turns(report, scores):
    found = report(_RECORDINGS, scores, "--baseline", scores, "--baseline", _RECORDINGS)
    assert found.index["comparison"]["differences"]
    assert all("was" in x for x in found.index["turns"])


def test_the_pass_rate_of_a_comparison_says_what_it_is_a_share_of(report, scores, tmp_path):
    """Sessions count beside traces in it."""
    [line, *_] = map(json.loads, scores.read_text().splitlines())
    turn = {**line, "scope": "trace", "metric": "plain", "status": "scored", "scale": [0, 1]}
    turn |= {"value": 0.0, "threshold": 0.5, "label": "fail", "session_key": "s"}
    session = {**turn, "scope": "session", "metric": "gave_up", "value": 1.0, "label": "pass"}
    both = tmp_path / "both.jsonl"
    both.write_text(f"{json.dumps(turn)}\n{json.dumps(session)}\n")
    index = report(both, "--baseline", both).index
    found = index["comparison"]["differences"][0]
    assert (index["turn_rate"]["value"], found["own"]["value"]) == (0.0, 0.5)
    assert found["counted"] == "of 1 trace and 1 session, by the metrics that both runs have"


def test_the_pass_rate_of_two_suites_is_one_of_trials(report, run):
    found = report(run, "--baseline", run).index["comparison"]["differences"][0]
    assert (found["name"], found["counted"]) == ("pass rate", "of the trials of 1 case")


def test_runs_with_nothing_in_common_are_said_to_have_nothing_in_common(report, scores, tmp_path):
    line = json.loads(scores.read_text().splitlines()[0])
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({**line, "trace_id": "f" * 32, "metadata": {}}))
    assert (
        "Nothing is in both runs"
        in report(scores, "--baseline", other).index["comparison"]["remarks"][0]
    )


def test_the_file_is_its_owners_alone_and_that_is_said(report, scores, tmp_path, capsys):
    report(scores)
    assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == 0o600
    assert "unredacted. Only you can read it" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.pb"], "nowhere.pb"),
        (["{scores}", "-o", "nowhere/report.html"], "there is no folder nowhere"),
        (["{scores}", "--baseline", "{run}"], "give two of a kind"),
        (["{run}", "{run}"], "give the other one as --baseline"),
        (["{broken}"], "('trace_id', 'span_id', 'subject_id', 'session_key' is missing)"),
        (["{traces}"], "traces.jsonl:2: no agent trace as `spanscore inspect --jsonl` prints it"),
    ],
)
def test_what_cannot_be_used_is_one_line(words, said, scores, run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"metric": "x", "status": "scored", "evaluator": {}, "scope": "trace"}\n')
    capsys.readouterr()
    main.main(["inspect", "--jsonl", _RECORDINGS])
    traces = tmp_path / "traces.jsonl"
    traces.write_bytes(capsys.readouterr().out.splitlines()[0].encode() + b"\n\xff\xfe\n")
    known = {"{scores}": scores, "{run}": run, "{broken}": broken, "{traces}": traces}
    assert main.main(["report", *(str(known.get(x, x)) for x in words)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line


def _interrupt(monkeypatch, *, after):
    """Have Ctrl-C come while a metric measures for the `after`th time."""
    measured = metrics.available()["loop_detection"]
    measure, left = measured.measure, [after]

    def interrupted(self, trace, *rest, **more):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGINT)
        return measure(self, trace, *rest, **more)

    monkeypatch.setattr(measured, "measure", interrupted)


@pytest.fixture
def interrupted(tmp_path, monkeypatch, capsys):
    """The exit code and standard error of a report whose scoring Ctrl-C ended, and the report."""
    monkeypatch.chdir(tmp_path)
    _interrupt(monkeypatch, after=1)
    code = main.main(
        ["report", _RECORDINGS, "--metric", "loop_detection", "--baseline", _RECORDINGS]
    )
    return code, capsys.readouterr().err, Opened((tmp_path / "report.html").read_bytes())


def test_an_interrupt_writes_the_report_of_what_is_scored_and_exits_with_130(interrupted):
    code, said, found = interrupted
    assert code == 130
    assert "interrupted when" in said
    assert len(found.index["turns"]) == 4


def test_a_report_of_an_interrupted_scoring_says_so(interrupted):
    assert "of 4 turns were scored" in "".join(interrupted[2].index["notes"])


def test_after_an_interrupt_no_baseline_is_scored(interrupted):
    assert "the baseline is left out" in interrupted[1]
    assert interrupted[2].index.get("comparison") is None
