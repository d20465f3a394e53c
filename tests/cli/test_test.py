"""`spanscore test` and `spanscore best-of`: the table, the files they write, the gates, and what
they refuse.
"""

import json
from pathlib import Path

import pytest
from comparing_model import compare
from scripted_server import ScriptedServer

from spanscore.cli.main import main
from spanscore.otlp import files

_ROOT = Path(__file__).parents[2]
_SUITE = str(_ROOT / "examples" / "suite" / "travel.yaml")
_RECORDING = str(_ROOT / "examples" / "recordings")
_ONE = (
    "name: one\ncases:\n- id: dinner\n  session_id: session-42\n  expected_answer: confirmation"
    " R-4821\n"
)
_OF_TOOLS = """name: tools
cases:
- id: dinner
  session_id: session-42
  expected_tools: [{tool_name: restaurant_booking}]
- id: cities
  turns:
  - input: Which is warmer today, Paris or Berlin?
    expected_tools: [{tool_name: weather_lookup}]
"""


@pytest.fixture(scope="module")
def comparing():
    """A server whose model compares answers by their words."""
    with ScriptedServer(compare) as server:
        yield server


@pytest.fixture
def tested(monkeypatch, capsys, comparing):
    """Run `test` with a model that compares answers by their words: exit code, standard output,
    standard error.
    """
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("SPANSCORE_JUDGE_MODEL", "openai/scripted")
    monkeypatch.setenv("OPENAI_API_BASE", comparing.url)
    monkeypatch.setenv("OPENAI_API_KEY", "test-key-0123456789abcdef")

    def run(suite=_SUITE, *words, paths=(_RECORDING,)):
        code = main(["test", str(suite), *map(str, paths), *map(str, words)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def written(tmp_path):
    """A suite file with this text."""

    def write(text):
        path = tmp_path / "suite.yaml"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def bayesian(written):
    """The suite of the example with Bayesian statistics."""
    return written(f"{Path(_SUITE).read_text()}\nagentic: {{statistics: bayesian}}\n")


def test_the_table_has_a_row_for_each_case(tested):
    rows = tested()[1].splitlines()[2:5]
    assert [row.split()[:3] for row in rows] == [
        ["dinner-in-tokyo", "pass", "P"],
        ["warmer-city", "pass", "P"],
        ["cheap-flight", "fail", "F"],
    ]


def test_a_narrow_terminal_shows_names_and_intervals_whole(tested, bayesian, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = tested(bayesian)
    lines = out.splitlines()
    row = next(place for place, line in enumerate(lines) if line.startswith("dinner-in-tokyo"))
    assert lines[row + 1].split("  ")[-1] == "[0.16, 0.99]"


def test_the_output_says_the_k_of_its_odds_and_how_they_are_estimated(tested, written):
    assert (
        "\nk = 2; pass@k and pass^k of a case: frequentist\n"
        in tested(written(f"{_OF_TOOLS}k: 2\n"))[1]
    )


def test_where_cases_have_different_k_the_output_says_why_there_are_no_odds_over_cases(
    tested, written
):
    text = _OF_TOOLS.replace("- id: cities", "- id: cities\n  k: 3")
    out = tested(written(text))[1]
    assert "\nk = 1, 3; pass@k and pass^k of a case: frequentist\n" in out
    assert "since the cases have different k" in out


def test_a_case_that_fails_makes_the_exit_code_1_and_is_counted(tested):
    code, _, errors = tested()
    assert (code, errors) == (1, "spanscore: 1 of 3 cases failed; required is that 100% pass\n")


def test_what_kept_a_trial_from_passing_is_told(tested):
    assert "cheap-flight, trial 1: interaction 0: answer 0.45, below 0.7: " in tested()[1]


@pytest.mark.slow
def test_a_share_of_the_cases_may_be_enough(tested):
    assert [tested(_SUITE, "--fail-under", x)[0] for x in ("0.6", "0.7")] == [0, 1]


def test_the_run_file_has_cases_trials_and_their_scores(tested, tmp_path):
    tested(_SUITE, "--output", tmp_path / "run.json")
    run = json.loads((tmp_path / "run.json").read_text())
    [trial] = run["cases"][0]["trials"]
    assert (run["schema"], run["suite"]) == ("spanscore.run/1", "travel-assistant")
    assert run["run_id"]
    assert (trial["session_id"], trial["passed"], trial["test"]["test.case.result.status"]) == (
        "session-42",
        True,
        "pass",
    )
    assert [x["metric"] for x in trial["evaluations"]] == ["agentic"]


@pytest.mark.slow
def test_the_run_file_holds_numbers_as_numbers(tested, bayesian, tmp_path):
    tested(bayesian, "--output", tmp_path / "run.json")
    run = json.loads((tmp_path / "run.json").read_text())
    assert all(
        isinstance(run["cases"][0][x], float) for x in ("pass_at_k_ci_low", "pass_pow_k_ci_high")
    )


@pytest.mark.slow
def test_the_scores_can_be_written_as_otlp(tested, tmp_path):
    tested(_SUITE, "--export", tmp_path / "scores.jsonl")
    spans = files.load([tmp_path / "scores.jsonl"]).spans
    assert {
        x.attributes["test.case.id"]: x.attributes["test.case.result.status"] for x in spans
    } == {"dinner-in-tokyo": "pass", "warmer-city": "pass", "cheap-flight": "fail"}


def test_the_exporters_of_the_configuration_get_the_scores(tested, tmp_path):
    (tmp_path / "c.yaml").write_text(
        f"export: {{exporters: {{otlp_json_file: {{path: {tmp_path / 'out.jsonl'}}}}}}}"
    )
    tested(_SUITE, "-c", tmp_path / "c.yaml")
    assert len(files.load([tmp_path / "out.jsonl"]).logs) == 3


def test_nothing_is_sent_where_that_is_not_wanted(tested, tmp_path):
    (tmp_path / "c.yaml").write_text(
        f"export: {{exporters: {{otlp_json_file: {{path: {tmp_path / 'out.jsonl'}}}}}}}"
    )
    tested(_SUITE, "-c", tmp_path / "c.yaml", "--no-export")
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.slow
def test_only_the_owner_reads_what_is_written_also_where_it_was_there_before(tested, tmp_path):
    files_ = {name: tmp_path / name for name in ("output", "junit", "export")}
    for path in files_.values():
        path.touch(0o644)
    tested(_SUITE, *(word for name, path in files_.items() for word in (f"--{name}", path)))
    assert [path.stat().st_mode & 0o777 for path in files_.values()] == [0o600] * 3


@pytest.mark.slow
def test_a_run_that_does_not_fit_is_said_in_one_line(tested, full_device):
    code, _, err = tested(_SUITE, "--output", full_device)
    said = (
        "/dev/full: cannot be written (No space left on device); make room, or write to another"
        " place"
    )
    assert (code, err.splitlines()[-1]) == (74, f"spanscore: error: {said}")


def test_junit_xml_is_written(tested, tmp_path):
    tested(_SUITE, "--junit", tmp_path / "junit.xml")
    assert (
        '<testsuite id="0" package="spanscore" name="travel-assistant"'
        in (tmp_path / "junit.xml").read_text()
    )


def test_a_metric_of_the_configuration_is_measured_too(tested, written, tmp_path):
    (tmp_path / "c.yaml").write_text("evaluation: {metrics: {coherence: {}}}")
    tested(written(_ONE), "-c", tmp_path / "c.yaml", "--output", tmp_path / "run.json")
    [case] = json.loads((tmp_path / "run.json").read_text())["cases"]
    assert [x["metric"] for x in case["trials"][0]["evaluations"]] == [
        "agentic",
        "coherence",
        "coherence",
    ]


def test_a_selector_looks_at_the_attributes_of_spans(tested, written):
    text = _ONE.replace(
        "session_id: session-42", "attributes: {gen_ai.conversation.id: session-42}"
    )
    assert tested(written(text))[0] == 0


def test_interactions_as_the_unit_are_said(tested, written):
    suite = written(f"{_OF_TOOLS}agentic: {{unit: interaction}}\n")
    assert "turns of one conversation are not" in tested(suite)[1]


def test_the_schema_needs_no_suite(capsys):
    assert main(["test", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "spanscore test suite"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "suite.yaml: empty; a suite has a name and cases"),
        (
            f"{_ONE}- id: dinner\n",
            "suite.yaml:2: cases: two cases have the id 'dinner'; give each an id of its own",
        ),
        (
            f"{_ONE}- id: lunch\n",
            (
                "suite.yaml: case 'lunch': nothing recorded matches it; sought was test.case.id"
                " 'lunch'"
            ),
        ),
        (
            f"{_ONE}  expected_tools: [{{tool_name: flight_serch}}]\n",
            (
                "suite.yaml: case 'dinner': no recording offers or calls a tool 'flight_serch'; did"
                " you mean"
            ),
        ),
        (
            f"{_ONE}k: 2\nagentic: {{statistics: unbiased}}\n",
            (
                "suite.yaml: case 'dinner': k is 2 and n (recorded trials) is 1; the unbiased form"
                " is for k up to n"
            ),
        ),
        (f"{_ONE}  trails: 2\n", "suite.yaml:6: cases.0.trails: unknown key; did you mean trials?"),
        ("name: [\n", "suite.yaml:2: not YAML: "),
        (f"{_ONE}thresholds: {{rubric.tone: 3}}\n", "suite.yaml: there is no metric 'rubric.tone'"),
    ],
)
def test_a_suite_that_cannot_be_used_is_told_in_one_line(tested, written, text, told):
    code, out, errors = tested(written(text))
    [line] = errors.splitlines()
    assert (code, out) == (2, "")
    assert told in line


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--fail-under", "2"], "--fail-under 2: give a share from 0 to 1"),
        (["--output", "/nowhere/at/all.json"], "/nowhere/at/all.json: cannot be written"),
        (["--junit", "/"], "/: cannot be written (it is a folder)"),
        (["--output", "-"], "-: name a file; standard output has the table"),
        (
            ["--export", "/nowhere/at/all.json"],
            "/nowhere/at/all.json: cannot be written (there is no folder",
        ),
        (["--output", "x", "--junit", "./x"], "x: is named for two things; name a file for each"),
        (["--model", "nobody/knows"], "nobody/knows: there is no such provider"),
    ],
)
def test_an_option_that_cannot_be_used_is_told_in_one_line(tested, words, told):
    code, _, errors = tested(_SUITE, *words)
    assert (code, len(errors.splitlines())) == (2, 1)
    assert told in errors


def test_an_empty_file_of_traces_is_told(tested, tmp_path):
    (tmp_path / "empty.json").write_text("")
    code, _, errors = tested(paths=[tmp_path / "empty.json"])
    assert (code, errors.count("\n")) == (2, 1)
    assert f"{tmp_path / 'empty.json'}: the file is empty" in errors


def test_a_recording_without_a_span_is_told(tested, tmp_path):
    (tmp_path / "bare.json").write_text('{"resourceSpans": []}')
    code, _, errors = tested(paths=[tmp_path / "bare.json"])
    assert (code, errors.count("\n")) == (2, 1)
    assert "bare.json: there is no span and no log record in it" in errors


def stating(path, answer):
    """A recorded turn whose span states that its answer should be that Rome is sunny."""
    told = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.input.messages": "Weather?",
        "gen_ai.output.messages": answer,
        "spanscore.expected.answer": "Rome is sunny",
    }
    span = {
        "traceId": "1" * 32,
        "spanId": "2" * 16,
        "name": "invoke_agent",
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": "2000",
        "attributes": [
            {"key": key, "value": {"stringValue": value}} for key, value in told.items()
        ],
    }
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
    return str(path)


@pytest.mark.parametrize(("answer", "code"), [("Rome is sunny.", 0), ("I cannot say.", 1)])
def test_without_a_suite_traces_are_held_to_what_they_state(tested, tmp_path, answer, code):
    ended, output, _ = tested(stating(tmp_path / "traces.jsonl", answer), paths=())
    assert (ended, "Weather?" in output) == (code, True)


def test_without_a_suite_or_a_path_the_help_is_named(capsys):
    assert main(["test", _SUITE]) == 2
    assert "give what was recorded" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            [f"a={_RECORDING}", f"b={_RECORDING}"],
            "no model is configured that could compare two answers; name one",
        ),
        ([f"a={_RECORDING}"], "give two agents at least"),
        ([f"a={_RECORDING}", _RECORDING], "write NAME=PATH"),
        ([f"a={_RECORDING}", f"a={_RECORDING}"], "the name a is given twice"),
    ],
)
def test_a_tournament_that_cannot_be_held_is_told_in_one_line(capsys, words, told):
    assert main(["best-of", _SUITE, *words]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert told in line


@pytest.mark.slow
def test_a_calibrated_judges_pass_rate_is_corrected(tested, tmp_path):
    from spanscore.calibration import Calibration
    from spanscore.stats import Confusion
    from spanscore.store import calibrations
    from spanscore.store.config import Config

    store = Config(url=f"sqlite:///{tmp_path / 'store.db'}")
    tested(_SUITE, "--output", tmp_path / "run.json")
    evaluation = json.loads((tmp_path / "run.json").read_text())["cases"][0]["trials"][0][
        "evaluations"
    ][0]
    prompt_hash = evaluation["evaluator"]["prompt_hash"]
    judge = ("agentic", "judge", "1", "openai/scripted", prompt_hash, None, 0.7)
    made = Calibration(judge, Confusion(90, 10, 5, 95), 0)
    calibrations.keep(store, {made.key: made.to_json()}, 0)
    (tmp_path / "c.yaml").write_text(f"store: {{url: '{store.url}'}}")
    out = tested(_SUITE, "-c", tmp_path / "c.yaml", "--output", tmp_path / "run.json")[1]
    [rate] = json.loads((tmp_path / "run.json").read_text())["overall"]["corrected_pass_rates"]
    assert rate["corrected"]["low"] < rate["corrected"]["value"] < rate["corrected"]["high"]
    assert "agentic: pass rate by the judge 0.67" in out
    assert "; corrected 0." in out
