"""Where a score lands in MLflow, before a server that keeps traces and assessments as MLflow
does.
"""

import base64
import re
from contextlib import asynccontextmanager

import pytest
from tool_server import FakeTool, before

from spanscore.export.config import MlflowConfig
from spanscore.export.mlflow import MlflowSink
from spanscore.export.port import UnsupportedSignalError
from spanscore.model.score import Result, Skip, Tally

TRACE_ID, SPAN_ID = "0a" * 16, "0b" * 8
FIRST_ID = "0f" * 16
SESSION = {"scope": "session", "subject_id": "s-1", "first_trace_id": FIRST_ID}
FAILED = Tally(
    (Result("task_completion", 0.1, "fail", 0.5), Result("coherence", 0.42, "pass", 0.17))
)
PREFIX = "/api/3.0/mlflow/traces"


class FakeMlflow(FakeTool):
    """`traces` by id, in the order in which they began; `lists_spans` is False for an older one."""

    def __init__(self):
        super().__init__()
        self.traces = {}
        self.lists_spans = True
        self._made = 0

    def has(self, trace_id, *, session_id=None, span_ids=(SPAN_ID,), state="OK"):
        """From now on it has a trace; assessments that it has already stay."""
        trace = self.traces.setdefault(trace_id, {"assessments": {}})
        trace.update(session_id=session_id, span_ids=span_ids, state=state)

    def has_only_scores_of(self, trace_id, session_id=None):
        """What it has while the request with the agents' spans is still being sent again."""
        self.has(trace_id, session_id=session_id, span_ids=("0e" * 8,), state="IN_PROGRESS")

    def assess(self, trace_id, name, value, **metadata):
        self._made += 1
        told = {"assessment_name": name, "feedback": {"value": value}, "metadata": metadata or None}
        self.traces[trace_id]["assessments"][f"a-{self._made}"] = told

    def values(self, trace_id):
        """(name, value) of a trace's assessments."""
        return [
            (x["assessment_name"], x["feedback"]["value"]) for x in self.only(trace_id).values()
        ]

    def only(self, trace_id):
        return self.traces[trace_id]["assessments"]

    def answer(self, request, body):
        path = request.path.removeprefix(PREFIX)
        if path == "/search":
            wanted = re.fullmatch(r"metadata.`mlflow.trace.session` = '(.*)'", body["filter"])[1]
            found = [x for x, trace in self.traces.items() if trace["session_id"] == wanted]
            return 200, {"traces": [self._info(x) for x in found[: body["max_results"]]]}
        if path == "/get":
            trace = self.traces[request.query["trace_id"].removeprefix("tr-")]
            spans = [
                {"span_id": base64.b64encode(bytes.fromhex(x)).decode()} for x in trace["span_ids"]
            ]
            return (200, {"trace": {"spans": spans}}) if self.lists_spans else (404, {})
        trace_id, _, assessment_id = re.fullmatch(r"/tr-(\w+)(/assessments/?(.*))?", path).groups()
        if trace_id not in self.traces:
            return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST"}
        if request.method == "GET":
            return 200, {"trace": {"trace_info": self._info(trace_id)}}
        return self._change(request.method, trace_id, assessment_id, body)

    def _change(self, method, trace_id, assessment_id, body):
        kept = self.traces[trace_id]["assessments"]
        if method == "POST":
            self._made += 1
            kept[f"a-{self._made}"] = body["assessment"]
        elif method == "PATCH":
            kept[assessment_id] |= {x: body["assessment"][x] for x in ("feedback", "rationale")}
            kept[assessment_id]["metadata"] |= body["assessment"]["metadata"]
        else:
            del kept[assessment_id]
        return 200, {}

    def _info(self, trace_id):
        trace = self.traces[trace_id]
        place = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": "7"}}
        session = (
            {} if trace["session_id"] is None else {"mlflow.trace.session": trace["session_id"]}
        )
        assessments = [{"assessment_id": id_, **x} for id_, x in trace["assessments"].items()]
        info = {"trace_id": f"tr-{trace_id}", "trace_location": place, "trace_metadata": session}
        return info | {"state": trace["state"], "assessments": assessments}


@asynccontextmanager
async def mlflow():
    async with before(MlflowSink, MlflowConfig, FakeMlflow()) as (sink, tool):
        yield sink, tool


async def test_a_score_is_an_assessment(make):
    async with mlflow() as (sink, tool):
        tool.has(TRACE_ID)
        assert not await sink.file([make.score()])
        (assessment,) = tool.only(TRACE_ID).values()
    assert assessment.pop("metadata")["spanscore.label"] == "pass"
    assert assessment == {
        "assessment_name": "task_completion",
        "trace_id": f"tr-{TRACE_ID}",
        "span_id": SPAN_ID,
        "source": {"source_type": "LLM_JUDGE", "source_id": "gpt-4o"},
        "feedback": {"value": 0.83},
        "rationale": "pass (0.83, passes from 0.5): because",
    }


async def test_a_value_has_four_digits(make):
    async with mlflow() as (sink, tool):
        tool.has(TRACE_ID)
        await sink.file([make.score(value=0.5050252531694168)])
        (assessment,) = tool.only(TRACE_ID).values()
    assert assessment["feedback"] == {"value": 0.505}


async def test_a_value_that_rounded_would_reach_the_threshold_has_more_digits(make):
    async with mlflow() as (sink, tool):
        tool.has(TRACE_ID)
        await sink.file([make.score(value=0.4999999, threshold=0.5)])
        (assessment,) = tool.only(TRACE_ID).values()
    assert assessment["feedback"] == {"value": 0.4999999}
    assert assessment["rationale"].startswith("fail (0.4999999, passes from 0.5): ")


async def test_how_all_metrics_came_out_is_an_assessment_by_its_verdict(make):
    async with mlflow() as (sink, tool):
        tool.has(TRACE_ID)
        await sink.file([make.score(value=0.1, tally=FAILED)])
        summary = next(
            x for x in tool.only(TRACE_ID).values() if x["assessment_name"] == "_spanscore"
        )
    assert summary["feedback"] == {"value": "fail"}
    assert (
        summary["rationale"]
        == "fail: 1 of 2 failed: task_completion\ntask_completion = 0.10 (fail)\ncoherence = 0.42"
        " (pass)"
    )


async def test_how_a_session_came_out_has_a_name_by_which_no_trace_of_it_is_found(make):
    async with mlflow() as (sink, tool):
        tool.has(TRACE_ID)
        await sink.file([make.score(value=0.1, scope="session", tally=FAILED)])
        found = {x["assessment_name"]: x["feedback"] for x in tool.only(TRACE_ID).values()}
    assert "_spanscore" not in found
    assert found["_spanscore_session"] == {"value": "fail"}


async def test_what_matters_most_is_filed_last_as_mlflow_lists_that_first(make):
    async with mlflow() as (sink, tool):
        tool.has(TRACE_ID)
        await sink.file(
            [make.score("a", 0.1, tally=FAILED), make.score("b", rank=2), make.score("c", rank=1)]
        )
        filed = [x["assessment_name"] for x in tool.only(TRACE_ID).values()]
    assert filed == ["b", "c", "a", "_spanscore"]


async def test_a_failure_is_an_error(make):
    async with mlflow() as (sink, tool):
        tool.has(TRACE_ID)
        await sink.file([make.failed()])
        (assessment,) = tool.only(TRACE_ID).values()
    assert assessment["feedback"] == {
        "error": {"error_code": "JudgeTimeoutError", "error_message": "no answer"}
    }


async def test_a_session_that_rests_on_no_signal_is_an_error_that_names_them(make):
    async with mlflow() as (sink, tool):
        tool.has(FIRST_ID)
        await sink.file([make.score(outcome=Skip("coherence is missing", "no_signals"), **SESSION)])
        (assessment,) = tool.only(FIRST_ID).values()
    assert assessment["feedback"] == {
        "error": {"error_code": "no_signals", "error_message": "coherence is missing"}
    }


async def test_a_turn_without_a_span_is_scored_on_its_trace(make):
    async with mlflow() as (sink, tool):
        tool.has_only_scores_of(TRACE_ID)
        await sink.file([make.score(target=make.target(span_id=""))])
        (assessment,) = tool.only(TRACE_ID).values()
        assert "span_id" not in assessment


async def test_a_failure_keeps_no_label_of_the_score_before(make):
    async with mlflow() as (sink, tool):
        tool.has(TRACE_ID)
        await sink.file([make.score()])
        await sink.file([make.failed(revision=2)])
        (assessment,) = tool.only(TRACE_ID).values()
        assert assessment["metadata"]["spanscore.label"] == ""


async def test_a_later_revision_takes_the_place_of_the_one_before(make):
    async with mlflow() as (sink, tool):
        tool.has(TRACE_ID)
        await sink.file([make.score()])
        await sink.file([make.score(value=0.5, revision=2)])
        assert tool.values(TRACE_ID) == [("task_completion", 0.5)]


async def test_an_assessment_that_people_made_is_left_alone(make):
    async with mlflow() as (sink, tool):
        tool.has(TRACE_ID)
        tool.assess(TRACE_ID, "task_completion", 1)
        await sink.file([make.score()])
        assert tool.values(TRACE_ID) == [("task_completion", 1), ("task_completion", 0.83)]


async def test_the_assessment_of_another_turn_in_the_same_trace_is_left_alone(make):
    async with mlflow() as (sink, tool):
        tool.has(TRACE_ID)
        await sink.file([make.score(subject_id="e" * 32, value=0.1)])
        await sink.file([make.score()])
        assert tool.values(TRACE_ID) == [("task_completion", 0.1), ("task_completion", 0.83)]


async def test_a_trace_that_is_not_there_yet_is_waited_for(make):
    async with mlflow() as (sink, _):
        score = make.score()
        assert await sink.file([score]) == [score]
        assert await sink.file([score], final=True) == [score]


async def test_a_server_that_is_no_mlflow_is_told_from_a_trace_that_is_missing(make):
    async with before(MlflowSink, MlflowConfig) as (sink, tool):
        tool.answers["GET", f"{PREFIX}/tr-{TRACE_ID}"] = lambda body: (
            404,
            "<html>Not Found</html>",
        )
        with pytest.raises(UnsupportedSignalError):
            await sink.file([make.score()])


async def test_a_trace_of_nothing_but_evaluation_spans_is_waited_for(make):
    async with mlflow() as (sink, tool):
        score = make.score()
        tool.has_only_scores_of(TRACE_ID)
        assert await sink.file([score]) == [score]
        tool.has(TRACE_ID)
        assert not await sink.file([score])
        assert tool.values(TRACE_ID) == [("task_completion", 0.83)]


async def test_an_evaluated_span_that_never_comes_has_its_trace_assessed_in_the_end(make):
    async with mlflow() as (sink, tool):
        tool.has_only_scores_of(TRACE_ID)
        assert not await sink.file([make.score()], final=True)
        assert tool.values(TRACE_ID) == [("task_completion", 0.83)]


async def test_a_trace_whose_root_never_comes_is_assessed_when_the_evaluated_span_is_there(make):
    async with mlflow() as (sink, tool):
        tool.has(TRACE_ID, state="IN_PROGRESS")
        assert not await sink.file([make.score()])


async def test_an_mlflow_that_lists_no_spans_has_those_of_the_traces_that_it_has(make):
    async with mlflow() as (sink, tool):
        tool.has_only_scores_of(TRACE_ID)
        tool.lists_spans = False
        assert not await sink.file([make.score()])


async def test_a_sessions_score_is_on_the_trace_that_it_began_with(make):
    async with mlflow() as (sink, tool):
        tool.has(FIRST_ID, session_id="s-1")
        tool.has(TRACE_ID, session_id="s-1")
        assert not await sink.file([make.score(**SESSION)])
        assert (tool.values(FIRST_ID), tool.values(TRACE_ID)) == ([("task_completion", 0.83)], [])
        (assessment,) = tool.only(FIRST_ID).values()
        assert "span_id" not in assessment
        assert assessment["metadata"]["mlflow.trace.session"] == "s-1"


async def test_a_sessions_score_is_on_the_oldest_trace_also_where_spanscore_forgot_it(make):
    async with mlflow() as (sink, tool):
        tool.has("0d" * 16, session_id="s-1")
        tool.has(FIRST_ID, session_id="s-1")
        await sink.file([make.score(**SESSION)])
        assert tool.values("0d" * 16) == [("task_completion", 0.83)]


async def test_a_session_whose_first_trace_is_not_there_yet_is_waited_for(make):
    async with mlflow() as (sink, tool):
        score = make.score(**SESSION)
        tool.has(TRACE_ID, session_id="s-1")
        assert await sink.file([score]) == [score]
        assert not tool.values(TRACE_ID)


async def test_a_session_of_whose_first_trace_there_are_only_scores_is_waited_for(make):
    async with mlflow() as (sink, tool):
        score = make.score(**SESSION)
        tool.has_only_scores_of(FIRST_ID)
        tool.has_only_scores_of(TRACE_ID, "s-1")  # the session's own evaluation spans name it
        assert await sink.file([score]) == [score]
        tool.has(FIRST_ID, session_id="s-1")
        assert not await sink.file([score])
        assert tool.values(FIRST_ID) == [("task_completion", 0.83)]


async def test_a_session_whose_first_trace_never_comes_has_its_score_on_the_oldest_that_is_there(
    make,
):
    async with mlflow() as (sink, tool):
        tool.has("0d" * 16, session_id="s-1")
        tool.has(TRACE_ID, session_id="s-1")
        assert not await sink.file([make.score(**SESSION)], final=True)
        assert tool.values("0d" * 16) == [("task_completion", 0.83)]


async def test_a_session_that_went_on_has_one_score(make):
    async with mlflow() as (sink, tool):
        tool.has(FIRST_ID, session_id="s-1")
        await sink.file([make.score(**SESSION)])
        await sink.file([make.score(**SESSION, value=0.5, revision=2)])
        assert tool.values(FIRST_ID) == [("task_completion", 0.5)]


async def test_a_sessions_score_moves_when_an_older_trace_comes(make):
    async with mlflow() as (sink, tool):
        tool.has(TRACE_ID, session_id="s-1")
        await sink.file([make.score(**SESSION)], final=True)
        assert tool.values(TRACE_ID) == [("task_completion", 0.83)]
        tool.traces = {FIRST_ID: {"assessments": {}}} | tool.traces
        tool.has(FIRST_ID, session_id="s-1")
        await sink.file([make.score(**SESSION, value=0.5, revision=2)])
        assert (tool.values(FIRST_ID), tool.values(TRACE_ID)) == ([("task_completion", 0.5)], [])


async def test_a_session_that_mlflow_does_not_know_is_scored_on_its_first_trace(make):
    async with mlflow() as (sink, tool):
        tool.has(FIRST_ID)
        tool.has(TRACE_ID)
        await sink.file([make.score(**SESSION)])
        assert tool.values(FIRST_ID) == [("task_completion", 0.83)]


async def test_a_session_by_whose_id_mlflow_cannot_be_asked_is_scored_on_its_first_trace(make):
    async with mlflow() as (sink, tool):
        tool.has(FIRST_ID, session_id="it's")
        await sink.file([make.score(**SESSION)])
        assert tool.values(FIRST_ID) == [("task_completion", 0.83)]


async def test_a_session_scored_before_its_first_trace_was_noted_is_scored_on_the_evaluated_one(
    make,
):
    async with mlflow() as (sink, tool):
        tool.has(TRACE_ID, session_id="s-1")
        await sink.file([make.score(scope="session", subject_id="s-1")])
        assert tool.values(TRACE_ID) == [("task_completion", 0.83)]
