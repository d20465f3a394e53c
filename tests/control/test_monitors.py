"""Monitors from scores in the store to alerts at their receivers, with a clock that is moved by
hand.
"""

import asyncio
import contextlib
import hmac
import json
from types import SimpleNamespace

import pytest
from aiohttp import web
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from pydantic import ValidationError

from spanscore.control import monitors
from spanscore.control.alerts import Events
from spanscore.control.monitors import Monitors
from spanscore.control.ticks import Taking, digest_of_watch, value_of
from spanscore.export.config import Alerting
from spanscore.export.port import UndeliveredError
from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.model.span import TENANT, with_headers
from spanscore.model.trace import Target
from spanscore.specs import Monitor
from spanscore.store import connections
from spanscore.store.config import Config
from spanscore.store.connections import snapshot
from spanscore.store.monitor_tables import MonitorTables
from spanscore.store.store import Store
from spanscore.telemetry import Meter

MINUTE = 60 * 10**9
NO_RUNS = None  # none of these monitors starts any
START = 1_790_000_000 * 10**9 // MINUTE * MINUTE


def score(number, value, at_ns, **facts):
    target = Target(f"{number:032x}", "a" * 16, 0, 1)
    given = {
        "scope": "trace",
        "subject_id": f"{number:032x}",
        "metric": "task_completion",
        "outcome": Score(value, "because"),
        "threshold": 0.5,
        "scale": (0.0, 1.0),
        "evaluator": Evaluator("LLM", "judge", "1"),
        "target": target,
        "session_id": None,
        "service_name": "shop",
        "evaluated_at_ns": at_ns,
    }
    return Evaluation(**{**given, **facts})


def of_tenant(number, tenant):
    """What the target of a tenant's score has beside."""
    if not tenant:
        return {}
    return {
        "target": Target(
            f"{number:032x}", "a" * 16, 0, 1, resource=with_headers({}, ((TENANT, tenant),))
        )
    }


class Receiver:
    """Takes alerts over HTTP, or answers with another `status`."""

    def __init__(self):
        self.requests, self.status = [], 200

    async def take(self, request):
        headers = {x: request.headers.get(f"X-Spanscore-{x}") for x in ("Timestamp", "Signature")}
        self.requests.append(
            SimpleNamespace(path=request.path, body=await request.read(), **headers)
        )
        return web.Response(status=self.status, text="token-1234 is wrong")

    @property
    def bodies(self):
        return [json.loads(x.body) for x in self.requests]


@contextlib.asynccontextmanager
async def served(receiver):
    app = web.Application()
    app.router.add_post("/{path:.*}", receiver.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class Exporter:
    """Takes log records by OTLP, or raises `error`."""

    def __init__(self):
        self.requests, self.headers, self.error = [], [], None

    async def send(self, signal, body, headers=()):
        self.requests.append((signal, body))
        self.headers.append(headers)
        if self.error is not None:
            raise self.error


class World:
    """A store, a clock, and the monitors of a server that can be started anew."""

    def __init__(self, database_url, receivers, **monitor):
        self.url, self.now_ns, self.number = database_url, START, 0
        given = {"metric": "task_completion", "floor": 0.8, "heaviest": 1, "settle_after": "0s"}
        self.monitor = Monitor(**{**given, **monitor})
        self.alerting = Alerting(receivers=receivers)
        self.start()

    def clock_ns(self):
        return self.now_ns

    def start(self):
        self.store = Store.open(Config(url=self.url), clock_ns=self.clock_ns)
        monitors = {"quality": self.monitor}
        self.meter, self.exporter = Meter(), Exporter()
        events = Events({"otlp_grpc": self.exporter}, {"service.name": "spanscore"})
        given = (monitors, self.alerting, self.store.monitors, NO_RUNS)
        self.monitors = Monitors(*given, events=events, meter=self.meter, clock_ns=self.clock_ns)

    async def stop(self):
        await self.monitors.close()
        self.store.close()

    def scores(self, value, count, tenant="", **facts):
        self.number += count
        numbers = range(self.number - count, self.number)
        self.store.commit(
            [], [score(x, value, self.now_ns, **of_tenant(x, tenant), **facts) for x in numbers]
        )

    def looked_ns(self):
        return self.store.monitors.read(lambda x: x.last_tick_ns("", "quality"))

    async def later(self, minutes=1):
        self.now_ns += minutes * MINUTE
        await self.monitors.look()
        await self.monitors.deliver()


@contextlib.asynccontextmanager
async def world(database_url, receivers, **monitor):
    found = World(database_url, receivers, **monitor)
    await found.monitors.look()
    await found.later()
    try:
        yield found
    finally:
        await found.stop()


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/spanscore.db"


@pytest.mark.slow
def test_a_webhook_gets_one_signed_request_when_an_alert_begins_and_one_when_it_ends(url):
    async def scenario():
        receiver = Receiver()
        async with served(receiver) as endpoint:
            receivers = {"webhook": {"endpoint": f"{endpoint}/hook", "secret": "s3cret"}}
            async with world(url, receivers, labels={"severity": "page"}) as here:
                for value in (0.9, 0.2, 0.2, 0.9):
                    here.scores(value, 100)
                    await here.later()
                    await here.later()
        return receiver

    receiver = asyncio.run(scenario())
    first, last = receiver.bodies
    assert (first["status"], last["status"], first["id"]) == ("firing", "resolved", "quality/1")
    assert (first["metric"], first["floor"], first["mean"]) == ("task_completion", 0.8, 0.2)
    assert first["summary"].startswith("quality: the mean of task_completion fell to 0.20,")
    assert first["labels"] == {"severity": "page"}
    signed = hmac.new(
        b"s3cret",
        f"{receiver.requests[0].Timestamp}.".encode() + receiver.requests[0].body,
        "sha256",
    )
    assert receiver.requests[0].Signature == f"sha256={signed.hexdigest()}"


@pytest.mark.slow
def test_alertmanager_gets_the_alert_again_while_it_lasts_and_its_end(url):
    async def scenario():
        receiver = Receiver()
        async with served(receiver) as endpoint:
            receivers = {
                "alertmanager": {"endpoint": endpoint, "generator_url": "https://there.example/d"}
            }
            async with world(url, receivers, service="shop") as here:
                here.scores(0.2, 100)
                for _ in range(3):
                    await here.later()
                here.scores(0.9, 100)
                await here.later()
                await here.later()
                await here.later()
        return receiver

    receiver = asyncio.run(scenario())
    alerts = [x[0] for x in receiver.bodies]
    assert {x.path for x in receiver.requests} == {"/api/v2/alerts"}
    assert [x["endsAt"] > x["startsAt"] for x in alerts[:3]] == [True] * 3
    assert len({json.dumps(x["labels"]) for x in alerts}) == 1
    assert alerts[0]["labels"] == {
        "alertname": "SpanscoreScoreDrop",
        "monitor": "quality",
        "metric": "task_completion",
        "service": "shop",
    }
    assert set(alerts[0]) == {"labels", "annotations", "startsAt", "endsAt", "generatorURL"}
    assert alerts[-1]["endsAt"] < alerts[-2]["endsAt"]


@pytest.mark.slow
def test_an_alert_that_is_not_taken_is_sent_again_after_a_restart_and_no_secret_is_logged(
    url, caplog
):
    async def scenario():
        receiver = Receiver()
        receiver.status = 500
        async with served(receiver) as endpoint:
            secret = {
                "endpoint": f"{endpoint}/token-1234",
                "headers": {"authorization": "Bearer abcdefgh"},
            }
            async with world(url, {"webhook": secret}) as here:
                here.scores(0.2, 100)
                await here.later()
                await here.stop()
                here.start()
                receiver.status = 204
                await here.later()
                await here.later()
        return receiver

    receiver = asyncio.run(scenario())
    assert [x["status"] for x in receiver.bodies] == ["firing", "firing"]
    assert "was not taken (HTTP 500" in caplog.text
    assert "token-1234" not in caplog.text
    assert "abcdefgh" not in caplog.text


@pytest.mark.slow
def test_a_receiver_that_is_down_holds_up_no_look(url):
    async def scenario():
        async with world(url, {"webhook": {"endpoint": "http://127.0.0.1:9/x"}}) as here:
            here.scores(0.2, 100)
            await here.later()
            here.scores(0.9, 100)
            await here.later()
            return here.looked_ns() == here.now_ns

    assert asyncio.run(scenario())


@pytest.mark.slow
def test_a_receiver_that_does_not_answer_holds_up_no_other(url, monkeypatch):
    monkeypatch.setattr(monitors, "_LOOK_EVERY_S", 0)

    async def scenario():
        receiver = Receiver()
        async with served(receiver) as endpoint:
            receivers = {"otel_event": {"exporter": "otlp_grpc"}, "webhook": {"endpoint": endpoint}}
            async with world(url, receivers) as here, asyncio.timeout(60):
                here.exporter.send = never
                running = asyncio.create_task(here.monitors.run())
                for number, value in enumerate((0.2, 0.9), 1):
                    here.scores(value, 100)
                    here.now_ns += MINUTE
                    while len(receiver.requests) < number:
                        await asyncio.to_thread(lambda: None)
                running.cancel()
                await asyncio.wait([running])
        return receiver

    assert [x["status"] for x in asyncio.run(scenario()).bodies] == ["firing", "resolved"]


async def never(*_given):
    await asyncio.Event().wait()


@pytest.mark.slow
def test_an_alert_leaves_as_an_event_when_it_begins_and_when_it_ends(url):
    async def scenario():
        receivers = {"otel_event": {"exporter": "otlp_grpc"}}
        async with world(url, receivers, service="shop", labels={"severity": "page"}) as here:
            here.exporter.error = UndeliveredError("not now")
            here.scores(0.2, 100)
            await here.later()
            here.exporter.error = None
            await here.later()
            here.scores(0.9, 100)
            await here.later()
            await here.later()
        return here

    here = asyncio.run(scenario())
    assert {signal for signal, _ in here.exporter.requests} == {"logs"}
    records = [log_record(body) for _, body in here.exporter.requests]
    assert [x.severity_text for x in records] == ["WARN", "WARN", "INFO"]
    found = [{x.key: x.value for x in record.attributes} for record in records]
    assert found[0]["log.record.uid"] == found[1]["log.record.uid"] != found[2]["log.record.uid"]
    texts = {name: value.string_value for name, value in found[0].items()}
    assert (texts["event.name"], texts["gen_ai.evaluation.name"]) == (
        "spanscore.monitor.alert",
        "task_completion",
    )
    assert (texts["spanscore.monitor.alert.id"], texts["spanscore.monitor.label.severity"]) == (
        "quality/1",
        "page",
    )
    assert found[0]["spanscore.monitor.mean"].double_value == 0.2
    assert found[0]["spanscore.emitted"].bool_value
    counted = counts(here.meter, "spanscore_monitor_alerts")
    assert counted == {
        ("otel_event", "firing", "failed"): 1,
        ("otel_event", "firing", "sent"): 1,
        ("otel_event", "resolved", "sent"): 1,
    }


@pytest.mark.slow
def test_an_alert_of_a_tenants_monitor_leaves_with_its_tenant(url):
    async def scenario():
        async with world(url, {"otel_event": {"exporter": "otlp_grpc"}}, tenant="acme") as here:
            here.scores(0.2, 100, tenant="acme")
            await here.later()
            await here.later()
        return here.exporter.headers

    assert asyncio.run(scenario()) == [((TENANT, "acme"),)]


def log_record(body):
    [group] = ExportLogsServiceRequest.FromString(body).resource_logs
    assert [x.value.string_value for x in group.resource.attributes] == ["spanscore"]
    return group.scope_logs[0].log_records[0]


def counts(meter, name):
    [found] = [x.values for x in meter.collect() if x.metric.name == name]
    return dict(found)


def test_ticks_are_counted_by_what_came_of_them(url):
    async def scenario():
        async with world(url, {}) as here:
            await here.later()
        return counts(here.meter, "spanscore_monitor_ticks")

    assert asyncio.run(scenario()) == {("looked",): 2}


@pytest.mark.slow
def test_a_monitor_of_a_tenant_watches_its_scores_alone_and_its_alert_names_it(url):
    async def scenario():
        receiver = Receiver()
        given = {"alertmanager": {}}
        async with (
            served(receiver) as given["alertmanager"]["endpoint"],
            world(url, given, tenant="acme") as here,
        ):
            here.scores(0.2, 100)
            await here.later()
            others = len(receiver.requests)
            here.scores(0.2, 100, tenant="acme")
            await here.later()
        return others, receiver

    others, receiver = asyncio.run(scenario())
    assert others == 0
    assert receiver.bodies[0][0]["labels"]["tenant"] == "acme"


@pytest.mark.slow
def test_nothing_is_sent_while_nothing_changes(url):
    async def scenario():
        receiver = Receiver()
        async with (
            served(receiver) as endpoint,
            world(url, {"webhook": {"endpoint": endpoint}}) as here,
        ):
            for _ in range(20):
                here.scores(0.85, 40)
                await here.later()
        return receiver.bodies

    assert asyncio.run(scenario()) == []


@pytest.mark.parametrize(("catch_up", "looks"), [(True, 1), (False, 0)])
def test_looks_that_were_missed_while_the_server_was_down_are_made_up_for_by_one(
    url, catch_up, looks
):
    async def scenario():
        async with world(url, {}, every="1h", catch_up=catch_up) as here:
            await here.later(60)
            before_ns = here.looked_ns()
            await here.stop()
            here.now_ns += 7 * 60 * MINUTE + MINUTE
            here.start()
            await here.monitors.look()
            await here.monitors.look()
            return here.looked_ns() != before_ns

    assert asyncio.run(scenario()) == bool(looks)


def test_two_servers_make_one_look_of_a_time(url):
    async def scenario():
        async with world(url, {}) as here:
            here.scores(0.2, 30)
            given = {"quality": here.monitor}, here.alerting, here.store.monitors, NO_RUNS
            other = Monitors(*given, clock_ns=here.clock_ns)
            await other.look()
            here.now_ns += MINUTE
            await asyncio.gather(here.monitors.look(), other.look())
        engine = connections.connect(Config(url=url))
        with snapshot(engine) as connection:
            found = [x.scores for x in MonitorTables(connection).ticks("", "quality", 10)]
        engine.dispose()
        return found

    assert asyncio.run(scenario()) == [30, 0]


@pytest.mark.parametrize(
    ("monitor", "facts", "expected"),
    [
        ({}, {}, 0.25),
        ({}, {"scale": (0.0, 2.0)}, 0.125),
        ({"service": "other"}, {}, None),
        ({}, {"run": "a" * 32}, None),
        ({"agent": "planner"}, {"agent_name": "planner"}, 0.25),
        ({"of": "pass_rate"}, {}, 0.0),
        ({"of": "pass_rate"}, {"threshold": None}, None),
    ],
)
def test_a_monitor_takes_its_value_from_the_scores_that_are_its_own(monitor, facts, expected):
    assert (
        value_of(Monitor(metric="task_completion", **monitor), score(1, 0.25, 0, **facts))
        == expected
    )


def by(certified):
    return Evaluator("LLM", "judge", "1", certified=certified)


@pytest.mark.parametrize(
    ("of", "certified", "refuses", "expected"),
    [
        ("pass_rate", False, True, None),
        ("pass_rate", False, False, 1.0),
        ("pass_rate", True, True, 1.0),
        ("pass_rate", None, True, 1.0),
        ("mean", False, True, 0.9),
    ],
)
def test_a_pass_rate_leaves_out_judges_without_a_certificate_where_they_are_refused(
    of, certified, refuses, expected
):
    taking = Taking(Monitor(metric="task_completion", of=of), None, refuses)

    assert taking(score(1, 0.9, 0, evaluator=by(certified))) == expected


def test_an_alert_says_that_its_pass_rate_is_by_a_judge_without_a_certificate(url):
    async def scenario():
        receivers = {"otel_event": {"exporter": "otlp_grpc"}}
        async with world(url, receivers, of="pass_rate") as here:
            here.scores(0.2, 100, evaluator=by(certified=False))
            await here.later()
            await here.later()
        return log_record(here.exporter.requests[0][1])

    record = asyncio.run(scenario())
    assert record.body.string_value.endswith("sessions, by a judge without a certificate")
    found = {x.key: x.value for x in record.attributes}
    assert found["spanscore.evaluator.certified"].HasField("bool_value")


@pytest.mark.parametrize(
    ("receiver", "message"),
    [
        ({"webhook": {"endpoint": ""}}, "is its environment variable set"),
        ({"webhook": {"endpoint": "https://there.example", "secret": ""}}, "must not be empty"),
        ({"pager": {}}, "known are alertmanager, webhook, otel_event"),
    ],
)
def test_what_is_no_receiver_is_refused(receiver, message):
    with pytest.raises(ValidationError, match=message):
        Alerting(receivers=receiver)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"floor": 0.8}, "d43b87e92ec85668a7c714f795751aeb92a0178a1133809155ab83fa73b9052e"),
        (
            {"reference": {"sessions": 50}, "service": "shop"},
            "2362ebd9e184e0f63df76ba0bb5cdf9a883a29009eb2a769614e90aff539b3ee",
        ),
    ],
)
def test_monitors_of_older_versions_do_not_begin_anew(given, expected):
    assert digest_of_watch(Monitor(metric="task_completion", **given), of_runs=False) == expected


def test_a_paused_monitor_does_not_look(url):
    async def scenario():
        async with world(url, {}, paused=True) as here:
            await here.later()
            return here.looked_ns()

    assert asyncio.run(scenario()) is None
