"""The scores of a run leave as evaluation spans and events that say of which test they are."""

import asyncio

from spanscore import suites
from spanscore.otlp import files

KEYS = ("test.suite.name", "test.suite.run.id", "test.case.id", "test.case.result.status")


def sent(tmp_path, run):
    path = tmp_path / "scores.jsonl"
    problems = asyncio.run(suites.send(suites.to_file(path), run.evaluations, 1, 2))
    assert problems == []
    return files.load([path])


def test_an_evaluation_span_and_its_event_have_the_tests_attributes(suite, said, run_of, tmp_path):
    telemetry = sent(tmp_path, run_of(suite("a"), [said(1, answer="rain", case="a", run="r7")]))
    for [item] in (telemetry.spans, telemetry.logs):
        assert [item.attributes[x] for x in KEYS] == ["weather", "r7", "a", "fail"]


def test_a_trial_that_cannot_be_told_has_no_result(suite, said, run_of, tmp_path):
    traces = [said(1, answer=None, case="a"), said(2, answer="sunny", case="a")]
    telemetry = sent(tmp_path, run_of(suite("a"), traces))
    assert [x.attributes.get(KEYS[3]) for x in telemetry.spans] == ["pass"]


def test_what_left_is_no_recording_of_an_agent(suite, said, run_of, tmp_path):
    from spanscore import rebuild_all

    telemetry = sent(tmp_path, run_of(suite("a"), [said(1, case="a")]))
    assert rebuild_all(telemetry.spans, telemetry.logs) == []


def test_a_backend_that_is_not_there_is_told_and_not_waited_for(suite, said, run_of, monkeypatch):
    from spanscore.export.config import Config

    monkeypatch.setattr("spanscore.suites.exporting._MAX_WAIT_S", 0.0)
    config = Config.model_validate({"exporters": {"otlp_http": {"endpoint": "http://127.0.0.1:9"}}})
    problems = asyncio.run(suites.send(config, run_of(suite("a"), [said(1, case="a")]).evaluations, 1, 2))
    assert {x.partition(" not delivered")[0] for x in problems} == {
        "otlp_http: traces",
        "otlp_http: logs",
        "otlp_http: metrics",
    }
