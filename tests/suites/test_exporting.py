"""The scores of a run leave as evaluation spans and events that say of which test they are."""

import asyncio

import pytest

from spanscore import suites
from spanscore.errors import PermanentError
from spanscore.export.config import Config
from spanscore.export.port import UndeliveredError
from spanscore.otlp import files

KEYS = ("test.suite.name", "test.suite.run.id", "test.case.id", "test.case.result.status")


def sent(tmp_path, run):
    path = tmp_path / "scores.jsonl"
    problems = asyncio.run(suites.send(suites.to_file(path), run.evaluations, 1, 2))
    assert problems == []
    return files.load([path])


def of_scores(spans):
    """Those of single scores."""
    return [x for x in spans if "gen_ai.evaluation.name" in x.attributes]


def test_an_evaluation_span_and_its_event_have_the_tests_attributes(suite, said, run_of, tmp_path):
    telemetry = sent(tmp_path, run_of(suite("a"), [said(1, answer="rain", case="a", run="r7")]))
    for [item] in (of_scores(telemetry.spans), telemetry.logs):
        assert [item.attributes[x] for x in KEYS] == ["weather", "r7", "a", "fail"]


def test_so_has_the_span_that_sums_up_the_turn(suite, said, run_of, tmp_path):
    telemetry = sent(tmp_path, run_of(suite("a"), [said(1, answer="rain", case="a", run="r7")]))
    (summary,) = (x for x in telemetry.spans if x.name == "spanscore: 1 of 1 failed")
    assert [summary.attributes[x] for x in KEYS] == ["weather", "r7", "a", "fail"]


def test_a_trial_that_cannot_be_told_has_no_result(suite, said, run_of, tmp_path):
    traces = [said(1, answer=None, case="a"), said(2, answer="sunny", case="a")]
    telemetry = sent(tmp_path, run_of(suite("a"), traces))
    assert [x.attributes.get(KEYS[3]) for x in of_scores(telemetry.spans)] == ["pass"]


def test_what_left_is_no_recording_of_an_agent(suite, said, run_of, tmp_path):
    from spanscore import rebuild_all

    telemetry = sent(tmp_path, run_of(suite("a"), [said(1, case="a")]))
    assert rebuild_all(telemetry.spans, telemetry.logs) == []


def test_a_backend_that_is_not_there_is_told_and_not_waited_for(suite, said, run_of, monkeypatch):
    monkeypatch.setattr("spanscore.suites.delivery._MAX_WAIT_S", 0.0)
    config = Config.model_validate({"exporters": {"otlp_http": {"endpoint": "http://127.0.0.1:9"}}})
    problems = asyncio.run(
        suites.send(config, run_of(suite("a"), [said(1, case="a")]).evaluations, 1, 2)
    )
    assert {x.partition(" not delivered")[0] for x in problems} == {
        "otlp_http: traces",
        "otlp_http: logs",
        "otlp_http: metrics",
    }


class Tool:
    """A sink that has not got the traces in `lacking`, and raises `errors` one after the other
    first.
    """

    def __init__(self, lacking=(), errors=()):
        self.lacking, self.errors, self.filed, self.closed = set(lacking), list(errors), [], False

    async def file(self, evaluations, *, final=False):
        if self.errors:
            raise self.errors.pop(0)
        self.filed += [x for x in evaluations if x.target.trace_id not in self.lacking]
        assert final
        return [x for x in evaluations if x.target.trace_id in self.lacking]

    async def close(self):
        self.closed = True


@pytest.fixture
def filed(monkeypatch, suite, said, run_of):
    """Sends a run of two trials to a tool; gives what was said of it."""

    def send(tool):
        monkeypatch.setattr("spanscore.suites.delivery._MAX_WAIT_S", 0.0)
        monkeypatch.setattr(
            "spanscore.suites.delivery.open_sinks", lambda config: {"phoenix": tool}
        )
        run = run_of(suite("a"), [said(1, case="a"), said(2, case="a")])
        return asyncio.run(suites.send(Config(), run.evaluations, 1, 2))

    return send


def test_a_tool_with_an_api_of_its_own_gets_the_scores_too(filed):
    tool = Tool()
    assert (filed(tool), [x.metric for x in tool.filed], tool.closed) == ([], ["agentic"] * 2, True)


def test_a_fault_of_a_tool_that_passes_is_waited_for(filed):
    tool = Tool(errors=[UndeliveredError("busy")])
    assert (filed(tool), len(tool.filed)) == ([], 2)


def test_scores_of_traces_that_a_tool_has_not_got_are_counted(filed, said):
    [told] = filed(Tool(lacking=[said(1).target.trace_id]))
    assert told == "phoenix: 1 of 2 scores not filed, since it has not got their traces"


@pytest.mark.parametrize("error", [PermanentError("no such project"), UndeliveredError("down")])
def test_a_tool_that_takes_nothing_is_told_in_one_line(filed, error):
    assert filed(Tool(errors=[error] * 9)) == [f"phoenix: scores not filed: {error}"]


def uids(run):
    return [x.uid for x in run.evaluations]


def test_the_same_run_scored_again_has_the_same_ids(suite, said, run_of):
    traces = [said(1, case="a", run="r7")]
    assert uids(run_of(suite("a"), traces)) == uids(run_of(suite("a"), traces))


def test_what_a_changed_suite_says_of_the_same_run_has_other_ids(suite, said, run_of):
    traces = [said(1, case="a", run="r7")]
    changed = suite({"id": "a", "expected_answer": "Rome is rainy"})
    assert set(uids(run_of(suite("a"), traces))).isdisjoint(uids(run_of(changed, traces)))
