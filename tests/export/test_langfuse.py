"""What Langfuse gets, before a server that checks each request against Langfuse's own description
of its API.
"""

import asyncio
from contextlib import asynccontextmanager
from datetime import datetime
from uuid import UUID

import pytest
from aiohttp import web
from langfuse_server import Langfuse

from spanscore.errors import PermanentError
from spanscore.export.config import LangfuseConfig
from spanscore.export.delivery import Surroundings
from spanscore.export.filer import Filing
from spanscore.export.langfuse import LangfuseSink
from spanscore.export.port import FaultError, UndeliveredError, UnsupportedSignalError
from spanscore.model.score import Result, Score, Tally
from spanscore.telemetry import Meter

TRACE_ID, SPAN_ID = "0a" * 16, "0b" * 8
DAY_NS = 24 * 3600 * 10**9


@asynccontextmanager
async def langfuse(**settings):
    """A sink and the Langfuse that it speaks to, which at the end had nothing against what it was
    sent.
    """
    tool = Langfuse()
    app = web.Application(client_max_size=8 << 20)
    app.router.add_route("*", "/{path:.*}", tool.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    public_key, secret_key = tool.keys
    keys = {"public_key": public_key, "secret_key": secret_key}
    sink = LangfuseSink(LangfuseConfig.model_validate({"endpoint": url, **keys, **settings}))
    try:
        yield sink, tool
        assert tool.problems == []
    finally:
        await sink.close()
        await runner.cleanup()


def places(tool):
    """Where the kept scores are."""
    return [
        {key for key in ("traceId", "observationId", "sessionId") if key in x} for x in tool.scores
    ]


async def test_a_traces_score_is_on_the_trace_and_on_the_evaluated_observation(make):
    async with langfuse() as (sink, tool):
        assert not await sink.file([make.score()])
    assert sorted(places(tool), key=len) == [{"traceId"}, {"traceId", "observationId"}]
    assert {x["traceId"] for x in tool.scores} | {x.get("observationId") for x in tool.scores} == {
        TRACE_ID,
        SPAN_ID,
        None,
    }


@pytest.mark.parametrize(
    ("place", "expected"), [("trace", {"traceId"}), ("observation", {"traceId", "observationId"})]
)
async def test_a_traces_score_can_be_on_one_of_the_two_alone(make, place, expected):
    async with langfuse(trace_scores_on=place) as (sink, tool):
        await sink.file([make.score()])
    assert places(tool) == [expected]


async def test_a_sessions_score_is_on_the_session_alone(make):
    async with langfuse() as (sink, tool):
        await sink.file([make.score(scope="session", subject_id="s-1")])
    assert (places(tool), tool.scores[0]["sessionId"]) == ([{"sessionId"}], "s-1")


async def test_without_an_evaluated_span_the_score_is_on_the_trace(make):
    async with langfuse(trace_scores_on="observation") as (sink, tool):
        await sink.file([make.score(target=make.target(span_id=""))])
    assert places(tool) == [{"traceId"}]


async def test_a_score_is_a_number_with_its_verdict_and_reason_as_comment(make):
    async with langfuse() as (sink, tool):
        await sink.file([make.score()])
    body = tool.scores[0]
    assert (body["name"], body["value"], body["dataType"], body["comment"]) == (
        "task_completion",
        0.83,
        "NUMERIC",
        "pass (0.83, passes from 0.5): because",
    )


async def test_a_number_has_four_digits(make):
    async with langfuse() as (sink, tool):
        await sink.file([make.score(value=0.5050252531694168)])
    assert {x["value"] for x in tool.scores} == {0.505}


async def test_how_all_metrics_came_out_is_a_category_to_filter_by(make):
    tally = Tally((Result("task_completion", 0.1, "fail", 0.5),))
    async with langfuse(trace_scores_on="trace") as (sink, tool):
        assert not await sink.file([make.failed(tally=tally)])
    (body,) = tool.scores
    assert (body["name"], body["value"], body["dataType"]) == ("_spanscore", "fail", "CATEGORICAL")
    assert body["comment"].startswith("fail: 1 of 1 failed: task_completion")


async def test_how_all_metrics_came_out_is_where_the_scores_are(make):
    score = make.score(tally=Tally((Result("task_completion", 0.1, "fail", 0.5),)))
    async with langfuse() as (sink, tool):
        await sink.file([score])
        names = [x["name"] for x in tool.scores]
    assert sorted(names) == ["_spanscore", "_spanscore", "task_completion", "task_completion"]


async def test_a_score_says_what_it_rests_on_and_when_it_was_measured(make):
    async with langfuse() as (sink, tool):
        await sink.file([make.score()])
    metadata = tool.scores[0]["metadata"]
    assert (metadata["spanscore.evaluator.model"], metadata["spanscore.evaluated_at"]) == (
        "gpt-4o",
        "2023-11-14T22:13:33.189Z",
    )


async def test_filed_again_every_score_and_event_has_the_same_id(make):
    evaluations = [make.score(), make.score("other"), make.score(scope="session", subject_id="s-1")]
    async with langfuse() as (sink, tool):
        await sink.file(evaluations)
        before = set(tool.kept), set(tool.events)
        await sink.file(evaluations)
        assert (set(tool.kept), set(tool.events)) == before


async def test_another_sink_gives_the_same_ids(make):
    found = []
    for _ in range(2):
        async with langfuse() as (sink, tool):
            await sink.file([make.score()])
        found.append((set(tool.kept), set(tool.events)))
    assert found[0] == found[1]


async def test_events_have_uuids(make):
    async with langfuse() as (sink, tool):
        await sink.file([make.score()])
    assert {UUID(x).version for x in tool.events} == {4}


async def test_a_later_revision_replaces_the_score_also_days_later(make):
    later = make.score(value=0.2, revision=2, evaluated_at_ns=make.end_ns + 3 * DAY_NS)
    async with langfuse() as (sink, tool):
        await sink.file([make.score()])
        await sink.file([later])
    assert [x["value"] for x in tool.scores] == [0.2, 0.2]


async def test_an_earlier_revision_that_comes_again_does_not_replace_a_later_one(make):
    async with langfuse() as (sink, tool):
        await sink.file([make.score(value=0.2, revision=2)])
        await sink.file([make.score()])
    assert [x["value"] for x in tool.scores] == [0.2, 0.2]


async def test_a_session_that_goes_on_keeps_one_score(make):
    goes_on = make.target(end_ns=make.end_ns + 60 * 10**9, span_id="0c" * 8)
    session = {"scope": "session", "subject_id": "s-1"}
    async with langfuse() as (sink, tool):
        await sink.file([make.score(**session)])
        await sink.file([make.score(value=0.4, revision=2, target=goes_on, **session)])
    assert [x["value"] for x in tool.scores] == [0.4]


async def test_the_time_of_a_score_is_the_end_of_the_evaluated_span(make):
    async with langfuse() as (sink, tool):
        await sink.file([make.score()])
    times = {datetime.fromisoformat(timestamp) for timestamp, _ in tool.kept.values()}
    assert [x.timestamp() for x in times] == [make.end_ns / 1e9]


@pytest.mark.parametrize(
    ("resource", "environment"),
    [
        ({}, None),
        ({"deployment.environment.name": "prod-eu"}, "prod-eu"),
        ({"deployment.environment": "staging"}, "staging"),
        ({"langfuse.environment": "a", "deployment.environment": "b"}, "a"),
        ({"deployment.environment": "Production"}, None),
        ({"deployment.environment": "langfuse-internal"}, None),
        ({"deployment.environment": 7}, None),
    ],
)
async def test_a_score_is_in_the_environment_of_its_trace(make, resource, environment):
    async with langfuse(trace_scores_on="trace") as (sink, tool):
        await sink.file([make.score(target=make.target(resource=resource))])
    assert tool.scores[0].get("environment") == environment


async def test_failures_and_skips_are_not_filed(make):
    async with langfuse() as (sink, tool):
        assert not await sink.file([make.failed(), make.skipped()])
    assert tool.requests == []


@pytest.mark.slow
async def test_many_long_scores_leave_in_requests_that_langfuse_takes(make):
    long = [make.score(f"m{n}", outcome=Score(1.0, "é" * 8000)) for n in range(200)]
    async with langfuse() as (sink, tool):
        assert not await sink.file(long)
    assert (len(tool.scores), len(tool.requests) > 1) == (400, True)


async def test_one_request_carries_many_scores(make):
    async with langfuse() as (sink, tool):
        await sink.file([make.score(f"m{n}") for n in range(50)])
    assert len(tool.requests) == 1


async def test_a_trace_that_langfuse_has_not_got_yet_is_waited_for_alone(make):
    here, absent = make.score("here"), make.score("absent", target=make.target(span_id="0c" * 8))
    async with langfuse() as (sink, tool):
        tool.absent = {"0c" * 8}
        assert await sink.file([here, absent]) == [absent]
        tool.absent = set()
        assert not await sink.file([absent])
    assert {x["name"] for x in tool.scores} == {"here", "absent"}


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, PermanentError), (500, FaultError), (429, UndeliveredError), (401, UndeliveredError)],
)
async def test_what_it_says_of_a_single_score_is_sorted(make, status, error):
    async with langfuse() as (sink, tool):
        tool.failing = {"task_completion": status}
        with pytest.raises(error, match="2 of 2 scores not taken: no"):
            await sink.file([make.score()])


@pytest.mark.parametrize(
    "answer", [{"errors": ["no"]}, {"errors": [{}]}, {"errors": [{"status": [400]}]}]
)
async def test_an_error_that_it_does_not_sort_may_pass_or_be_the_scores_fault(make, answer):
    async with langfuse() as (sink, tool):
        tool.odd_answer = answer
        with pytest.raises(FaultError, match="1 of 2 scores not taken"):
            await sink.file([make.score()])


@pytest.mark.parametrize("answer", [None, [], "done", {}, {"errors": None}, {"errors": {}}])
async def test_an_answer_without_errors_is_taken_for_success(make, answer):
    async with langfuse() as (sink, tool):
        tool.odd_answer = answer
        assert not await sink.file([make.score()])


async def test_a_rejected_list_of_scores_is_refused(make):
    async with langfuse() as (sink, tool):
        tool.gone, tool.odd_answer = (
            {"/api/public/ingestion"},
            {"accepted": 1, "rejected": 1, "errors": [{"message": "no"}]},
        )
        with pytest.raises(PermanentError, match="1 of 2 scores not taken: no"):
            await sink.file([make.score()])


async def test_wrong_keys_are_retried_and_said(make):
    async with langfuse(public_key="pk-lf-wrong") as (sink, _):
        with pytest.raises(UndeliveredError, match=r"401.*check the credentials"):
            await sink.file([make.score()])


async def test_a_langfuse_that_takes_no_events_any_more_gets_a_list_of_scores(make):
    async with langfuse() as (sink, tool):
        tool.gone = {"/api/public/ingestion"}
        await sink.file([make.score()])
        await sink.file([make.score(value=0.2, revision=2)])
    assert [x["value"] for x in tool.scores] == [0.2, 0.2]
    assert tool.requests == ["/api/public/ingestion", "/api/public/scores", "/api/public/scores"]


async def test_a_langfuse_with_neither_way_is_asked_for_both_again(make):
    async with langfuse() as (sink, tool):
        tool.gone = {"/api/public/ingestion", "/api/public/scores"}
        with pytest.raises(UnsupportedSignalError):
            await sink.file([make.score()])
        tool.gone = set()
        await sink.file([make.score()])
    assert tool.requests[-1] == "/api/public/ingestion"


async def test_scores_are_retried_until_each_is_there_once(make, clock, fakes):
    async with langfuse() as (sink, tool):
        tool.answers = [503, 500, 429, 502]
        outbox = fakes.Outbox()
        config = LangfuseConfig.model_validate({"public_key": "a", "secret_key": "b"})
        filing = Filing(
            "langfuse", sink, config, outbox, Surroundings(clock, clock.sleep, lambda: 0.5, Meter())
        )
        outbox.pairs += make.many(1, 2, 3)
        task = asyncio.create_task(filing.run(lambda: None))
        filing.offer(outbox.last_seq)
        async with asyncio.timeout(20):
            while outbox.cursors.get("langfuse") != 3:  # noqa: ASYNC110 - what is awaited is a fake's state
                await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.wait([task])
    assert sorted(x["name"] for x in tool.scores) == ["m1", "m1", "m2", "m2", "m3", "m3"]
