"""The services over real gRPC, in front of a backend that holds what a test gave it."""

import asyncio
import contextlib
import logging
import socket
import threading

import grpc
import pytest
import trustme
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from spanscore.api.convert import decode_score
from spanscore.api.server import Server
from spanscore.api.v1 import score_pb2
from spanscore.api.v1.score_service_pb2 import ListScoresRequest
from spanscore.api.v1.score_service_pb2_grpc import ScoreServiceStub
from spanscore.api.v1.trace_service_pb2 import (
    EvaluateSessionRequest,
    EvaluateTraceRequest,
    GetTraceRequest,
    ListTracesRequest,
)
from spanscore.api.v1.trace_service_pb2_grpc import TraceServiceStub
from spanscore.config import Api
from spanscore.errors import ConfigError, InputError, RetryableError
from spanscore.evaluation.config import Overrides
from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.model.trace import AgentTrace, Target
from spanscore.receive.auth import open_authenticators
from spanscore.receive.config import BearerToken
from spanscore.rpc import BadRequest, ErrorInfo, detail_of, read_status, retry_after_s
from spanscore.store.listing import Page, ScoreQuery, TraceScores

_OTEL_ID = "0af7651916cd43dd8448eb211c80319c"
_NAME = f"traces/{_OTEL_ID}"
_TARGET = Target(_OTEL_ID, "b7ad6b7169203331", 1, 2)
_TRACE = AgentTrace(
    trace_ids=(_OTEL_ID,),
    root_span_id="b7ad6b7169203331",
    target=_TARGET,
    opening_span_id="b7ad6b7169203331",
    started_ns=1,
    ended_ns=2,
    session_id="session-42",
    user_input="What is the weather in Tokyo?",
)


def _evaluation(metric, value, revision=1):
    return Evaluation(
        scope="trace",
        subject_id=_TRACE.id,
        metric=metric,
        outcome=Score(value, "because"),
        threshold=0.5,
        scale=(0.0, 1.0),
        evaluator=Evaluator("CODE", "spanscore", "1"),
        target=_TARGET,
        session_id="session-42",
        revision=revision,
    )


class FakeBackend:
    def __init__(self, error=None):
        self.asked = []
        self.listed = []
        self._error = error

    def trace(self, trace_id, *, tenant):
        return _TRACE if trace_id in {_TRACE.id, _OTEL_ID} else None

    def evaluations(self, *, tenant, trace_id=None, session_id=None):
        known = session_id == "session-42" or trace_id in {_TRACE.id, _OTEL_ID}
        return [_evaluation("coherence", 0.75)] if known else []

    def why_unscored(self, trace, scores):
        return "" if scores else "left out"

    def why_not_stored(self, trace_id, *, tenant):
        return ""

    def list_scores(self, query, limit, after=None):
        self.listed.append((query, limit, after))
        return Page([_evaluation("newest", 0.1)], (3, 4))

    def list_traces(self, query, limit, after=None):
        self.listed.append((query, limit, after))
        return Page([TraceScores(_TRACE, [_evaluation("coherence", 0.75)])], (3, 4))

    def sessions(self, session_id, *, tenant):
        return []

    def list_sessions(self, query, limit, after=None):
        return Page([], None)

    async def evaluate(self, *, tenant, trace_id=None, session_id=None, overrides=None):
        if self._error is not None:
            raise self._error
        self.asked.append((trace_id, session_id, overrides))
        known = session_id == "session-42" or trace_id in {_TRACE.id, _OTEL_ID}
        return (
            [_evaluation(name, 1.0, revision=2) for name in overrides.metrics or ("coherence",)]
            if known
            else []
        )


@contextlib.contextmanager
def _serving(
    backend=None, endpoint="127.0.0.1:0", ca=None, shown=(None, None), tokens=None, **secured
):
    """A channel to a server that runs in a thread of its own; it trusts `ca`, and shows a key and a
    certificate.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait_for(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    async def start():
        server = Server(Api(endpoint=endpoint, **secured), backend or FakeBackend(), tokens)
        await server.start()
        return server

    def connect(port):
        if ca is None:
            return grpc.insecure_channel(f"127.0.0.1:{port}")
        return grpc.secure_channel(
            f"localhost:{port}", grpc.ssl_channel_credentials(ca.cert_pem.bytes(), *shown)
        )

    server = wait_for(start())
    try:
        with connect(server.port) as channel:
            yield channel
    finally:
        wait_for(server.stop(0))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def traces():
    with _serving() as channel:
        yield TraceServiceStub(channel)


@pytest.fixture
def scores():
    with _serving() as channel:
        yield ScoreServiceStub(channel)


def _refused(call, request):
    with pytest.raises(grpc.RpcError) as caught:
        call(request)
    return caught.value.code(), caught.value.details()


def test_a_trace_is_found_by_its_agent_trace_id(traces):
    found = traces.GetTrace(GetTraceRequest(trace_id=_TRACE.id))
    assert found.user_input == "What is the weather in Tokyo?"


def test_a_trace_is_found_by_its_otel_trace_id_in_any_case(traces):
    found = traces.GetTrace(GetTraceRequest(trace_id=_OTEL_ID.upper()))
    assert found.id == _TRACE.id


def test_a_trace_that_is_not_stored_is_not_found_and_says_why_it_may_be(traces):
    code, text = _refused(traces.GetTrace, GetTraceRequest(trace_id="f" * 32))
    assert code == grpc.StatusCode.NOT_FOUND
    assert "may not be complete yet" in text


def test_a_trace_that_is_not_stored_is_not_found_with_the_cause_that_is_known(monkeypatch, traces):
    monkeypatch.setattr(FakeBackend, "why_not_stored", lambda *_, tenant: f"it is open{tenant}")
    _, text = _refused(traces.GetTrace, GetTraceRequest(trace_id="f" * 32))
    assert text.endswith(": it is open")


def test_a_trace_without_scores_is_listed_with_the_cause(monkeypatch, traces, scores):
    monkeypatch.setattr(FakeBackend, "evaluations", lambda *_, **__: [])
    page = Page([TraceScores(_TRACE, [])], None)
    monkeypatch.setattr(FakeBackend, "list_traces", lambda *_: page)
    (listed,) = traces.ListTraces(ListTracesRequest()).traces
    found = scores.ListScores(ListScoresRequest(trace_id=_OTEL_ID))
    assert (listed.unscored, found.unscored) == ("left out", "left out")


def test_what_is_no_id_is_an_invalid_argument(traces):
    code, text = _refused(traces.GetTrace, GetTraceRequest(trace_id="x" * 10_000))
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert "32 hex digits" in text


def test_the_scores_of_a_session_are_listed(scores):
    found = scores.ListScores(ListScoresRequest(session_id="session-42"))
    assert [(score.metric, score.value) for score in found.scores] == [("coherence", 0.75)]


def test_a_session_that_is_not_known_is_not_found(scores):
    code, _ = _refused(scores.ListScores, ListScoresRequest(session_id="other"))
    assert code == grpc.StatusCode.NOT_FOUND


def test_a_known_trace_without_scores_has_an_empty_list():
    backend = FakeBackend()
    backend.evaluations = lambda **_: []
    with _serving(backend) as channel:
        found = ScoreServiceStub(channel).ListScores(ListScoresRequest(trace_id=_OTEL_ID))
    assert not found.scores


def test_without_a_subject_the_scores_of_all_are_listed(scores):
    found = scores.ListScores(ListScoresRequest(failing=True, metric="coherence", since_ns=7))
    assert [score.metric for score in found.scores] == ["newest"]


def test_the_conditions_of_a_list_reach_the_store():
    backend = FakeBackend()
    request = ListScoresRequest(
        failing=True, metric="coherence", since_ns=7, service_name="shop", source="human"
    )
    with _serving(backend) as channel:
        ScoreServiceStub(channel).ListScores(request)
    query = ScoreQuery(failing=True, metric="coherence", since_ns=7, service="shop", source="human")
    assert backend.listed == [(query, 50, None)]


def test_a_page_token_leads_to_the_next_page():
    backend = FakeBackend()
    with _serving(backend) as channel:
        traces = TraceServiceStub(channel)
        token = traces.ListTraces(ListTracesRequest(page_size=1)).next_page_token
        traces.ListTraces(ListTracesRequest(page_size=5, page_token=token))
    assert [x[1:] for x in backend.listed] == [(1, None), (5, (3, 4))]


def test_a_page_token_of_other_conditions_is_an_invalid_argument(traces):
    token = traces.ListTraces(ListTracesRequest()).next_page_token
    code, text = _refused(traces.ListTraces, ListTracesRequest(failing=True, page_token=token))
    assert (code, text.partition(":")[0]) == (grpc.StatusCode.INVALID_ARGUMENT, "page_token")


@pytest.mark.parametrize(
    "token", ["x", "bnVsbA==", "W10=", "ñ", "WyJhIiwgMSwgMWUzMDBd", "WzEsIDIsIDFlOTk5XQ=="]
)
def test_what_is_no_page_token_is_an_invalid_argument(scores, token):
    code, text = _refused(scores.ListScores, ListScoresRequest(page_token=token))
    assert (code, text.partition(":")[0]) == (grpc.StatusCode.INVALID_ARGUMENT, "page_token")


def test_a_negative_page_size_is_an_invalid_argument(traces):
    assert (
        _refused(traces.ListTraces, ListTracesRequest(page_size=-1))[0]
        == grpc.StatusCode.INVALID_ARGUMENT
    )


def test_a_page_is_never_larger_than_the_bound():
    backend = FakeBackend()
    with _serving(backend) as channel:
        TraceServiceStub(channel).ListTraces(ListTracesRequest(page_size=2**30))
    assert backend.listed[0][1] == 1000


def test_the_scores_of_a_session_come_in_pages_where_a_size_is_asked_for():
    backend = FakeBackend()
    backend.evaluations = lambda **_: [_evaluation(f"m{x}", 0.5) for x in range(3)]
    with _serving(backend) as channel:
        scores = ScoreServiceStub(channel)
        first = scores.ListScores(ListScoresRequest(session_id="s", page_size=2))
        rest = scores.ListScores(
            ListScoresRequest(session_id="s", page_token=first.next_page_token)
        )
    assert [[x.metric for x in page.scores] for page in (first, rest)] == [["m0", "m1"], ["m2"]]


def test_a_trace_is_listed_in_few_words_with_its_scores(traces):
    [found] = traces.ListTraces(ListTracesRequest()).traces
    assert (found.id, found.user_input, found.HasField("tool_calls")) == (
        _TRACE.id,
        _TRACE.user_input,
        False,
    )
    assert [score.metric for score in found.scores] == ["coherence"]


def test_a_score_is_the_same_before_and_after_it_is_sent(scores):
    [score] = scores.ListScores(ListScoresRequest(session_id="session-42")).scores
    sent = _evaluation("coherence", 0.75)
    assert decode_score(score).to_json() == sent.to_json()


def test_evaluate_hands_every_override_to_the_backend():
    backend = FakeBackend()
    request = EvaluateSessionRequest(
        name="sessions/session-42",
        metrics=["coherence"],
        model="openai/gpt-4o-mini",
        threshold=0.9,
        signal_weights={"coherence": 0.5},
    )
    with _serving(backend) as channel:
        TraceServiceStub(channel).EvaluateSession(request)
    wanted = Overrides(("coherence",), "openai/gpt-4o-mini", 0.9, {"coherence": 0.5})
    assert backend.asked == [(None, "session-42", wanted)]


def test_evaluate_without_overrides_gives_the_backend_none():
    backend = FakeBackend()
    with _serving(backend) as channel:
        TraceServiceStub(channel).EvaluateTrace(EvaluateTraceRequest(name=_NAME))
    assert backend.asked == [(_OTEL_ID, None, Overrides())]


def test_a_threshold_of_zero_is_an_override():
    backend = FakeBackend()
    with _serving(backend) as channel:
        TraceServiceStub(channel).EvaluateTrace(EvaluateTraceRequest(name=_NAME, threshold=0.0))
    assert backend.asked[0][2].threshold == 0.0


def test_evaluate_answers_with_the_new_revision(traces):
    found = traces.EvaluateTrace(EvaluateTraceRequest(name=_NAME)).scores
    assert [(score.status, score.revision) for score in found] == [(score_pb2.STATUS_SCORED, 2)]


def test_evaluating_what_is_not_stored_is_not_found(traces):
    code, _ = _refused(traces.EvaluateTrace, EvaluateTraceRequest(name="traces/" + "f" * 32))
    assert code == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"metrics": ["coherance"]}, "did you mean 'coherence'?"),
        ({"threshold": float("nan")}, "off the scale of "),
        (
            {"threshold": 7.0, "metrics": ["coherence"]},
            "threshold: 7 is off the scale of coherence, which is 0 to 1",
        ),
    ],
)
def test_an_impossible_override_is_an_invalid_argument_that_says_what_to_do(traces, wrong, hint):
    code, text = _refused(traces.EvaluateTrace, EvaluateTraceRequest(name=_NAME, **wrong))
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert hint in text


def test_a_negative_weight_is_an_invalid_argument(traces):
    request = EvaluateSessionRequest(name="sessions/session-42", signal_weights={"coherence": -1.0})
    code, text = _refused(traces.EvaluateSession, request)
    assert (code, "at least 0" in text) == (grpc.StatusCode.INVALID_ARGUMENT, True)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("no such model"), grpc.StatusCode.INVALID_ARGUMENT),
        (RetryableError("too busy", retry_after_s=3), grpc.StatusCode.UNAVAILABLE),
    ],
)
def test_the_backends_errors_become_status_codes(error, code):
    with _serving(FakeBackend(error)) as channel:
        got, text = _refused(
            TraceServiceStub(channel).EvaluateTrace, EvaluateTraceRequest(name=_NAME)
        )
    assert got == code
    assert str(error) in text


def _status_of(call, request):
    with pytest.raises(grpc.RpcError) as caught:
        call(request)
    trailers = dict(caught.value.trailing_metadata())
    return read_status(trailers["grpc-status-details-bin"])


def test_an_error_has_a_reason_for_programs(traces):
    status = _status_of(traces.GetTrace, GetTraceRequest(trace_id="f" * 32))
    assert detail_of(status, ErrorInfo) == ErrorInfo(
        reason="NOT_FOUND",
        domain="spanscore",
        metadata={"method": "spanscore.v1.TraceService/GetTrace"},
    )


def test_an_error_names_the_field_that_is_wrong(traces):
    status = _status_of(traces.ListTraces, ListTracesRequest(filter="nam = 1"))
    [wrong] = detail_of(status, BadRequest).field_violations
    assert (wrong.field, "there is no field nam" in wrong.description) == ("filter", True)


def test_an_error_that_may_pass_has_the_time_to_wait():
    with _serving(FakeBackend(RetryableError("too busy", retry_after_s=3))) as channel:
        status = _status_of(
            TraceServiceStub(channel).EvaluateTrace, EvaluateTraceRequest(name=_NAME)
        )
    assert retry_after_s(status) == 3


def test_what_nobody_foresaw_is_internal_and_shows_nothing_of_the_inside(caplog):
    with _serving(FakeBackend(KeyError("secret"))) as channel:
        code, text = _refused(
            TraceServiceStub(channel).EvaluateTrace, EvaluateTraceRequest(name=_NAME)
        )
    assert (code, "secret" in text, "secret" in caplog.text) == (
        grpc.StatusCode.INTERNAL,
        False,
        True,
    )


def test_reflection_describes_the_service():
    with _serving() as channel:
        pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        names = {
            method.name for method in pool.FindServiceByName("spanscore.v1.TraceService").methods
        }
    assert {"GetTrace", "ListTraces", "EvaluateTrace"} <= names


def test_health_says_that_it_serves():
    with _serving() as channel:
        request = health_pb2.HealthCheckRequest(service="spanscore.v1.TraceService")
        answer = health_pb2_grpc.HealthStub(channel).Check(request)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def _issued(folder, ca):
    """The settings of a server with a certificate of `ca`, whose files are written anew."""
    certificate = ca.issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(folder / "cert")
    certificate.private_key_pem.write_to_path(folder / "key")
    return {"cert_file": folder / "cert", "key_file": folder / "key", "reload_interval": "0"}


def _is_answered(channel, **how):
    try:
        return bool(TraceServiceStub(channel).ListTraces(ListTracesRequest(), **how).traces)
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            raise
        return False


def test_it_is_reached_over_tls(tmp_path):
    ca = trustme.CA()
    with _serving(ca=ca, tls=_issued(tmp_path, ca)) as channel:
        assert _is_answered(channel)


@pytest.mark.slow
def test_a_renewed_certificate_is_used_from_the_next_connection_on(tmp_path):
    newer = trustme.CA()
    with _serving(ca=newer, tls=_issued(tmp_path, trustme.CA())) as channel:
        assert not _is_answered(channel)
        _issued(tmp_path, newer)
        assert _is_answered(channel, wait_for_ready=True, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("shows", [True, False])
def test_mutual_tls_asks_clients_for_a_certificate(tmp_path, shows):
    ca, clients = trustme.CA(), trustme.CA()
    clients.cert_pem.write_to_path(tmp_path / "clients")
    own = clients.issue_cert("client.test")
    shown = (own.private_key_pem.bytes(), own.cert_chain_pems[0].bytes()) if shows else (None, None)
    tls = {**_issued(tmp_path, ca), "client_ca_file": tmp_path / "clients"}
    with _serving(ca=ca, shown=shown, tls=tls) as channel:
        assert _is_answered(channel) is shows


def test_a_certificate_that_cannot_be_used_is_a_configuration_error(tmp_path):
    files = {"cert_file": tmp_path / "absent", "key_file": tmp_path / "absent"}
    with pytest.raises(ConfigError, match=r"api\.tls: .*absent"):
        asyncio.run(Server(Api(endpoint="127.0.0.1:0", tls=files), FakeBackend()).start())


_TOKENS = open_authenticators({"bearertokenauth": BearerToken(tokens=["right"])})
_AUTH = {"auth": {"authenticator": "bearertokenauth"}, "tokens": _TOKENS}


@pytest.mark.slow
@pytest.mark.parametrize("given", [(), (("authorization", "Bearer wrong"),)])
def test_only_a_known_token_may_ask(given):
    with _serving(**_AUTH) as channel:
        ask = TraceServiceStub(channel).ListTraces
        assert ask(ListTracesRequest(), metadata=(("authorization", "Bearer right"),)).traces
        code, _ = _refused(lambda request: ask(request, metadata=given), ListTracesRequest())
    assert code is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("line", "is_answered", "is_evaluated"),
    [
        ("right scopes=read", True, False),
        ("right scopes=write", False, True),
        ("right scopes=read,write", True, True),
        ("right scopes=admin", True, True),
        ("right", True, True),
    ],
)
def test_a_token_may_do_what_its_scopes_permit(tmp_path, line, is_answered, is_evaluated):
    (tmp_path / "tokens").write_text(f"other scopes=read\n{line}\n")
    tokens = open_authenticators({"bearertokenauth": BearerToken(filename=tmp_path / "tokens")})
    shown = {"metadata": (("authorization", "Bearer right"),)}
    with _serving(auth=_AUTH["auth"], tokens=tokens) as channel:
        traces = TraceServiceStub(channel)
        read = _code(lambda: traces.ListTraces(ListTracesRequest(), **shown))
        evaluated = _code(lambda: traces.EvaluateTrace(EvaluateTraceRequest(name=_NAME), **shown))
    denied = grpc.StatusCode.PERMISSION_DENIED
    assert [read, evaluated] == [None if x else denied for x in (is_answered, is_evaluated)]


def _code(ask):
    try:
        ask()
    except grpc.RpcError as error:
        return error.code()
    return None


def test_health_asks_for_no_token():
    with _serving(**_AUTH) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_a_port_in_use_is_a_configuration_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match="is something else listening there"):
            asyncio.run(Server(Api(endpoint=endpoint), FakeBackend()).start())


def test_two_servers_do_not_share_a_port():
    async def run():
        first = Server(Api(endpoint="127.0.0.1:0"), FakeBackend())
        await first.start()
        try:
            await Server(Api(endpoint=f"127.0.0.1:{first.port}"), FakeBackend()).start()
        finally:
            await first.stop(0)

    with pytest.raises(ConfigError):
        asyncio.run(run())


def test_stopping_twice_or_before_the_start_is_fine():
    async def run():
        server = Server(Api(endpoint="127.0.0.1:0"), FakeBackend())
        await server.stop(0)
        await server.start()
        await server.stop(0)
        await server.stop(0)
        return server.port

    port = asyncio.run(run())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port)).close()


@pytest.mark.parametrize(
    ("endpoint", "warns"), [("0.0.0.0:0", True), ("127.0.0.1:0", False), ("localhost:0", False)]
)
def test_only_an_endpoint_that_others_can_reach_warns(endpoint, warns, caplog):
    with caplog.at_level(logging.WARNING, "spanscore"), _serving(endpoint=endpoint):
        pass
    assert bool(caplog.records) == warns
