"""The methods with keywords: which request each sends, by both clients."""

import asyncio

import pytest
from google.protobuf import json_format, message_factory
from serving import serving

from spanscore import AsyncClient, Client
from spanscore.api.servicer import Servicer, needs
from spanscore.api.v1 import (
    analytics_service_pb2,
    monitor_service_pb2,
    score_service_pb2,
    trace_service_pb2,
)


class Noted(Servicer):
    """Notes the requests of a service, and answers each with an empty message."""

    def __init__(self, proto, service, asked):
        self.service = proto.DESCRIPTOR.services_by_name[service]
        self.asked = asked

    def __getattr__(self, name):
        method = next((x for x in self.service.methods if _snake(x.name) == name), None)
        if method is None:
            raise AttributeError(name)

        @needs("read")
        async def answer(request, call):
            self.asked.append((method.name, json_format.MessageToDict(request)))
            return message_factory.GetMessageClass(method.output_type)()

        return answer


def _snake(name):
    return "".join(f"_{x.lower()}" if x.isupper() else x for x in name).lstrip("_")


CALLS = [
    ("scores", "get", ("a1",), {}, "GetScore", {"name": "scores/a1"}),
    (
        "scores",
        "list",
        (),
        {"filter": "value < 0.5", "service_name": "shop", "run": "r1", "failing": True},
        "ListScores",
        {"filter": "value < 0.5", "serviceName": "shop", "run": "runs/r1", "failing": True},
    ),
    (
        "scores",
        "create",
        (),
        {
            "metric": "helpful",
            "trace_id": "t",
            "value": 0.5,
            "scale": (0, 1),
            "author": "ann",
            "metadata": {"a": [1]},
        },
        "CreateScore",
        {
            "score": {
                "metric": "helpful",
                "traceId": "t",
                "value": 0.5,
                "scale": {"high": 1.0},
                "metadataJson": '{"a":[1]}',
                "evaluator": {"source": "human", "author": "ann"},
            }
        },
    ),
    (
        "scores",
        "create",
        (),
        {
            "metric": "helpful",
            "trace_id": "t",
            "scale": None,
            "metadata": None,
            "scope": None,
            "source": None,
        },
        "CreateScore",
        {"score": {"metric": "helpful", "traceId": "t", "evaluator": {"source": "human"}}},
    ),
    (
        "scores",
        "update",
        ("a1",),
        {"metadata": None, "scale": None},
        "UpdateScore",
        {"score": {"name": "scores/a1"}, "updateMask": "metadataJson,scale"},
    ),
    ("scores", "list", (), {"run": None}, "ListScores", {}),
    ("analytics", "trend", (), {"unit": None}, "QueryScoreTrend", {}),
    (
        "scores",
        "update",
        ("a1",),
        {"label": "fail", "etag": "e"},
        "UpdateScore",
        {"score": {"name": "scores/a1", "label": "fail", "etag": "e"}, "updateMask": "label"},
    ),
    (
        "scores",
        "delete",
        ("scores/a1",),
        {"allow_missing": True},
        "DeleteScore",
        {"name": "scores/a1", "allowMissing": True},
    ),
    ("traces", "get", ("ab",), {}, "GetTrace", {"name": "traces/ab"}),
    ("traces", "list", (), {"session_id": "s"}, "ListTraces", {"sessionId": "s"}),
    (
        "traces",
        "evaluate",
        ("ab",),
        {"metrics": ["coherence"], "threshold": 0.5},
        "EvaluateTrace",
        {"name": "traces/ab", "metrics": ["coherence"], "threshold": 0.5},
    ),
    ("sessions", "get", ("a/b",), {}, "GetSession", {"name": "sessions/a%2Fb"}),
    (
        "sessions",
        "list",
        (),
        {"filter": "failing = true"},
        "ListSessions",
        {"filter": "failing = true"},
    ),
    (
        "sessions",
        "evaluate",
        ("s",),
        {"signal_weights": {"confidence": 2.0}},
        "EvaluateSession",
        {"name": "sessions/s", "signalWeights": {"confidence": 2.0}},
    ),
    (
        "monitors",
        "create",
        (),
        {
            "monitor_id": "m",
            "metric": "coherence",
            "floor": 0.5,
            "scope": "session",
            "every_s": 60.0,
        },
        "CreateMonitor",
        {
            "monitorId": "m",
            "monitor": {
                "watch": {"metric": "coherence", "floor": 0.5, "scope": "SCOPE_SESSION"},
                "schedule": {"everyS": 60.0},
            },
        },
    ),
    (
        "monitors",
        "create",
        (),
        {
            "run": {"metrics": ["coherence"], "max_usd": 1.0},
            "cron": "0 6 * * *",
            "overlap": "queue",
        },
        "CreateMonitor",
        {
            "monitor": {
                "schedule": {"cron": "0 6 * * *"},
                "run": {
                    "measure": {"metrics": ["coherence"]},
                    "budget": {"maxUsd": 1.0},
                    "overlap": "MONITOR_OVERLAP_QUEUE",
                },
            }
        },
    ),
    (
        "monitors",
        "update",
        ("m",),
        {"floor": 0.5, "cron": "0 6 * * *", "display_name": "new"},
        "UpdateMonitor",
        {
            "monitor": {
                "name": "monitors/m",
                "displayName": "new",
                "watch": {"floor": 0.5},
                "schedule": {"cron": "0 6 * * *"},
            },
            "updateMask": "displayName,schedule.cron,watch.floor",
        },
    ),
    (
        "monitors",
        "update",
        ("m",),
        {"tolerance": 0.05},
        "UpdateMonitor",
        {
            "monitor": {"name": "monitors/m", "watch": {"reference": {"tolerance": 0.05}}},
            "updateMask": "watch.reference.tolerance",
        },
    ),
    (
        "monitors",
        "update",
        ("m",),
        {"sessions": 50},
        "UpdateMonitor",
        {
            "monitor": {"name": "monitors/m", "watch": {"reference": {"sessions": 50}}},
            "updateMask": "watch.reference.sessions",
        },
    ),
    ("monitors", "get", ("m",), {}, "GetMonitor", {"name": "monitors/m"}),
    ("monitors", "list", (), {}, "ListMonitors", {}),
    (
        "monitors",
        "delete",
        ("m",),
        {"etag": "e"},
        "DeleteMonitor",
        {"name": "monitors/m", "etag": "e"},
    ),
    ("monitors", "pause", ("m",), {}, "PauseMonitor", {"name": "monitors/m"}),
    ("monitors", "resume", ("m",), {}, "ResumeMonitor", {"name": "monitors/m"}),
    (
        "monitors",
        "trigger",
        ("m",),
        {"request_id": "q"},
        "TriggerMonitor",
        {"name": "monitors/m", "requestId": "q"},
    ),
    ("monitors", "ticks", ("m",), {}, "ListMonitorTicks", {"parent": "monitors/m"}),
    (
        "analytics",
        "summarize",
        (),
        {"filter": "metric = a", "start_ns": 5, "group_by": ["model"], "level": 0.9},
        "SummarizeScores",
        {"selection": {"filter": "metric = a", "startNs": "5"}, "groupBy": ["model"], "level": 0.9},
    ),
    (
        "analytics",
        "trend",
        (),
        {"unit": "hour", "run": "r"},
        "QueryScoreTrend",
        {"selection": {"run": "runs/r"}, "unit": "TIME_UNIT_HOUR"},
    ),
    (
        "analytics",
        "distribution",
        (),
        {"quantiles": [0.5], "bins": 4},
        "QueryScoreDistribution",
        {"quantiles": [0.5], "bins": 4},
    ),
    (
        "analytics",
        "compare",
        (),
        {
            "before": {"filter": "version = 1"},
            "after": {"filter": "version = 2"},
            "group_by": ["service"],
        },
        "CompareScores",
        {
            "before": {"filter": "version = 1"},
            "after": {"filter": "version = 2"},
            "groupBy": ["service"],
        },
    ),
    (
        "analytics",
        "worst_sessions",
        (),
        {"end_ns": 9},
        "RankSessions",
        {"selection": {"endNs": "9"}},
    ),
    (
        "analytics",
        "history",
        (),
        {"metric": "coherence", "session_id": "s"},
        "ListScoreHistory",
        {"metric": "coherence", "sessionId": "s"},
    ),
]
_MADE_IDS = {"CreateScore", "EvaluateTrace", "EvaluateSession", "CreateMonitor"}


@pytest.fixture(scope="module")
def noted():
    """The endpoint of a server that notes each request, and what it noted."""
    asked = []
    protos = (
        (score_service_pb2, "ScoreService"),
        (trace_service_pb2, "TraceService"),
        (monitor_service_pb2, "MonitorService"),
        (analytics_service_pb2, "AnalyticsService"),
    )
    with serving(*(Noted(proto, service, asked) for proto, service in protos)) as endpoint:
        yield endpoint, asked


def _last(asked, method):
    """The request that was noted last, without a request id that the client made."""
    name, request = asked.pop()
    if name in _MADE_IDS:
        request.pop("requestId")
    return name == method, request


@pytest.mark.parametrize(("part", "name", "given", "keywords", "method", "request_"), CALLS)
def test_keywords_are_the_fields_of_a_request(noted, part, name, given, keywords, method, request_):
    endpoint, asked = noted
    with Client(endpoint) as client:
        found = getattr(getattr(client, part), name)(*given, **keywords)
        list(found) if hasattr(found, "__next__") else found
    assert _last(asked, method) == (True, request_)


@pytest.mark.parametrize(("part", "name", "given", "keywords", "method", "request_"), CALLS)
def test_the_asynchronous_client_sends_the_same(
    noted, part, name, given, keywords, method, request_
):
    endpoint, asked = noted

    async def ask():
        async with AsyncClient(endpoint) as client:
            found = getattr(getattr(client, part), name)(*given, **keywords)
            if hasattr(found, "__aiter__") and not hasattr(found, "__await__"):
                return [x async for x in found]
            return await found

    asyncio.run(ask())
    assert _last(asked, method) == (True, request_)


@pytest.mark.parametrize("part", ["runs", "scores", "traces", "sessions", "monitors", "analytics"])
def test_both_clients_have_the_same_methods(part):
    def names(kind):
        return {x for x in vars(_class(kind, part)) if not x.startswith("_")}

    assert names(Client) == names(AsyncClient)


def _class(kind, part):
    import spanscore.api.client as module

    prefix = "Async" if kind is AsyncClient else ""
    return getattr(module, f"{prefix}{part.capitalize()}")


def test_a_keyword_that_there_is_not_is_named(noted):
    with (
        Client(noted[0]) as client,
        pytest.raises(TypeError, match=r"ListScores has no 'metrics'.*'metric'"),
    ):
        client.scores.list(metrics="coherence")


@pytest.mark.parametrize(
    ("part", "method", "given", "keywords", "problem"),
    [
        (
            "scores",
            "create",
            (),
            {"metric": "m", "scope": "sessions"},
            "scope='sessions': give 'trace'",
        ),
        (
            "monitors",
            "create",
            (),
            {"scope": "Session"},
            "scope='Session': give 'trace' or 'session'",
        ),
        (
            "monitors",
            "create",
            (),
            {"every_s": 60.0, "overlap": "nope"},
            "overlap='nope': give 'skip'",
        ),
        ("analytics", "trend", (), {"unit": "dy"}, "unit='dy': give 'hour', 'day'"),
        (
            "runs",
            "list",
            (),
            {"states": ["pending", "RUNNING"]},
            "states='RUNNING': give 'pending'",
        ),
        ("runs", "items", ("r1",), {"state": "lost"}, "state='lost': give 'pending', 'done'"),
    ],
)
def test_a_value_that_a_keyword_cannot_have_is_named_with_those_that_it_can(
    noted, part, method, given, keywords, problem
):
    with Client(noted[0]) as client, pytest.raises(ValueError, match=problem):
        getattr(getattr(client, part), method)(*given, **keywords)


def test_an_option_that_a_run_has_not_is_named_with_the_nearest(noted):
    with Client(noted[0]) as client, pytest.raises(TypeError, match=r"no 'metric'.*'metrics'"):
        client.runs.create(metric="coherence")


def test_many_scores_are_created_in_requests_of_a_thousand(noted):
    endpoint, asked = noted
    asked.clear()
    with Client(endpoint) as client:
        client.scores.create_many(
            {"metric": "helpful", "trace_id": f"{n:032x}", "label": "pass"} for n in range(1500)
        )
    assert [(name, len(x["requests"])) for name, x in asked] == [
        ("BatchCreateScores", 1000),
        ("BatchCreateScores", 500),
    ]
    asked.clear()
