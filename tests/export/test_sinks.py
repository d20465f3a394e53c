"""What each tool with an API of its own is sent, and what its answers mean, before a server that plays the tool."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from spanscore.errors import PermanentError
from spanscore.export.config import Config, LangfuseConfig, MlflowConfig, PhoenixConfig
from spanscore.export.langfuse import LangfuseSink
from spanscore.export.mlflow import MlflowSink
from spanscore.export.opening import open_exporters, open_sinks
from spanscore.export.phoenix import PhoenixSink
from spanscore.export.port import UndeliveredError, UnsupportedSignalError
from spanscore.export.sink import ToolFaultError

KEYS = {"public_key": "pk-lf-1", "secret_key": "sk-lf-1"}
TRACE_ID, SPAN_ID = "0a" * 16, "0b" * 8


class FakeTool:
    """Answers by `answers`: path (without query) to a function of the request's JSON; remembers what it was asked."""

    def __init__(self):
        self.asked, self.answers, self.headers = [], {}, {}

    async def handle(self, request):
        text = await request.text()
        body = json.loads(text) if text else None
        self.headers = dict(request.headers)
        self.asked.append((request.method, request.path, body))
        answer = self.answers.get((request.method, request.path), lambda body: (200, {}))(body)
        status, shown = answer
        return (
            web.json_response(shown, status=status)
            if not isinstance(shown, str)
            else web.Response(status=status, text=shown)
        )

    def bodies(self, method, path):
        return [body for asked, at, body in self.asked if (asked, at) == (method, path)]


@asynccontextmanager
async def before(kind, config, **settings):
    """A sink and the tool that it speaks to."""
    tool = FakeTool()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", tool.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    sink = kind(config.model_validate({"endpoint": url, **settings}))
    try:
        yield sink, tool
    finally:
        await sink.close()
        await sink.close()
        await runner.cleanup()


def phoenix():
    return before(PhoenixSink, PhoenixConfig)


def mlflow():
    return before(MlflowSink, MlflowConfig)


def langfuse():
    return before(LangfuseSink, LangfuseConfig, **KEYS)


def without(*unknown):
    """Phoenix's answer where it does not know these ids."""

    def answer(body):
        found = [x["span_id"] for x in body["data"] if x["span_id"] in unknown]
        return (404, f"Spans with IDs {', '.join(found)} do not exist.") if found else (200, {})

    return answer


async def test_phoenix_gets_an_annotation_of_the_span_and_of_its_trace(make):
    async with phoenix() as (sink, tool):
        assert not await sink.file([make.score()])
    (of_span,) = tool.bodies("POST", "/v1/span_annotations")[0]["data"]
    (of_trace,) = tool.bodies("POST", "/v1/trace_annotations")[0]["data"]
    assert (of_span.pop("span_id"), of_trace.pop("trace_id")) == (SPAN_ID, TRACE_ID)
    assert of_span == of_trace
    assert of_span.pop("metadata")["spanscore.evaluator.model"] == "gpt-4o"
    assert of_span == {
        "name": "task_completion",
        "annotator_kind": "LLM",
        "identifier": "spanscore",
        "result": {"score": 0.83, "label": "pass", "explanation": "because"},
    }


async def test_phoenix_gets_the_scores_whose_span_it_has_and_the_others_wait(make):
    there, absent = make.score(), make.score(target=make.target(), metric="x")
    absent = make.score(metric="x", target=type(there.target)(TRACE_ID, "0c" * 8, 1, 2))
    async with phoenix() as (sink, tool):
        tool.answers["POST", "/v1/span_annotations"] = without("0c" * 8)
        assert await sink.file([there, absent]) == [absent]
    filed = tool.bodies("POST", "/v1/span_annotations")[-1]["data"]
    assert [x["name"] for x in filed] == ["task_completion"]
    assert [x["name"] for x in tool.bodies("POST", "/v1/trace_annotations")[0]["data"]] == ["task_completion"]


async def test_phoenix_gets_a_sessions_score_on_the_session(make):
    async with phoenix() as (sink, tool):
        await sink.file([make.score(scope="session", subject_id="s-1")])
    assert [x["session_id"] for x in tool.bodies("POST", "/v1/session_annotations")[0]["data"]] == ["s-1"]


async def test_a_phoenix_without_annotations_of_sessions_gets_them_on_the_span(make):
    async with phoenix() as (sink, tool):
        tool.answers["POST", "/v1/session_annotations"] = lambda body: (405, {"detail": "Method Not Allowed"})
        await sink.file([make.score(scope="session", subject_id="s-1")])
    assert len(tool.bodies("POST", "/v1/span_annotations")) == 1


async def test_a_session_that_phoenix_does_not_know_is_scored_on_its_last_span(make):
    async with phoenix() as (sink, tool):
        tool.answers["POST", "/v1/session_annotations"] = lambda body: (404, "Sessions with IDs s-1 do not exist.")
        assert not await sink.file([make.score(scope="session", subject_id="s-1")])
    assert [x["span_id"] for x in tool.bodies("POST", "/v1/span_annotations")[0]["data"]] == [SPAN_ID]


async def test_an_unknown_session_with_a_comma_in_its_id_is_found_in_the_answer(make):
    async with phoenix() as (sink, tool):
        tool.answers["POST", "/v1/session_annotations"] = lambda body: (404, "Sessions with IDs a, b do not exist.")
        assert not await sink.file([make.score(scope="session", subject_id="a, b", session_id="a, b")])
    assert len(tool.bodies("POST", "/v1/span_annotations")) == 1


async def test_a_session_whose_span_is_not_there_either_is_waited_for(make):
    async with phoenix() as (sink, tool):
        tool.answers["POST", "/v1/session_annotations"] = lambda body: (404, "Sessions with IDs s-1 do not exist.")
        tool.answers["POST", "/v1/span_annotations"] = without(SPAN_ID)
        score = make.score(scope="session", subject_id="s-1")
        assert await sink.file([score]) == [score]


async def test_a_failure_has_no_score_in_phoenix(make):
    async with phoenix() as (sink, tool):
        await sink.file([make.failed()])
    (filed,) = tool.bodies("POST", "/v1/span_annotations")[0]["data"]
    assert filed["result"] == {"explanation": "JudgeTimeoutError: no answer"}


async def test_a_server_that_is_no_phoenix_is_told_from_a_span_that_is_missing(make):
    async with phoenix() as (sink, tool):
        tool.answers["POST", "/v1/span_annotations"] = lambda body: (404, {"detail": "Not Found"})
        with pytest.raises(UnsupportedSignalError):
            await sink.file([make.score()])


def traced(*assessments):
    return lambda body: (200, {"trace": {"trace_info": {"assessments": list(assessments)}}})


async def test_mlflow_gets_an_assessment(make):
    path = f"/api/3.0/mlflow/traces/tr-{TRACE_ID}"
    async with mlflow() as (sink, tool):
        tool.answers["GET", path] = traced()
        assert not await sink.file([make.score()])
    assessment = tool.bodies("POST", f"{path}/assessments")[0]["assessment"]
    assert assessment.pop("metadata")["spanscore.label"] == "pass"
    assert assessment == {
        "assessment_name": "task_completion",
        "trace_id": f"tr-{TRACE_ID}",
        "span_id": SPAN_ID,
        "source": {"source_type": "LLM_JUDGE", "source_id": "gpt-4o"},
        "feedback": {"value": 0.83},
        "rationale": "because",
    }


async def test_an_assessment_that_mlflow_has_is_changed_and_not_added(make):
    path = f"/api/3.0/mlflow/traces/tr-{TRACE_ID}"
    metadata = {"spanscore.uid": "1", "spanscore.scope": "trace", "spanscore.agent_trace_id": "c" * 32}
    ours = {"assessment_id": "a-1", "assessment_name": "task_completion", "span_id": "0d" * 8, "metadata": metadata}
    async with mlflow() as (sink, tool):
        tool.answers["GET", path] = traced({**ours, "assessment_id": "a-2", "metadata": None}, ours)
        await sink.file([make.score(value=0.5, revision=2)])
    (change,) = tool.bodies("PATCH", f"{path}/assessments/a-1")
    assert change["assessment"]["feedback"] == {"value": 0.5}
    assert change["update_mask"] == "feedback,rationale,metadata"
    assert not tool.bodies("POST", f"{path}/assessments")


async def test_the_assessment_of_another_turn_in_the_same_trace_is_left_alone(make):
    path = f"/api/3.0/mlflow/traces/tr-{TRACE_ID}"
    metadata = {"spanscore.uid": "1", "spanscore.scope": "trace", "spanscore.agent_trace_id": "e" * 32}
    others = {"assessment_id": "a-1", "assessment_name": "task_completion", "span_id": SPAN_ID, "metadata": metadata}
    async with mlflow() as (sink, tool):
        tool.answers["GET", path] = traced(others)
        await sink.file([make.score()])
    assert len(tool.bodies("POST", f"{path}/assessments")) == 1


def in_session(name, *assessments):
    place = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": "7"}}
    info = {"trace_id": name, "trace_location": place, "trace_metadata": {"mlflow.trace.session": "s-1"}}
    return info | {"assessments": list(assessments)}


def before_session(tool, *assessments):
    """MLflow has the evaluated trace, and another that its session began with."""
    target = in_session(f"tr-{TRACE_ID}")
    tool.answers["GET", f"/api/3.0/mlflow/traces/tr-{TRACE_ID}"] = lambda body: (200, {"trace": {"trace_info": target}})
    first = in_session("tr-first", *assessments)
    tool.answers["POST", "/api/3.0/mlflow/traces/search"] = lambda body: (200, {"traces": [first]})


async def test_mlflow_gets_a_sessions_score_on_the_trace_that_the_session_began_with(make):
    async with mlflow() as (sink, tool):
        before_session(tool)
        await sink.file([make.score(scope="session", subject_id="s-1")])
    (filed,) = tool.bodies("POST", "/api/3.0/mlflow/traces/tr-first/assessments")
    assert "span_id" not in filed["assessment"]
    assert filed["assessment"]["metadata"]["mlflow.trace.session"] == "s-1"
    (asked,) = tool.bodies("POST", "/api/3.0/mlflow/traces/search")
    assert asked["filter"] == "metadata.`mlflow.trace.session` = 's-1'"


async def test_the_score_of_a_session_that_went_on_replaces_the_one_before(make):
    metadata = {"spanscore.uid": "1", "spanscore.scope": "session"}
    async with mlflow() as (sink, tool):
        before_session(tool, {"assessment_id": "a-1", "assessment_name": "task_completion", "metadata": metadata})
        await sink.file([make.score(scope="session", subject_id="s-1", revision=2)])
    assert tool.bodies("PATCH", "/api/3.0/mlflow/traces/tr-first/assessments/a-1")


async def test_a_session_that_mlflow_does_not_know_is_scored_on_its_last_trace(make):
    async with mlflow() as (sink, tool):
        tool.answers["GET", f"/api/3.0/mlflow/traces/tr-{TRACE_ID}"] = traced()
        await sink.file([make.score(scope="session", subject_id="s-1")])
    assert tool.bodies("POST", f"/api/3.0/mlflow/traces/tr-{TRACE_ID}/assessments")


async def test_a_failure_is_an_error_in_mlflow(make):
    async with mlflow() as (sink, tool):
        await sink.file([make.failed()])
    assessment = tool.bodies("POST", f"/api/3.0/mlflow/traces/tr-{TRACE_ID}/assessments")[0]["assessment"]
    assert assessment["feedback"] == {"error": {"error_code": "JudgeTimeoutError", "error_message": "no answer"}}


async def test_a_trace_that_mlflow_has_not_got_yet_is_waited_for(make):
    async with mlflow() as (sink, tool):
        tool.answers["GET", f"/api/3.0/mlflow/traces/tr-{TRACE_ID}"] = lambda body: (404, {})
        score = make.score()
        assert await sink.file([score]) == [score]


@pytest.mark.parametrize(("status", "error"), [(503, UndeliveredError), (500, ToolFaultError), (422, PermanentError)])
async def test_answers_are_sorted(make, status, error):
    async with langfuse() as (sink, tool):
        tool.answers["POST", "/api/public/ingestion"] = lambda body: (status, {"message": "no"})
        with pytest.raises(error, match=rf"{status}.*no"):
            await sink.file([make.score()])


async def test_a_tool_that_is_not_there_is_waited_for(make):
    sink = PhoenixSink(PhoenixConfig(endpoint="http://127.0.0.1:1"))
    with pytest.raises(UndeliveredError):
        await sink.file([make.score()])
    await sink.close()


def test_sinks_are_opened_by_their_names():
    async def names():
        config = Config.model_validate(
            {"exporters": {"phoenix": None, "mlflow/a": None, "langfuse": KEYS, "otlp_http": None}}
        )
        return sorted(open_sinks(config)), sorted(open_exporters(config))

    assert asyncio.run(names()) == (["langfuse", "mlflow/a", "phoenix"], ["otlp_http"])
