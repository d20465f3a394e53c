"""Scores of the traces in files: the table, the JSON lines, the gates, the dry run."""

import json
import os
import signal
from pathlib import Path

import pytest

from spanscore import metrics
from spanscore.cli.main import main
from spanscore.evaluation.config import FAMILY
from spanscore.offline import summary

_RECORDING = str(Path(__file__).parents[2] / "examples" / "recordings" / "pydantic-ai")
_MODEL = "openai/gpt-4o-mini"


@pytest.fixture
def evaluated(monkeypatch, capsys):
    """Run `eval` on the recording: exit code, standard output, standard error."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(*words):
        code = main(["eval", _RECORDING, *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def ngrams(tmp_path):
    """A configuration under which coherence has a score without any model."""
    file = tmp_path / "ngrams.yaml"
    file.write_text(
        "embedding: {provider: ngrams}\nevaluation: {default_metrics: false, metrics: {coherence:"
        " {threshold: 0.5}}}\n"
    )
    return str(file)


@pytest.fixture
def mean(evaluated, ngrams):
    """The mean of coherence."""
    values = [x["value"] for x in _lines(evaluated("--jsonl", "-c", ngrams)[1])]
    return sum(values) / len(values)


def _lines(text):
    return [json.loads(line) for line in text.splitlines()]


def _means(text):
    """The rows of the last table, by metric."""
    rows = [line.split() for line in text.split("traces or sessions", 1)[1].splitlines() if line]
    return {row[0]: row[1:] for row in rows if row[0] in metrics.available()}


def test_without_a_model_what_asks_no_judge_has_a_score_for_every_trace(evaluated, ngrams):
    means = _means(evaluated("-c", ngrams)[1])
    assert means["coherence"][-3:] == ["of", "4", "passed"]


def test_one_line_says_of_all_judged_metrics_that_no_model_judges_them(evaluated):
    [line] = [x for x in evaluated("--jsonl")[2].splitlines() if "No model judges" in x]
    assert "agent_consistency are skipped: No model judges them: set judge.model" in line


def test_without_a_model_every_judged_metric_is_skipped_for_want_of_a_judge(evaluated):
    scores = _lines(evaluated("--jsonl")[1])
    judged = {name for name in FAMILY if issubclass(metrics.available()[name], metrics.Judged)}
    skipped = {x["metric"] for x in scores if x["skip_cause"] == "no_judge"}
    assert skipped == judged | {"agent_consistency"}  # which rests on a judged one


def test_sessions_come_after_traces(evaluated):
    text = evaluated()[1]
    assert (
        text.rindex("\ntrace ")
        < text.index("\nsession session-42")
        < text.index("\nsession session-43")
    )


@pytest.mark.slow
def test_the_table_says_that_no_model_judges_and_how_to_name_one(evaluated):
    said = " ".join(evaluated("--metric", "confidence")[1].split())
    assert said.endswith(
        "No model judges, so confidence is skipped; --model, judge.model or SPANSCORE_JUDGE_MODEL"
        " names one. --metric check runs all checks, which need none."
    )


def test_what_did_not_apply_to_a_trace_is_named_in_its_block_without_a_row(evaluated):
    text = evaluated("--metric", "loop_detection")[1]
    assert text.count("\nnot applicable: loop_detection\n") == 2


def test_json_lines_are_scores_with_their_provenance(evaluated, ngrams):
    code, text, _ = evaluated("--jsonl", "-c", ngrams, "--metric", "coherence")
    scores = _lines(text)
    assert (code, len(scores)) == (0, 4)
    assert all(
        score["status"] == "scored" and score["evaluator"]["kind"] == "CODE" for score in scores
    )


def test_the_same_files_give_the_same_scores(evaluated):
    first, second = (
        [(x["trace_id"], x["metric"], x["value"]) for x in _lines(evaluated("--jsonl")[1])]
        for _ in range(2)
    )
    assert first == second


def test_only_the_wanted_metrics_are_measured(evaluated):
    scores = _lines(evaluated("--jsonl", "--metric", "confidence", "--metric", "coherence")[1])
    assert {score["metric"] for score in scores} == {"confidence", "coherence"}


def test_a_session_metric_alone_is_what_it_is_among_all(evaluated):
    def reliability(*words):
        return [
            x["value"]
            for x in _lines(evaluated("--jsonl", *words)[1])
            if x["metric"] == "agent_reliability"
        ]

    assert reliability("--metric", "agent_reliability") == reliability()


def test_a_family_is_all_of_its_metrics(evaluated):
    measured = {x["metric"] for x in _lines(evaluated("--jsonl", "--metric", "check")[1])}
    assert measured == {x for x in metrics.available() if x.startswith("check.")}


def test_a_session_metric_asks_for_no_signal_that_is_turned_off(evaluated, tmp_path):
    file = tmp_path / "off.yaml"
    off = "{confidence: false, tool_correctness: false}"
    file.write_text(f"evaluation: {{metrics: {off}}}")
    words = ("--dry-run", "--jsonl", "-c", str(file), "--model", _MODEL)
    assert _lines(evaluated(*words, "--metric", "agent_reliability")[1]) == []


def test_a_threshold_changes_labels_and_no_score(evaluated, ngrams):
    def scored(*words):
        words = ("--jsonl", "-c", ngrams, "--metric", "coherence", *words)
        return [(x["value"], x["label"]) for x in _lines(evaluated(*words)[1])]

    low, high = scored("--threshold", "0"), scored("--threshold", "1")
    assert [value for value, _ in low] == [value for value, _ in high]
    assert [label for _, label in low] != [label for _, label in high]


def test_a_configuration_says_what_is_measured(evaluated, tmp_path):
    file = tmp_path / "spanscore.yaml"
    file.write_text("evaluation: {default_metrics: false, metrics: {coherence: {threshold: 0.1}}}")
    scores = _lines(evaluated("--jsonl", "-c", str(file))[1])
    assert {(score["metric"], score["threshold"]) for score in scores} == {("coherence", 0.1)}


@pytest.mark.parametrize(("by", "code"), [(-0.1, 0), (0.1, 1)])
def test_a_gate_is_held_against_the_mean(evaluated, ngrams, mean, by, code):
    assert evaluated("-c", ngrams, "--fail-under", f"coherence={mean + by}")[0] == code


def test_an_unmet_gate_says_by_how_much(evaluated, ngrams, mean):
    said = evaluated("-c", ngrams, "--fail-under", "coherence=0.9")[2]
    assert said.startswith(f"spanscore: the mean of coherence is {mean:.4f} [")
    assert said.endswith(", below 0.9\n")


def test_a_gate_on_a_metric_that_has_no_score_is_not_met(evaluated):
    code, _, err = evaluated("--metric", "coherence", "--fail-under", "confidence=0")
    assert (code, err.splitlines()[-1]) == (
        1,
        "spanscore: confidence has no score to hold against 0",
    )


def test_a_gate_tolerates_what_binary_floats_add_up_to(evaluated, ngrams, mean):
    assert evaluated("-c", ngrams, "--fail-under", f"coherence={mean + 1e-13:.16f}")[0] == 0


def test_failures_fail_only_when_asked(evaluated, monkeypatch):
    broken = metrics.available()["loop_detection"]
    monkeypatch.setattr(broken, "measure", None)
    assert evaluated("--metric", "loop_detection")[0] == 0
    code, _, err = evaluated("--metric", "loop_detection", "--fail-on", "failed")
    assert (code, err.splitlines()[-1]) == (1, "spanscore: measuring failed 4 times")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--metric", "coherance"), "did you mean coherence?"),
        (("--fail-under", "coherance=1"), "did you mean coherence?"),
        (("--fail-under", "coherence"), "write METRIC=VALUE, such as coherence=0.7"),
        (("--fail-under", "coherence=nan"), "write METRIC=VALUE, such as coherence=0.7"),
        (("--fail-under", "0.7"), "write METRIC=VALUE, such as confidence=0.7"),
        (
            ("--fail-under", "confidence=2"),
            "--fail-under: 2 is off the scale of confidence, which is 0 to 1",
        ),
        (("--threshold", "7"), "--threshold: 7 is off the scale of "),
        (("--threshold", "nan"), "--threshold: nan is off the scale of "),
        (("-c", "nowhere.yaml"), "nowhere.yaml"),
    ],
)
def test_bad_input_is_exit_code_2_and_says_what_to_do(evaluated, words, hint):
    code, out, err = evaluated(*words)
    assert (code, out) == (2, "")
    assert err.startswith("spanscore: error: ")
    assert hint in err


def test_a_dry_run_without_a_model_asks_nobody(evaluated):
    assert "No judge would be asked" in evaluated("--dry-run")[1]


def test_a_dry_run_lists_every_call_with_bounds(evaluated):
    code, text, _ = evaluated("--dry-run", "--model", _MODEL, "--metric", "task_completion")
    rows = [line.split() for line in text.splitlines()[1:5]]
    assert (code, [row[1:3] for row in rows]) == (0, [["1", "task_completion"]] * 4)
    assert [row[3].startswith("<") for row in rows] == [False] * 4


def test_a_dry_run_adds_up_what_its_calls_may_cost(evaluated):
    words = ("--dry-run", "--model", _MODEL, "--metric", "confidence")
    calls = _lines(evaluated(*words, "--jsonl")[1])
    most = sum(call["max_cost_usd"] for call in calls)
    assert most > 0
    assert f"at most {most:.4f} USD" in " ".join(evaluated(*words)[1].split())


def test_a_dry_run_says_which_rule_takes_the_traces(evaluated, tmp_path):
    file = tmp_path / "spanscore.yaml"
    rules = (
        "[{name: booked, when: {service: pydantic-ai}, judge: {model: openai/gpt-4o}}, {name: idle,"
        " metrics: none}]"
    )
    file.write_text(f"evaluation: {{rules: {rules}}}\njudge: {{model: {_MODEL}}}")
    words = ("-c", str(file), "--dry-run", "--metric", "confidence")
    assert (
        "Traces by the rule that takes them: booked 4, idle 0, no rule 0." in evaluated(*words)[1]
    )
    assert {(x["rule"], x["model"]) for x in _lines(evaluated(*words, "--jsonl")[1])} == {
        ("booked", "openai/gpt-4o")
    }


def test_a_score_has_the_rule_that_took_its_trace(evaluated, tmp_path):
    file = tmp_path / "spanscore.yaml"
    file.write_text("evaluation: {rules: [{name: booked, when: {service: pydantic-ai}}]}")
    found = _lines(evaluated("-c", str(file), "--metric", "check.answer_present", "--jsonl")[1])
    assert {x["rule"] for x in found} == {"booked"}


def test_a_dry_run_knows_no_price_of_an_unknown_model(evaluated):
    text = evaluated("--dry-run", "--model", "openai/no-such-model", "--metric", "confidence")[1]
    assert "at a price that is not known" in " ".join(text.split())


def test_a_dry_run_shows_prompts_only_when_asked(evaluated):
    words = ("--dry-run", "--model", _MODEL, "--metric", "confidence")
    assert "Move the booking to 20:00." not in evaluated(*words)[1]
    assert "Move the booking to 20:00." in evaluated(*words, "-v")[1]


@pytest.mark.slow
def test_a_dry_run_shows_what_would_be_redacted_as_it_would_be_sent(evaluated, tmp_path):
    file = tmp_path / "spanscore.yaml"
    file.write_text("judge: {redact: {patterns: {booking: 'R-[0-9]{4}'}}}")
    text = evaluated("--dry-run", "-v", "--model", _MODEL, "-c", str(file))[1]
    assert "R-4821" not in text
    assert "[REDACTED:booking #" in text


def test_the_rubric_scores_each_session_and_nothing_else(evaluated):
    scores = _lines(evaluated("--jsonl", "--metric", "rubric")[1])
    assert {x["metric"].partition(".")[0] for x in scores} == {"rubric"}
    assert {(x["scope"], x["session_id"]) for x in scores} == {
        ("session", "session-42"),
        ("session", "session-43"),
    }


def test_a_dry_run_shows_one_call_a_session_for_the_rubric(evaluated):
    calls = _lines(
        evaluated("--jsonl", "--metric", "rubric", "--dry-run", "--model", "openai/gpt-4o-mini")[1]
    )
    assert [x["session_id"] for x in calls] == ["session-42", "session-43"]
    assert len(calls[0]["metrics"]) == 8


def test_a_threshold_beyond_the_scale_of_the_criteria_is_bad_input(evaluated):
    code, _, error = evaluated("--metric", "rubric", "--threshold", "80")
    assert code == 2
    assert "is 0 to 5" in error


def test_a_gate_names_one_score_of_the_rubric(evaluated):
    code, _, error = evaluated("--metric", "rubric", "--fail-under", "rubric=75")
    assert code == 2
    assert "such as rubric.overall=75" in error


def test_what_is_not_set_up_is_said_once_with_what_to_do(evaluated):
    code, out, err = evaluated("--metric", "coherence")
    told = [x for x in err.splitlines() if x.startswith("spanscore: coherence is skipped")]
    assert (code, len(told)) == (0, 1)
    assert "embedding.model" in told[0]
    assert "trace " not in out


def test_json_lines_keep_every_skip(evaluated):
    skipped = [
        x
        for x in _lines(evaluated("--metric", "coherence", "--jsonl")[1])
        if x["status"] == "skipped"
    ]
    assert len(skipped) == 4


def test_only_what_fails_is_shown_where_that_is_asked_for_and_the_summary_is_of_all(
    evaluated, ngrams
):
    words = ("-c", ngrams, "--metric", "coherence", "--threshold", "0.3")
    everything, failing = evaluated(*words)[1], evaluated(*words, "--failing")[1]
    assert 0 < failing.count("\ntrace ") < everything.count("\ntrace ")
    assert _means(failing) == _means(everything)


def test_failing_scores_are_the_only_json_lines_where_they_are_asked_for(evaluated, ngrams):
    words = ("-c", ngrams, "--metric", "coherence", "--threshold", "0.3", "--jsonl", "--failing")
    assert {x["label"] for x in _lines(evaluated(*words)[1])} == {"fail"}


def test_the_scores_are_written_to_a_file_beside_the_table(evaluated, tmp_path):
    file = tmp_path / "scores.jsonl"
    out = evaluated("--metric", "loop_detection", "--output", str(file))[1]
    assert [x["metric"] for x in _lines(file.read_text())] == ["loop_detection"] * 4
    assert file.stat().st_mode & 0o777 == 0o600
    assert "loop_detection" in out


def test_each_score_names_what_it_is_of(evaluated):
    scores = [
        json.loads(line)
        for line in evaluated("--jsonl", "--metric", "agent_reliability")[1].splitlines()
    ]
    assert [x["subject_id"] for x in scores if x["scope"] == "session"] == [
        x["session_key"] for x in scores
    ]


def test_an_interrupt_keeps_what_is_finished_and_exits_with_130(evaluated, monkeypatch, tmp_path):
    measured = metrics.available()["loop_detection"]
    measure = measured.measure

    def interrupted(self, trace, *rest, **more):
        os.kill(os.getpid(), signal.SIGINT)
        return measure(self, trace, *rest, **more)

    monkeypatch.setattr(measured, "measure", interrupted)
    file = tmp_path / "scores.jsonl"
    code, _, err = evaluated("--metric", "loop_detection", "--output", str(file))
    assert code == 130
    assert "interrupted: these are the scores that were finished" in err
    assert file.exists()


def test_what_others_gave_is_shown_and_counts_in_no_mean_and_no_gate(tmp_path, capsys):
    main(["inspect", _RECORDING, "--jsonl"])
    trace = json.loads(capsys.readouterr().out.splitlines()[0])
    facts = {"gen_ai.evaluation.name": "coherence", "spanscore.score.source": "human"}
    attributes = [{"key": key, "value": {"stringValue": x}} for key, x in facts.items()]
    attributes.append({"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": -77.0}})
    record = {
        "traceId": trace["trace_ids"][0],
        "eventName": "gen_ai.evaluation.result",
        "attributes": attributes,
    }
    scoped = {"scope": {"name": "app"}, "logRecords": [record]}
    (tmp_path / "logs.json").write_text(json.dumps({"resourceLogs": [{"scopeLogs": [scoped]}]}))
    main(["eval", _RECORDING, str(tmp_path), "--jsonl"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [given] = [x for x in found if x["evaluator"]["source"]]
    assert (given["metric"], given["value"], given["scale"]) == ("coherence", -77.0, None)
    main(["eval", _RECORDING, str(tmp_path)])
    rows = [line for line in capsys.readouterr().out.splitlines() if "coherence" in line]
    assert [x.split()[:2] for x in rows if "-77" in x] == [["coherence", "(human)"]]


def test_a_full_disk_for_temporary_files_is_told_by_its_folder(evaluated, ngrams, monkeypatch):
    fill = (
        "PRAGMA max_page_count = 4; CREATE TABLE filling (content BLOB);"
        " CREATE TRIGGER fill AFTER INSERT ON verdict BEGIN"
        " INSERT INTO filling VALUES (zeroblob(100000)); END"
    )
    monkeypatch.setattr(summary, "_TABLES", f"{summary._TABLES};{fill}")
    code, _, err = evaluated("-c", ngrams)
    said = (
        "the folder for temporary files (TMPDIR): cannot be written (No space left on device); make"
        " room, or set TMPDIR to another folder"
    )
    assert (code, err.splitlines()[-1]) == (74, f"spanscore: error: {said}")
