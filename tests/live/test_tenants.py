"""Headers of requests leave with what passes through, and with the scores of what they came
with.
"""

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

pytestmark = pytest.mark.slow

TENANT = "x-scope-orgid"
SETTINGS = {
    "extensions": {
        "headers_setter": {"headers": [{"key": "X-Scope-OrgID", "from_context": "X-Scope-OrgID"}]}
    },
    "receive": {"grpc": {"include_metadata": True}},
}


class Backend(grpc.GenericRpcHandler):
    """Takes everything; remembers the names of spans by the tenant that they came under."""

    def __init__(self):
        self.spans = {}
        self.others = []

    def service(self, call):
        def export(body, context):
            tenant = dict(context.invocation_metadata()).get(TENANT)
            if not call.method.endswith("TraceService/Export"):
                self.others.append(tenant)
                return b""
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scoped in group.scope_spans:
                    self.spans.setdefault(tenant, []).extend(scoped.spans)
            return b""

        return grpc.unary_unary_rpc_method_handler(export)

    def has_session_score(self, tenant):
        return any(x.name.endswith(": agent_reliability") for x in self.spans.get(tenant, ()))

    def traces(self, tenant):
        return {x.trace_id for x in self.spans.get(tenant, ())}


@pytest.fixture
def backend():
    made, server = Backend(), grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers([made])
    made.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield made
    server.stop(0).wait()


def of_tenant(recorded, tenant):
    """The recording's spans under trace ids of this tenant's own, in sessions with the ids that the
    other has too.
    """
    requests = []
    for request in recorded.spans_one_by_one():
        span = request.resource_spans[0].scope_spans[0].spans[0]
        span.trace_id = span.trace_id[:-1] + tenant.encode()
        requests.append(request)
    return requests


@pytest.mark.parametrize(("mode", "is_killed"), [("branch", False), ("inline", True)])
def test_each_tenant_gets_its_own(server, recording, backend, mode, is_killed):
    exporter = {
        "endpoint": f"127.0.0.1:{backend.port}",
        "tls": {"insecure": True},
        "auth": {"authenticator": "headers_setter"},
    }
    running = server(mode=mode, export={"exporters": {"otlp_grpc": exporter}}, **SETTINGS).start()
    sent = {tenant: of_tenant(recording("semconv/message-attributes"), tenant) for tenant in "ab"}
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        for tenant, requests in sent.items():
            for request in requests:
                TraceServiceStub(channel).Export(request, metadata=((TENANT, tenant),))
    if is_killed:
        running.kill()
        running.start()
    running.wait_until(lambda _: all(backend.has_session_score(tenant) for tenant in "ab"))
    running.wait_until_finished(0)
    assert running.stop() == 0
    assert set(backend.spans) == {"a", "b"}
    assert set(backend.others) == {"a", "b"}
    for tenant in "ab":
        assert {x[-1:] for x in backend.traces(tenant)} == {tenant.encode()}


def test_a_tenant_that_its_token_names_is_named_to_the_backend(
    server, recording, backend, tmp_path
):
    tokens = tmp_path / "tokens"
    tokens.write_text(
        "".join(f"of-{tenant} tenant={tenant}\n" for tenant in "ab"), encoding="utf-8"
    )
    exporter = {
        "endpoint": f"127.0.0.1:{backend.port}",
        "tls": {"insecure": True},
        "auth": {"authenticator": "headers_setter"},
    }
    running = server(
        tenancy={"enabled": True},
        extensions={**SETTINGS["extensions"], "bearertokenauth": {"filename": str(tokens)}},
        receive={"grpc": {"auth": {"authenticator": "bearertokenauth"}}},
        export={"exporters": {"otlp_grpc": exporter}},
    ).start()
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        for tenant in "ab":
            for request in of_tenant(recording("semconv/message-attributes"), tenant):
                TraceServiceStub(channel).Export(
                    request, metadata=(("authorization", f"Bearer of-{tenant}"),)
                )
    running.wait_until(lambda _: all(backend.has_session_score(tenant) for tenant in "ab"))
    assert running.stop() == 0
    assert set(backend.spans) | set(backend.others) == {"a", "b"}
    for tenant in "ab":
        assert {x[-1:] for x in backend.traces(tenant)} == {tenant.encode()}
