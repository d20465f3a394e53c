"""Agent traces shown to a person, and as JSON lines."""

import json
from pathlib import Path

import pytest

from spanscore.cli import trace_files
from spanscore.cli.main import main
from spanscore.model.trace import AgentTrace, ModelCall, Target, Tool, ToolCall, Trial, Usage
from spanscore.otlp.files import Telemetry

_RECORDING = str(Path(__file__).parents[2] / "examples" / "recordings" / "pydantic-ai")


def _trace(**facts):
    return AgentTrace(
        trace_ids=("a" * 32,),
        root_span_id="b" * 16,
        target=Target("a" * 32, "b" * 16, 0, 10**9),
        opening_span_id="b" * 16,
        started_ns=0,
        ended_ns=1_500_000_000,
        **facts,
    )


@pytest.fixture
def shown(monkeypatch, capsys):
    """What `inspect` prints of a trace."""
    monkeypatch.setenv("COLUMNS", "200")

    def show(**facts):
        monkeypatch.setattr(trace_files, "loaded", lambda _paths: Telemetry())
        monkeypatch.setattr(trace_files, "rebuilt", lambda *_: [_trace(**facts)])
        assert main(["inspect", "anywhere.pb"]) == 0
        return capsys.readouterr().out

    return show


def _line(text, name):
    return next(line.split(name, 1)[1].strip() for line in text.splitlines() if f" {name} " in line)


def test_a_recorded_trace_is_shown_with_its_input_calls_and_output(capsys):
    assert main(["inspect", _RECORDING]) == 0
    text = capsys.readouterr().out
    for fact in (
        "Move the booking to 20:00.",
        "restaurant_booking",
        "Booked R-4821 at 20:00",
        "is now at 20:00",
    ):
        assert fact in text


def test_json_lines_are_one_agent_trace_each(capsys):
    main(["inspect", "--jsonl", _RECORDING])
    traces = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [trace["session_id"] for trace in traces] == [
        "session-42",
        "session-42",
        "session-43",
        "session-43",
    ]


def test_json_lines_read_back_as_the_same_traces(capsys):
    main(["inspect", "--jsonl", _RECORDING])
    lines = capsys.readouterr().out.splitlines()
    traces = trace_files.agent_traces([Path(_RECORDING)])
    assert [AgentTrace.from_json(json.loads(line)) for line in lines] == traces


def test_the_header_says_when_how_long_and_how_complete(shown):
    assert _line(shown(completeness="idle"), "when") == "1970-01-01 00:00:00 UTC, 1.50 s, idle"


def test_the_test_that_a_turn_was_recorded_for_is_shown(shown):
    trial = Trial("travel", "nightly-17", "dinner", "pass")
    assert (
        _line(shown(trial=trial), "test")
        == "suite travel, run nightly-17, case dinner, result pass"
    )


def test_a_turn_of_no_test_has_no_line_for_it(shown):
    assert " test " not in shown()


def test_what_was_not_recorded_is_listed_as_missing(shown):
    missing = _line(shown(user_input="Hi"), "missing")
    assert (
        missing
        == "final_output, system_instructions, available_tools, tool_calls, history, session_id"
    )


def test_a_trace_with_every_fact_misses_nothing(shown):
    text = shown(
        user_input="Hi",
        final_output="Hello",
        system_instructions="Be kind.",
        available_tools=(),
        tool_calls=(),
        history=(),
        session_id="1",
    )
    assert _line(text, "missing") == "nothing"


def test_calls_that_were_not_recorded_differ_from_none_made(shown):
    assert _line(shown(tool_calls=None), "calls") == "not recorded"
    assert (
        _line(shown(tool_calls=(), available_tools=(Tool("x"),)), "calls")
        == "none made, of 1 tool on offer"
    )


def test_a_call_without_result_is_missing_its_result(shown):
    assert "result of call 1" in shown(tool_calls=(ToolCall("1", "lookup", {"city": "Paris"}),))


def test_a_null_result_is_shown_and_not_missing(shown):
    text = shown(tool_calls=(ToolCall("1", "lookup", {"city": "Paris"}, returned=True),))
    assert (_line(text, "result"), "result of call 1" in text) == ("null", False)


def test_an_error_that_is_also_the_result_is_shown_once(shown):
    text = shown(
        tool_calls=(ToolCall("1", "lookup", {}, "timeout", error="timeout", error_inferred=True),)
    )
    assert text.count("timeout") == 1


def test_a_call_by_another_agent_names_it(shown):
    text = shown(
        agent_name="planner", tool_calls=(ToolCall("1", "lookup", {}, "x", agent="researcher"),)
    )
    assert "(by researcher)" in text


def test_unknown_tokens_are_not_zero(shown):
    text = shown(model_calls=(ModelCall("c" * 16, "gpt-4o-mini"),), usage=Usage(None, 0))
    assert _line(text, "models") == "1 call of gpt-4o-mini, ? tokens in, 0 out"


def test_damaged_facts_are_missing_as_well(shown):
    assert "final_output (cut or redacted)" in shown(final_output="Hel…", damaged=("final_output",))


def test_a_long_text_is_cut_and_says_how_long_it_is(shown):
    text = " ".join(shown(final_output="x" * 50_000).split())
    assert "(50,000 characters, --jsonl shows all)" in text
    assert len(text) < 3000


def test_text_from_a_trace_is_neither_markup_nor_an_escape_sequence(shown):
    text = shown(
        user_input="[bold]\x1b[31mred[/bold] :smile:",
        tool_calls=(ToolCall(None, "a\x1b]0;b\x07", {}),),
    )
    assert "\x1b" not in text
    assert "[bold]\\x1b[31mred[/bold] :smile:" in text


def test_files_without_an_agent_trace_are_bad_input(tmp_path, capsys):
    empty = tmp_path / "traces.pb"
    empty.write_bytes(b"")
    assert main(["inspect", str(empty)]) == 2
    assert "traces.pb: the file is empty" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_bad_input(capsys):
    assert main(["inspect", "nowhere.pb"]) == 2
    assert capsys.readouterr().err.startswith("spanscore: error: nowhere.pb: ")


def _with_unread(folder, count):
    """A folder with the recording, and traces of which nothing is read."""
    spans = [
        {"traceId": f"{x:032x}", "spanId": f"{x:016x}", "name": "GET /"}
        for x in range(1, count + 1)
    ]
    content = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    (folder / "others.json").write_text(json.dumps(content), encoding="utf-8")
    return [_RECORDING, str(folder)]


@pytest.mark.parametrize("option", [(), ("--jsonl",), ("--explain",)])
def test_traces_of_which_nothing_is_read_are_counted_on_standard_error(tmp_path, capsys, option):
    assert main(["inspect", *_with_unread(tmp_path, 3), *option]) == 0
    assert capsys.readouterr().err.endswith(
        "spanscore: 3 traces hold nothing that was read; `spanscore inspect --unread` lists them\n"
    )


def test_where_every_trace_is_read_no_hint_is_given(capsys):
    main(["inspect", _RECORDING, "--jsonl"])
    assert capsys.readouterr().err == ""


@pytest.fixture
def liked(tmp_path, capsys):
    """A recorded trace, and a file beside it with what two people and a program think of it."""
    main(["inspect", _RECORDING, "--jsonl"])
    trace = json.loads(capsys.readouterr().out.splitlines()[0])
    given = [
        ("helpful", "boolValue", True, "human"),
        ("stars", "doubleValue", 4.0, "human"),
        ("tone", "", "", "lint"),
    ]
    records = []
    for name, kind, value, source in given:
        facts = {"gen_ai.evaluation.name": name, "spanscore.score.source": source}
        facts |= {"gen_ai.evaluation.score.label": "polite"} if not kind else {}
        attributes = [{"key": key, "value": {"stringValue": x}} for key, x in facts.items()]
        attributes += (
            [{"key": "gen_ai.evaluation.score.value", "value": {kind: value}}] if kind else []
        )
        ids = {"traceId": trace["trace_ids"][0], "spanId": trace["root_span_id"]}
        records.append({**ids, "eventName": "gen_ai.evaluation.result", "attributes": attributes})
    file = tmp_path / "logs.json"
    file.write_text(
        json.dumps(
            {"resourceLogs": [{"scopeLogs": [{"scope": {"name": "app"}, "logRecords": records}]}]}
        )
    )
    return str(file)


def test_what_others_gave_is_shown_with_its_trace(liked, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["inspect", _RECORDING, liked]) == 0
    text = capsys.readouterr().out
    assert all(
        x in text
        for x in (
            "helpful = 1 (pass)  (by human)",
            "stars = 4  (by human)",
            "tone (polite)  (by lint)",
        )
    )


def test_json_lines_have_what_others_gave_and_read_back(liked, capsys):
    assert main(["inspect", _RECORDING, liked, "--jsonl"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert sorted(x["metric"] for x in first["external_scores"]) == ["helpful", "stars", "tone"]
    assert AgentTrace.from_json(first).trace_ids == tuple(first["trace_ids"])


class TestWithAConfiguration:
    @pytest.fixture
    def inspected(self, tmp_path, capsys):
        file = tmp_path / "spanscore.yaml"
        rules = (
            "[{name: booked, when: {tool: restaurant_*, error: false}, sampling: 0.5}, {name: idle,"
            " metrics: none}]"
        )
        file.write_text(f"evaluation: {{rules: {rules}}}")

        def inspect(*words):
            assert main(["inspect", "-c", str(file), *words, _RECORDING]) == 0
            return capsys.readouterr().out

        return inspect

    @pytest.mark.slow
    @pytest.mark.parametrize("words", [(), ("--explain",)])
    def test_each_trace_has_the_rule_that_takes_it(self, inspected, words):
        text = inspected(*words)
        assert "booked, share 0.5" in text
        assert "idle, nothing is measured" in text

    def test_json_lines_have_it_and_read_back(self, inspected):
        lines = [json.loads(line) for line in inspected("--jsonl").splitlines()]
        assert {"rule": "booked", "share": 0.5, "measures": True} in [x["decision"] for x in lines]
        assert all(AgentTrace.from_json(x).to_json()["id"] == x["id"] for x in lines)


def test_without_a_configuration_no_rule_is_named(capsys):
    main(["inspect", "--jsonl", _RECORDING])
    assert "decision" not in json.loads(capsys.readouterr().out.splitlines()[0])


@pytest.mark.parametrize("options", [[], ["--explain"]])
def test_the_configuration_names_spans_beside_the_loop(capsys, tmp_path, options):
    file = tmp_path / "config.yaml"
    file.write_text("assemble: {utility_spans: ['chat *']}")
    assert main(["inspect", _RECORDING, "--jsonl", "-c", str(file), *options]) == 0
    traces = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {x["utility"] for trace in traces for x in trace["model_calls"]} == {True}
