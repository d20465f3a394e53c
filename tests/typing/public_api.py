"""What type checkers see of the public API: mypy checks this file, and nothing runs it."""

from collections.abc import Sequence
from typing import assert_type

import spanscore
from spanscore.api.v1 import (
    analytics_service_pb2,
    monitor_service_pb2,
    run_service_pb2,
    score_pb2,
    trace_service_pb2,
)
from spanscore.api.v1.agent_trace_pb2 import AgentTrace
from spanscore.dialects.reading import Context, Dialect, Facts, Span
from spanscore.testing import ToolCall, agent_trace, measure


@spanscore.metric
def short(trace: spanscore.AgentTrace) -> float:
    return 1.0 if len(trace.final_output or "") < 100 else 0.0


@spanscore.tool
def weather(city: str, *, unit: str = "celsius") -> dict[str, float]:
    return {city: 21.0 if unit == "celsius" else 70.0}


@spanscore.tool
async def book(flight: str) -> bool:
    return flight != ""


async def tools_keep_their_signatures() -> None:
    assert_type(weather("Rome", unit="celsius"), dict[str, float])
    assert_type(await book("LH1"), bool)


def a_misspelt_name_is_found() -> None:
    spanscore.evalute("traces.jsonl")  # type: ignore[attr-defined]


def scores_have_types() -> None:
    report = spanscore.evaluate(
        "traces.jsonl", metrics=["task_completion", short], judge="gpt-4o-mini"
    )
    assert_type(report, spanscore.Report)
    traces: Sequence[spanscore.AgentTrace] = report.traces
    assert_type(traces[0].final_output, str | None)


def turns_are_context_managers() -> None:
    with spanscore.turn("Fly me to Rome", session_id="chat-7", tools=[weather, book]) as turn:
        turn.plan("look up, then book")
        turn.answer("done")
    spanscore.record_score("helpful", True, comment="quick", source="human", trace=turn)


def read(span: Span, context: Context) -> Facts:
    facts: Facts = {"kind": "agent", "input": ()} if context.outermost else {"kind": "other"}
    return facts


def dialects_are_values() -> None:
    assert_type(Dialect(name="acme", read=read, prefilters=(b"acme",), scopes=("acme",)), Dialect)
    assert_type(agent_trace().tool_calls, tuple[ToolCall, ...] | None)
    measure("coherence", agent_trace())


def the_clients_keywords_have_types(client: spanscore.Client) -> None:
    assert_type(next(client.scores.list(filter="value < 0.5", failing=True)), score_pb2.Score)
    assert_type(client.scores.create(metric="helpful", trace_id="a", value=1.0), score_pb2.Score)
    assert_type(client.traces.get("a"), AgentTrace)
    assert_type(next(client.traces.list(service_name="shop")), trace_service_pb2.TraceSummary)
    assert_type(next(client.sessions.list()), trace_service_pb2.Session)
    assert_type(
        client.monitors.create(metric="coherence", run={"share": 0.1}), monitor_service_pb2.Monitor
    )
    assert_type(client.runs.create(count=5), run_service_pb2.Run)
    assert_type(client.analytics.trend(unit="day")[0], analytics_service_pb2.ScoreTrend)


def a_misspelt_keyword_of_the_client_is_found(client: spanscore.Client) -> None:
    client.scores.list(metrics="coherence")  # type: ignore[call-arg]
    client.analytics.trend(unit="days")  # type: ignore[arg-type]


async def the_asynchronous_client_is_awaited(client: spanscore.AsyncClient) -> None:
    assert_type(
        await client.scores.create(metric="helpful", session_id="s", label="pass"), score_pb2.Score
    )
    assert_type(await client.monitors.trigger("m"), monitor_service_pb2.MonitorTick)
    async for session in client.sessions.list(filter="failing = true"):
        assert_type(session, trace_service_pb2.Session)
