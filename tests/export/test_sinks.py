"""What each tool with an API of its own is sent, and what its answers mean, before a server that
plays the tool.
"""

import asyncio

import pytest
from tool_server import before

from spanscore.errors import PermanentError
from spanscore.export import open_exporters, open_sinks
from spanscore.export.config import Config, LangfuseConfig, PhoenixConfig
from spanscore.export.langfuse import LangfuseSink
from spanscore.export.phoenix import PhoenixSink
from spanscore.export.port import FaultError, UndeliveredError, UnsupportedSignalError
from spanscore.model.score import Result, Skip, Tally

KEYS = {"public_key": "pk-lf-1", "secret_key": "sk-lf-1"}
TRACE_ID, SPAN_ID = "0a" * 16, "0b" * 8


def phoenix():
    return before(PhoenixSink, PhoenixConfig)


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
        "identifier": "spanscore:cccccccc",
        "result": {"score": 0.83, "label": "pass", "explanation": "because"},
    }


async def test_phoenix_gets_how_all_metrics_came_out_under_a_name_that_sorts_first(make):
    results = Result("task_completion", 0.1, "fail", 0.5), Result("coherence", 0.42, "pass", 0.17)
    tally = Tally(results, reason="The user has no flight.")
    async with phoenix() as (sink, tool):
        await sink.file([make.score(tally=tally)])
    summary = min(tool.bodies("POST", "/v1/trace_annotations")[0]["data"], key=lambda x: x["name"])
    assert (summary["name"], summary["result"]["label"]) == ("_spanscore", "fail")
    assert "score" not in summary["result"]
    assert summary["result"]["explanation"].splitlines() == [
        "1 of 2 failed: task_completion: The user has no flight.",
        "task_completion = 0.10 (fail)",
        "coherence = 0.42 (pass)",
    ]


async def test_phoenix_gets_four_digits(make):
    async with phoenix() as (sink, tool):
        await sink.file([make.score(value=0.5050252531694168)])
    assert tool.bodies("POST", "/v1/span_annotations")[0]["data"][0]["result"]["score"] == 0.505


async def test_phoenix_gets_the_scores_whose_span_it_has_and_the_others_wait(make):
    there, absent = make.score(), make.score(target=make.target(), metric="x")
    absent = make.score(metric="x", target=type(there.target)(TRACE_ID, "0c" * 8, 1, 2))
    async with phoenix() as (sink, tool):
        tool.answers["POST", "/v1/span_annotations"] = without("0c" * 8)
        assert await sink.file([there, absent]) == [absent]
    filed = tool.bodies("POST", "/v1/span_annotations")[-1]["data"]
    assert [x["name"] for x in filed] == ["task_completion"]
    assert [x["name"] for x in tool.bodies("POST", "/v1/trace_annotations")[0]["data"]] == [
        "task_completion"
    ]


async def test_phoenix_gets_a_sessions_score_on_the_session(make):
    async with phoenix() as (sink, tool):
        await sink.file([make.score(scope="session", subject_id="s-1")])
    assert [x["session_id"] for x in tool.bodies("POST", "/v1/session_annotations")[0]["data"]] == [
        "s-1"
    ]


async def test_a_phoenix_without_annotations_of_sessions_gets_them_on_the_span(make):
    async with phoenix() as (sink, tool):
        tool.answers["POST", "/v1/session_annotations"] = lambda body: (
            405,
            {"detail": "Method Not Allowed"},
        )
        await sink.file([make.score(scope="session", subject_id="s-1")])
    assert len(tool.bodies("POST", "/v1/span_annotations")) == 1


async def test_a_session_that_phoenix_does_not_know_is_scored_on_its_last_span(make):
    async with phoenix() as (sink, tool):
        tool.answers["POST", "/v1/session_annotations"] = lambda body: (
            404,
            "Sessions with IDs s-1 do not exist.",
        )
        assert not await sink.file([make.score(scope="session", subject_id="s-1")])
    assert [x["span_id"] for x in tool.bodies("POST", "/v1/span_annotations")[0]["data"]] == [
        SPAN_ID
    ]


async def test_an_unknown_session_with_a_comma_in_its_id_is_found_in_the_answer(make):
    async with phoenix() as (sink, tool):
        tool.answers["POST", "/v1/session_annotations"] = lambda body: (
            404,
            "Sessions with IDs a, b do not exist.",
        )
        assert not await sink.file(
            [make.score(scope="session", subject_id="a, b", session_id="a, b")]
        )
    assert len(tool.bodies("POST", "/v1/span_annotations")) == 1


async def test_a_session_whose_span_is_not_there_either_is_waited_for(make):
    async with phoenix() as (sink, tool):
        tool.answers["POST", "/v1/session_annotations"] = lambda body: (
            404,
            "Sessions with IDs s-1 do not exist.",
        )
        tool.answers["POST", "/v1/span_annotations"] = without(SPAN_ID)
        score = make.score(scope="session", subject_id="s-1")
        assert await sink.file([score]) == [score]


async def test_in_phoenix_turns_that_share_a_span_do_not_replace_each_others_scores(make):
    async with phoenix() as (sink, tool):
        await sink.file([make.score(), make.score(subject_id="d" * 32)])
    filed = tool.bodies("POST", "/v1/span_annotations")[0]["data"]
    assert len({x["identifier"] for x in filed}) == 2


async def test_a_turn_without_a_span_is_scored_on_its_trace_in_phoenix(make):
    score = make.score(target=make.target(span_id=""))
    async with phoenix() as (sink, tool):
        assert not await sink.file([score])
    assert not tool.bodies("POST", "/v1/span_annotations")
    assert [x["trace_id"] for x in tool.bodies("POST", "/v1/trace_annotations")[0]["data"]] == [
        TRACE_ID
    ]


async def test_a_turn_without_a_span_whose_trace_phoenix_has_not_got_is_waited_for(make):
    score = make.score(target=make.target(span_id=""))
    async with phoenix() as (sink, tool):
        told = f"Traces with IDs {TRACE_ID} do not exist."
        tool.answers["POST", "/v1/trace_annotations"] = lambda body: (404, told)
        assert await sink.file([score]) == [score]


async def test_an_unknown_session_without_a_span_is_scored_on_its_last_trace_in_phoenix(make):
    score = make.score(scope="session", subject_id="s-1", target=make.target(span_id=""))
    async with phoenix() as (sink, tool):
        tool.answers["POST", "/v1/session_annotations"] = lambda body: (
            404,
            "Sessions with IDs s-1 do not exist.",
        )
        assert not await sink.file([score])
    assert [x["trace_id"] for x in tool.bodies("POST", "/v1/trace_annotations")[0]["data"]] == [
        TRACE_ID
    ]


async def test_a_failure_has_no_score_in_phoenix(make):
    async with phoenix() as (sink, tool):
        await sink.file([make.failed()])
    (filed,) = tool.bodies("POST", "/v1/span_annotations")[0]["data"]
    assert filed["result"] == {"explanation": "JudgeTimeoutError: no answer"}


async def test_a_session_that_rests_on_no_signal_has_no_score_in_phoenix(make):
    skip = Skip("coherence is missing", "no_signals")
    async with phoenix() as (sink, tool):
        await sink.file([make.score(outcome=skip, scope="session", subject_id="s-1")])
    (filed,) = tool.bodies("POST", "/v1/session_annotations")[0]["data"]
    assert filed["result"] == {"explanation": "coherence is missing"}


async def test_a_server_that_is_no_phoenix_is_told_from_a_span_that_is_missing(make):
    async with phoenix() as (sink, tool):
        tool.answers["POST", "/v1/span_annotations"] = lambda body: (404, {"detail": "Not Found"})
        with pytest.raises(UnsupportedSignalError):
            await sink.file([make.score()])


@pytest.mark.parametrize(
    ("status", "error"), [(503, UndeliveredError), (500, FaultError), (422, PermanentError)]
)
async def test_answers_are_sorted(make, status, error):
    async with langfuse() as (sink, tool):
        tool.answers["POST", "/api/public/ingestion"] = lambda body: (status, {"message": "no"})
        with pytest.raises(error, match=rf"{status}.*no"):
            await sink.file([make.score()])


async def test_an_endpoint_that_redirects_is_waited_for(make):
    async with phoenix() as (sink, tool):
        tool.answers["POST", "/v1/span_annotations"] = lambda body: (302, "")
        with pytest.raises(UndeliveredError, match="redirects"):
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
