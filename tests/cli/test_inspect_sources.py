"""`inspect --explain` and `inspect --unread`: where facts came from, and what nobody reads."""

import json
from pathlib import Path

import pytest

from spanscore.cli.main import main

_RECORDING = str(Path(__file__).parents[2] / "examples" / "recordings" / "pydantic-ai")
_PRIVATE = "the user's private words"


def attribute(key, value):
    return {"key": key, "value": {"stringValue": value}}


@pytest.fixture
def unknown(tmp_path):
    """A file with spans and a log record of a framework that no dialect reads."""
    span = {
        "traceId": "a" * 32,
        "spanId": "b" * 16,
        "name": "turn 17",
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        "attributes": [
            attribute("acme.prompt.0.body", _PRIVATE),
            attribute("acme.reply", json.dumps({"said": _PRIVATE})),
            attribute("acme.colour", "red"),
            attribute("acme.outcome", "it rains there today"),
        ],
        "events": [
            {"timeUnixNano": "1", "name": "acme.step", "attributes": [attribute("input", _PRIVATE)]}
        ],
    }
    other = {**span, "spanId": "c" * 16, "name": "turn 18"}
    scope = {"name": "acme.agents", "version": "1.2"}
    record = {
        "timeUnixNano": "1",
        "body": {"stringValue": _PRIVATE},
        "eventName": "acme.said",
        "attributes": [],
    }
    spans = {"resourceSpans": [{"scopeSpans": [{"scope": scope, "spans": [span, other]}]}]}
    logs = {"resourceLogs": [{"scopeLogs": [{"scope": scope, "logRecords": [record]}]}]}
    (tmp_path / "traces.json").write_text(json.dumps(spans))
    (tmp_path / "logs.json").write_text(json.dumps(logs))
    return str(tmp_path)


@pytest.fixture
def listed(unknown, capsys):
    """The groups of what is unread, as JSON lines tell them."""
    assert main(["inspect", "--unread", "--jsonl", unknown]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.slow
def test_each_fact_is_shown_with_its_attribute_and_span(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["inspect", "--explain", _RECORDING]) == 0
    text = capsys.readouterr().out
    assert "user_input  pydantic_ai.all_messages of invoke_agent" in text
    assert "what the user said last in the outermost agent's input messages" in text


@pytest.mark.slow
def test_what_lost_is_shown(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    main(["inspect", "--explain", _RECORDING])
    assert "lost, has the same value  gen_ai.input.messages of chat" in capsys.readouterr().out


def test_facts_without_a_source_share_a_line(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    main(["inspect", "--explain", _RECORDING])
    assert "no source  plan, history" in capsys.readouterr().out


def test_json_lines_tell_the_sources_beside_the_trace(capsys):
    assert main(["inspect", "--explain", "--jsonl", _RECORDING]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first["explain"]["user_input"]["attributes"] == ["pydantic_ai.all_messages"]
    assert first["explain"]["tool_calls"][0]["result"]["attributes"] == ["gen_ai.tool.call.result"]


def test_spans_that_differ_in_a_number_are_one_group(listed):
    spans = next(x for x in listed if x["signal"] == "span")
    assert (spans["scope"], spans["version"], spans["name"], spans["count"]) == (
        "acme.agents",
        "1.2",
        "turn #",
        2,
    )


def test_keys_that_look_like_content_are_told_with_kind_and_size(listed):
    keys = {x["key"]: x for x in next(x for x in listed if x["signal"] == "span")["keys"]}
    assert keys["acme.prompt.#.body"] == {
        "key": "acme.prompt.#.body",
        "kinds": ["text"],
        "count": 2,
        "longest_chars": len(_PRIVATE),
    }
    assert keys["acme.reply"]["kinds"] == ["JSON"]
    assert "event acme.step: input" in keys


def test_a_few_words_in_a_row_look_like_content_under_any_key(listed):
    spans = next(x for x in listed if x["signal"] == "span")
    assert "acme.outcome" in {x["key"] for x in spans["keys"]}


def test_keys_that_do_not_look_like_content_are_only_named(listed):
    spans = next(x for x in listed if x["signal"] == "span")
    assert spans["other_keys"] == ["acme.colour", "event acme.step"]


def test_a_person_is_shown_the_other_keys_too(unknown, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    main(["inspect", "--unread", unknown])
    assert "other keys  acme.colour, event acme.step" in capsys.readouterr().out


def test_log_records_that_nobody_reads_are_listed(listed):
    assert [x["name"] for x in listed if x["signal"] == "log record"] == ["acme.said"]


def test_no_value_is_told(unknown, capsys):
    main(["inspect", "--unread", unknown])
    main(["inspect", "--unread", "--jsonl", unknown])
    assert _PRIVATE not in capsys.readouterr().out


def test_the_list_ends_with_what_to_do(unknown, capsys):
    main(["inspect", "--unread", unknown])
    assert "docs/add-a-dialect.md" in " ".join(capsys.readouterr().out.splitlines()[-2:])


def test_a_file_of_which_all_is_read_says_so(capsys):
    assert main(["inspect", "--unread", _RECORDING]) == 0
    assert "acme" not in capsys.readouterr().out


def test_an_unread_file_points_to_the_list(unknown, capsys):
    assert main(["inspect", unknown]) == 2
    assert "--unread" in capsys.readouterr().err


def test_explaining_and_listing_exclude_each_other(capsys):
    assert main(["inspect", "--explain", "--unread", _RECORDING]) == 2
    assert "not allowed" in capsys.readouterr().err


_DELEGATED = str(Path(__file__).parents[1] / "golden" / "pydantic_ai" / "desk-a2a")
"""A recording in which an agent's tool asks another agent, whose turn is a trace of its own."""


def test_why_traces_are_one_turn_is_shown(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    assert main(["inspect", "--explain", _DELEGATED]) == 0
    text = capsys.readouterr().out
    assert "joins" in text
    assert "since it was asked a text in the arguments of a tool call of that trace" in text


def test_json_lines_tell_why_traces_are_one_turn(capsys):
    assert main(["inspect", "--explain", "--jsonl", _DELEGATED]) == 0
    traces = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [(trace, join)] = [(x, join) for x in traces for join in x["explain"]["joins"]]
    assert (join["reason"], {join["trace_id"], join["to"]}) == (
        "delegation",
        set(trace["trace_ids"]),
    )


def test_a_reason_that_the_configuration_switches_off_joins_nothing(capsys, tmp_path):
    (tmp_path / "spanscore.yaml").write_text(
        "assemble:\n  stitch:\n    delegation:\n      enabled: false\n"
    )
    main(["inspect", "--explain", "--jsonl", "-c", str(tmp_path / "spanscore.yaml"), _DELEGATED])
    traces = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert not any(x["explain"]["joins"] for x in traces)
    assert all(len(x["trace_ids"]) == 1 for x in traces)
