"""`spanscore.evaluate`: what scripts and notebooks call, and the report that it gives."""

import asyncio
import inspect
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import spanscore
from spanscore.cli.main import main
from spanscore.errors import InputError, JudgeUnavailableError, SpanscoreError
from spanscore.otlp.files import load

FOLDER = str(Path(__file__).parents[2] / "examples" / "recordings" / "pydantic-ai")


class Unavailable:
    """A judge that is asked in vain."""

    def __init__(self):
        self.asked = 0

    async def ask(self, _prompt, _schema, *, models=()):
        self.asked += 1
        raise JudgeUnavailableError("nobody is there")


@pytest.fixture
def report():
    return spanscore.evaluate(FOLDER, metrics=["loop_detection", "agent_reliability"])


def test_the_scores_are_those_of_the_command(capsys, report):
    main(["eval", FOLDER, "--jsonl", "--metric", "loop_detection", "--metric", "agent_reliability"])
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(x["trace_id"], x["metric"], x["value"]) for x in printed] == [
        (x.target.trace_id, x.metric, x.value) for x in report
    ]


def test_a_judge_of_ones_own_is_asked_and_what_it_does_not_answer_failed():
    judge = Unavailable()
    report = spanscore.evaluate(FOLDER, metrics=["task_completion"], judge=judge)
    assert judge.asked == 4
    assert [x.status for x in report.failing] == ["failed"] * 4


def test_it_is_called_inside_a_running_event_loop_as_in_a_notebook():
    async def cell():
        return spanscore.evaluate(FOLDER, metrics="loop_detection")

    assert len(asyncio.run(cell()).traces) == 4


def test_it_can_be_awaited():
    assert len(asyncio.run(spanscore.evaluate_async(FOLDER, metrics="loop_detection")).traces) == 4


def test_it_shows_its_parameters():
    assert "metrics" in inspect.signature(spanscore.evaluate).parameters
    assert spanscore.evaluate(FOLDER, metrics="loop_detection").traces


def test_what_was_loaded_is_scored_as_its_files_are(report):
    telemetry = load([Path(FOLDER)])
    again = spanscore.evaluate(telemetry, metrics=["loop_detection", "agent_reliability"])
    assert [x.value for x in again] == [x.value for x in report]


def test_agent_traces_are_scored_as_their_files_are(report):
    again = spanscore.evaluate(report.traces, metrics=["loop_detection", "agent_reliability"])
    assert [x.value for x in again] == [x.value for x in report]


@pytest.mark.parametrize("given", ["nowhere.jsonl", [Path("nowhere.jsonl")], [3], [[]]])
def test_what_cannot_be_scored_is_refused(given):
    with pytest.raises(InputError):
        spanscore.evaluate(given)


def test_a_metric_that_there_is_not_is_named_with_the_nearest():
    with pytest.raises(InputError, match="did you mean coherence"):
        spanscore.evaluate(FOLDER, metrics=["coherance"])


def test_a_threshold_beyond_the_scale_is_refused():
    with pytest.raises(InputError, match="is off the scale of coherence"):
        spanscore.evaluate(FOLDER, metrics=["coherence"], threshold=7)


def test_printed_it_is_a_table_of_the_metrics(report):
    lines = repr(report).splitlines()
    assert lines[0] == "4 traces, 2 sessions, 6 scores"
    assert lines[2].split()[:3] == ["metric", "mean", "95"]
    assert [line.split()[0] for line in lines[3:5]] == ["loop_detection", "agent_reliability"]


def test_printed_it_lists_what_fails():
    failing = repr(spanscore.evaluate(FOLDER, metrics=["loop_detection"], threshold=1.0)).split(
        "failing: "
    )[1]
    assert "loop_detection 0." in failing


def test_in_a_notebook_it_is_a_table_whose_text_is_escaped():
    report = spanscore.evaluate(FOLDER, metrics=["loop_detection"])
    noted = spanscore.Report(report.traces, report.evaluations, notes=("<script>",))
    shown = noted._repr_html_()
    assert "<td" in shown
    assert "<script>" not in shown


def test_what_no_model_judges_is_said_in_a_sentence_not_in_a_row():
    shown = repr(spanscore.evaluate(FOLDER, metrics=["task_completion"]))
    assert "skipped: task_completion: No model judges" in shown
    assert "mean" not in shown


def test_a_row_says_what_was_asked_and_how_it_was_scored(report):
    row = report.to_rows()[0]
    assert row["input"] == report.traces[0].user_input
    assert (row["metric"], row["value"], row["passed"]) == (
        "loop_detection",
        report.evaluations[0].value,
        None,
    )


def test_the_rows_become_a_data_frame(report, monkeypatch):
    fake = SimpleNamespace(DataFrame=lambda rows, columns: (rows, columns))
    monkeypatch.setitem(sys.modules, "pandas", fake)
    rows, columns = report.to_pandas()
    assert [list(row) for row in rows] == [columns] * 6


def test_without_pandas_a_data_frame_is_refused_with_what_to_install(report, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SpanscoreError, match="pip install pandas"):
        report.to_pandas()


def test_the_json_lines_are_those_of_the_command(report, tmp_path):
    report.to_jsonl(tmp_path / "scores.jsonl")
    lines = (tmp_path / "scores.jsonl").read_text().splitlines()
    assert [json.loads(line)["metric"] for line in lines] == [x.metric for x in report]


def test_a_report_becomes_a_page(report, tmp_path):
    report.to_html(str(tmp_path / "nightly.html"))
    assert "<title>nightly · spanscore</title>" in (tmp_path / "nightly.html").read_text()


def test_a_metric_may_be_named_by_its_function(make_trace):
    @spanscore.metric
    def polite(trace):
        return True

    report = spanscore.evaluate([make_trace()], metrics=[polite])
    assert [(x.metric, x.value) for x in report.evaluations] == [("polite", 1.0)]
    assert spanscore.evaluate([make_trace()], metrics=polite).evaluations[0].metric == "polite"


def test_the_rules_of_a_configuration_hold(tmp_path):
    file = tmp_path / "spanscore.yaml"
    looked_up = (
        "{name: looked-up, when: {tool: weather_lookup}, thresholds: {check.answer_present: 0.5}}"
    )
    rules = f"[{looked_up}, {{name: rest, metrics: none}}]"
    file.write_text(f"evaluation: {{rules: {rules}, metrics: {{check.answer_present: }}}}")
    found = spanscore.evaluate(FOLDER, config=file)
    assert {
        (x.rule, x.threshold) for x in found.evaluations if x.metric == "check.answer_present"
    } == {("looked-up", 0.5)}


def test_the_names_of_spans_of_a_configuration_hold(tmp_path):
    file = tmp_path / "spanscore.yaml"
    file.write_text("assemble: {utility_spans: ['chat *']}")
    found = spanscore.evaluate(FOLDER, config=file, metrics=["check.answer_present"])
    assert {call.utility for trace in found.traces for call in trace.model_calls} == {True}


def test_two_texts_are_scored_without_spans():
    pairs = [{"input": "hello", "output": "Good day."}] * 2
    report = spanscore.evaluate(pairs, metrics=["check.answer_present"])
    assert [(x.user_input, x.final_output) for x in report.traces] == [("hello", "Good day.")] * 2
    assert [x.value for x in report] == [1.0, 1.0]
    assert len({x.subject_id for x in report}) == 2


def test_the_same_texts_have_the_same_ids():
    pairs = [{"input": "hello", "output": "Good day."}]
    one, other = (spanscore.evaluate(pairs, metrics="check.answer_present") for _ in range(2))
    assert one.traces[0].id == other.traces[0].id


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"input": "a"}, "item 0 has the keys input; two texts"),
        ({"input": "a", "output": "b", "x": 1}, "item 0 has the keys input, output, x"),
        ({"input": "a", "output": 3}, "item 0: output is of type int; give a text"),
    ],
)
def test_what_is_no_pair_of_texts_is_refused(given, problem):
    with pytest.raises(InputError, match=problem):
        spanscore.evaluate([given])


def test_a_trace_and_a_failing_score_are_each_one_readable_line():
    pairs = [{"input": "hello \x1b[2J " * 50, "output": ""}]
    report = spanscore.evaluate(pairs, metrics="check.answer_present")
    trace, score = repr(report.traces[0]), repr(report.failing[0])
    assert trace.startswith(f"<AgentTrace {report.traces[0].target.trace_id[:8]} unknown input='he")
    assert trace.endswith(" output=''>")
    assert score.startswith("<Evaluation 'check.answer_present' 0.00 'fail' of trace ")
    assert max(map(len, (trace, score))) < 300
    assert "\x1b" not in trace


def test_the_tools_of_a_trace_are_named_in_its_line():
    trace = spanscore.evaluate(FOLDER, metrics="loop_detection").traces[0]
    names = ", ".join(x.name for x in trace.tool_calls)
    assert f"tools={names!r}" in repr(trace)
