"""Two tenants of a real server send the same trace ids, session ids and content, and aim at each
other.
"""

from collections import Counter
from dataclasses import dataclass

import grpc
import pytest
from obliging_model import ObligingModel
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from scripted_server import ScriptedServer

from spanscore import Client
from spanscore.api.v1 import score_service_pb2 as scores_pb, trace_service_pb2 as traces_pb
from spanscore.store.config import Config
from spanscore.store.listing import TraceQuery
from spanscore.store.store import Store

pytestmark = pytest.mark.slow

CASE = "semconv/message-attributes"
TENANTS = ("acme", "blue")
METRIC = "task_completion"


@dataclass(frozen=True)
class Sender:
    """Sends OTLP over gRPC with a tenant's token."""

    channel: grpc.Channel
    tenant: str

    @property
    def metadata(self):
        return (("authorization", f"Bearer of-{self.tenant}"),)

    def traces(self, request):
        TraceServiceStub(self.channel).Export(request, metadata=self.metadata)

    def logs(self, request):
        LogsServiceStub(self.channel).Export(request, metadata=self.metadata)


@pytest.fixture
def model():
    with ScriptedServer(ObligingModel()) as server:
        yield server


@pytest.fixture
def running(server, model, tmp_path):
    """A server of which each token is one tenant's, with a judge."""
    tokens = tmp_path / "tokens"
    tokens.write_text("".join(f"of-{x} tenant={x}\n" for x in TENANTS), encoding="utf-8")
    auth = {"auth": {"authenticator": "bearertokenauth"}}
    return server(
        tenancy={"enabled": True},
        extensions={"bearertokenauth": {"filename": str(tokens)}},
        receive={"grpc": auth, "http": auth},
        api=auth,
        judge={
            "model": "openai/scripted",
            "api_base": model.url,
            "api_key": "k",
            "try_at_start": False,
        },
        evaluation={"default_metrics": False, "metrics": {METRIC: {}, "agent_reliability": {}}},
    ).start()


def ids_of(request):
    spans = [
        x for group in request.resource_spans for scoped in group.scope_spans for x in scoped.spans
    ]
    return {x.trace_id for x in spans}, {x.span_id for x in spans}


def aimed(request, trace_id, span_id):
    """The request of an attacker: its spans claim another tenant, link to a span of another's and
    lie under it.
    """
    made = ExportTraceServiceRequest()
    made.CopyFrom(request)
    for group in made.resource_spans:
        group.resource.attributes.add(key="spanscore.header.:tenant").value.string_value = "acme"
        for scoped in group.scope_spans:
            for span in scoped.spans:
                span.trace_id, span.parent_span_id = trace_id, span_id
                span.span_id = bytes(x ^ 255 for x in span.span_id)
                span.links.add(trace_id=trace_id, span_id=span_id)
    return made


def verdicts(trace_ids, session_id):
    """Scores that an attacker gives to another tenant's traces and session."""
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    group.resource.attributes.add(key="spanscore.header.:tenant").value.string_value = "acme"
    records = group.scope_logs.add().log_records
    for trace_id in (*trace_ids, b""):
        record = records.add(
            event_name="gen_ai.evaluation.result", trace_id=trace_id, time_unix_nano=1
        )
        record.attributes.add(key="gen_ai.evaluation.name").value.string_value = "defaced"
        record.attributes.add(key="gen_ai.evaluation.score.value").value.double_value = 0.0
        record.attributes.add(key="session.id").value.string_value = session_id
    return request


def stored(running):
    """What the store has: the agent traces as JSON, by tenant."""
    store = Store.open(Config(url=f"sqlite:///{running.folder}/store.db"))
    found = {x: store.list_traces(TraceQuery(tenant=x), 1000).items for x in ("", *TENANTS)}
    store.close()
    return {tenant: [x.trace for x in items] for tenant, items in found.items()}


def facts(trace):
    """What a trace says, but for what differs between tenants."""
    shown = trace.to_json()
    return {
        key: x
        for key, x in shown.items()
        if key not in {"id", "session_key", "target", "completeness"}
    }


def seen_by(running, tenant):
    """What a tenant's token reaches by the API: names of traces and sessions, and the metrics of
    scores.
    """
    with Client(f"127.0.0.1:{running.api}", token=f"of-{tenant}") as client:
        traces = list(client.pages(client.traces.ListTraces, traces_pb.ListTracesRequest()))
        sessions = list(client.pages(client.traces.ListSessions, traces_pb.ListSessionsRequest()))
        scores = list(client.pages(client.scores.ListScores, scores_pb.ListScoresRequest()))
    return {x.id for x in traces}, {x.name for x in sessions}, [x.metric for x in scores]


def test_each_tenant_has_its_own_whatever_the_other_sends_also_after_a_kill(running, recording):
    recorded = recording(CASE)
    sessions = {x["session_id"] for x in recorded.expected}
    trace_ids, span_ids = ids_of(recorded.traces)
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        acme, blue = (Sender(channel, x) for x in TENANTS)
        for request in recorded.spans_one_by_one():
            for sender in (acme, blue):
                sender.traces(request)
        for session_id in sessions:
            blue.logs(verdicts(sorted(trace_ids), session_id))
        running.kill()
        running.start()
    running.wait_until_finished(2 * len(trace_ids))
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        blue = Sender(channel, "blue")
        blue.traces(aimed(recorded.traces, min(trace_ids), min(span_ids)))
        running.wait_until_finished(2 * len(trace_ids) + 1)

    seen = {tenant: seen_by(running, tenant) for tenant in TENANTS}
    running.stop()
    found = stored(running)
    plain = [
        {key: x for key, x in one.items() if key in facts(found["acme"][0])}
        for one in recorded.expected
    ]

    assert found[""] == []
    assert sorted(map(str, map(facts, found["acme"]))) == sorted(
        str({**facts(found["acme"][0]), **x}) for x in plain
    )
    assert {x.id for x in found["acme"]}.isdisjoint(x.id for x in found["blue"])
    assert seen["acme"][0] == {x.id for x in found["acme"]}
    assert seen["blue"][0] == {x.id for x in found["blue"]}
    assert seen["acme"][1].isdisjoint(seen["blue"][1])
    assert "defaced" in seen["blue"][2]
    assert "defaced" not in seen["acme"][2]


def test_the_same_question_about_both_tenants_traces_is_asked_for_each(running, model, recording):
    recorded = recording(CASE)
    trace_ids, _ = ids_of(recorded.traces)
    asked = []
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        for number, tenant in enumerate(TENANTS, 1):
            Sender(channel, tenant).traces(recorded.traces)
            running.wait_until_finished(number * len(trace_ids))
            asked.append(len(model.calls))
    running.stop()
    assert asked[0] > 0
    assert asked[1] == 2 * asked[0]


def attributes(span):
    return {x["key"] for x in span.get("attributes", [])}


def test_in_inline_mode_the_same_span_leaves_once_for_each_tenant_with_its_scores_after_a_kill(
    server, recording
):
    recorded, running = (
        recording(CASE),
        server(mode="inline", tenancy={"enabled": True}).stop_clock().start(),
    )
    trace_ids, _ = ids_of(recorded.traces)
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        for request in recorded.spans_one_by_one():
            for tenant in TENANTS:
                TraceServiceStub(channel).Export(request, metadata=(("x-scope-orgid", tenant),))
    running.wait_until(lambda state: state["held_roots"] == 2 * len(trace_ids))
    running.kill()
    running.start()
    running.run_clock()
    running.wait_until_finished(2 * len(trace_ids))
    assert running.stop() == 0

    roots = [x for x in running.exported("spans") if not x.get("parentSpanId")]
    assert Counter(x["traceId"] for x in roots) == dict.fromkeys((x.hex() for x in trace_ids), 2)
    assert all("spanscore.coherence.score" in attributes(x) for x in roots)
    assert ":tenant" not in running.scores.read_text()


def test_who_shows_no_token_is_refused(running, recording):
    with (
        grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel,
        pytest.raises(grpc.RpcError) as refused,
    ):
        TraceServiceStub(channel).Export(
            recording(CASE).traces, metadata=(("x-scope-orgid", "acme"),)
        )
    running.stop()
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
