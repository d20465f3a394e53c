"""Traces, sessions and scores as resources, of a store with two sessions."""

import asyncio
import threading
from dataclasses import replace

import pytest

from spanscore.api import listing, requests
from spanscore.api.convert import encode_score
from spanscore.api.scores import ScoreService
from spanscore.api.server import NAMES, services
from spanscore.api.servicer import Call, Servicer, methods, needs
from spanscore.api.traces import TraceService
from spanscore.api.v1 import score_service_pb2 as score_pb, trace_service_pb2 as pb
from spanscore.errors import FieldError, InputError, NotFoundError
from spanscore.evaluation.config import Overrides
from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.model.trace import AgentTrace, Target, Usage
from spanscore.store.config import Config
from spanscore.store.listing import Page
from spanscore.store.store import Store, StoredTrace

CALL = Call()
_CODE = Evaluator("CODE", "spanscore", "1")


def _trace(number, session_id, **facts):
    target = Target(f"{number:032x}", f"{number:016x}", 1, 2)
    return AgentTrace(
        trace_ids=(target.trace_id,),
        root_span_id=target.span_id,
        target=target,
        opening_span_id=target.span_id,
        started_ns=1,
        ended_ns=2,
        session_id=session_id,
        **facts,
    )


def _score(trace, metric, value):
    return Evaluation(
        scope="trace",
        subject_id=trace.id,
        metric=metric,
        outcome=Score(value, ""),
        threshold=0.5,
        scale=(0.0, 1.0),
        evaluator=_CODE,
        target=trace.target,
        session_id=trace.session_id,
    )


class StoreBackend(Store):
    """A store as the services' backend: what is to be evaluated is noted."""

    def sessions(self, session_id, *, tenant):
        return super().sessions(self.session_keys(session_id, tenant=tenant), tenant=tenant)

    def why_unscored(self, trace, scores):
        return "" if scores else "left out"

    def why_not_stored(self, trace_id, *, tenant):
        return ""

    async def evaluate(self, *, tenant, trace_id=None, session_id=None, overrides=None):
        self.asked = (trace_id, session_id, overrides)
        return self.evaluations(trace_id=trace_id, session_id=session_id, tenant=tenant)


@pytest.fixture
def backend(tmp_path):
    store = StoreBackend.open(Config(url=f"sqlite:///{tmp_path}/store.db"))
    for number, (session, value) in enumerate(
        [("a/b c", 0.25), ("two", 0.75), ("a/b c", 0.9)], start=1
    ):
        trace = _trace(number, session, agent_name="shop", user_input=f"question {number}")
        store.commit([StoredTrace(trace, 1, "")], [_score(trace, "coherence", value)])
    yield store
    store.close()


@pytest.fixture
def traces(backend):
    return TraceService(backend)


def _ask(coroutine):
    return asyncio.run(coroutine)


def test_a_trace_is_got_by_the_name_that_its_list_gives(traces):
    newest = _ask(traces.list_traces(pb.ListTracesRequest(page_size=1), CALL)).traces[0]
    assert (
        _ask(traces.get_trace(pb.GetTraceRequest(name=newest.name), CALL)).user_input
        == "question 3"
    )


def test_the_first_page_of_all_has_their_number_and_one_with_a_condition_has_none(traces):
    def listed(method, request):
        found = _ask(method(request, CALL))
        return found.total_size if found.HasField("total_size") else None

    of_traces = [
        pb.ListTracesRequest(page_size=1),
        pb.ListTracesRequest(failing=True),
        pb.ListTracesRequest(filter="latency > 1s"),
    ]
    assert [listed(traces.list_traces, x) for x in of_traces] == [3, 1, None]
    of_sessions = [pb.ListSessionsRequest(), pb.ListSessionsRequest(filter="trace_count > 1")]
    assert [listed(traces.list_sessions, x) for x in of_sessions] == [2, None]


def test_lists_have_the_question_the_user_and_the_tokens(tmp_path):
    store = StoreBackend.open(Config(url=f"sqlite:///{tmp_path}/store.db"))
    first = replace(_trace(1, "s", user_input="Hi?", user_id="ada"), usage=Usage(10, 4))
    second = replace(_trace(2, "s", user_input="And then?"), usage=Usage(5, None), started_ns=2)
    store.commit([StoredTrace(x, 1, "") for x in (first, second)], [])
    service = TraceService(store)
    [newest, oldest] = _ask(service.list_traces(pb.ListTracesRequest(), CALL)).traces
    assert (oldest.user_id, oldest.input_tokens, oldest.output_tokens) == ("ada", 10, 4)
    assert not newest.HasField("output_tokens")
    [found] = _ask(service.list_sessions(pb.ListSessionsRequest(), CALL)).sessions
    assert (found.user_input, found.input_tokens, found.output_tokens) == ("Hi?", 15, 4)
    store.close()


def test_of_a_trace_only_the_fields_that_the_mask_names_are_given(traces):
    request = pb.GetTraceRequest(
        trace_id=f"{1:032x}", read_mask={"paths": ["user_input", "target.trace_id"]}
    )
    found = _ask(traces.get_trace(request, CALL))
    assert [x.name for x, _ in found.ListFields()] == ["target", "user_input"]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.GetTraceRequest(name="runs/1"), "name"),
        (pb.GetTraceRequest(name="traces/1"), "name"),
        (pb.GetTraceRequest(name=f"traces/{1:032x}", trace_id=f"{1:032x}"), "name"),
        (pb.ListTracesRequest(since_ns=2**63), "since_ns"),
        (pb.GetTraceRequest(trace_id=f"{1:032x}", read_mask={"paths": ["nothing"]}), "read_mask"),
    ],
)
def test_a_wrong_field_is_named(traces, request_, field):
    ask = traces.list_traces if isinstance(request_, pb.ListTracesRequest) else traces.get_trace
    with pytest.raises(FieldError) as caught:
        _ask(ask(request_, CALL))
    assert caught.value.field == field


def test_a_session_with_any_id_has_a_name_that_finds_it(traces):
    [name] = [
        x.name
        for x in _ask(
            traces.list_sessions(pb.ListSessionsRequest(filter="trace_count = 2"), CALL)
        ).sessions
    ]
    found = _ask(traces.get_session(pb.GetSessionRequest(name=name), CALL))
    assert (name, found.session_id, len(found.traces)) == ("sessions/a%2Fb%20c", "a/b c", 2)
    assert [x.value for x in found.scores] == [0.25, 0.9]


def test_a_session_that_is_not_stored_is_not_found(traces):
    with pytest.raises(NotFoundError):
        _ask(traces.get_session(pb.GetSessionRequest(name="sessions/three"), CALL))


def test_the_pages_of_sessions_follow_each_other(traces):
    first = _ask(traces.list_sessions(pb.ListSessionsRequest(page_size=1), CALL))
    second = _ask(
        traces.list_sessions(
            pb.ListSessionsRequest(page_size=1, page_token=first.next_page_token), CALL
        )
    )
    assert [x.session_id for page in (first, second) for x in page.sessions] == ["a/b c", "two"]


def test_a_page_token_is_of_one_tenant(traces):
    token = _ask(traces.list_sessions(pb.ListSessionsRequest(page_size=1), CALL)).next_page_token
    with pytest.raises(FieldError, match="page_token: is of another request"):
        _ask(traces.list_sessions(pb.ListSessionsRequest(page_token=token), Call(tenant="other")))


def test_a_page_token_is_of_one_list(traces, backend):
    token = _ask(traces.list_traces(pb.ListTracesRequest(page_size=1), CALL)).next_page_token
    with pytest.raises(FieldError, match="page_token"):
        _ask(ScoreService(backend).list_scores(score_pb.ListScoresRequest(page_token=token), CALL))


def test_evaluating_a_trace_gives_its_scores(traces, backend):
    request = pb.EvaluateTraceRequest(
        name=f"traces/{1:032x}", metrics=["coherence"], threshold=0.75
    )
    found = _ask(traces.evaluate_trace(request, CALL))
    assert [x.metric for x in found.scores] == ["coherence"]
    assert backend.asked == (f"{1:032x}", None, Overrides(("coherence",), None, 0.75))


def test_a_trace_is_evaluated_once_under_a_request_id(traces, backend):
    request = pb.EvaluateTraceRequest(
        name=f"traces/{1:032x}", metrics=["coherence"], request_id="once"
    )
    first = _ask(traces.evaluate_trace(request, CALL))
    backend.asked = None
    assert (_ask(traces.evaluate_trace(request, CALL)), backend.asked) == (first, None)


def test_evaluating_a_session_weighs_its_signals(traces, backend):
    request = pb.EvaluateSessionRequest(name="sessions/two", signal_weights={"coherence": 2.0})
    _ask(traces.evaluate_session(request, CALL))
    assert backend.asked == (None, "two", Overrides(signal_weights={"coherence": 2.0}))


def test_evaluating_what_is_not_stored_is_not_found(traces):
    with pytest.raises(NotFoundError):
        _ask(traces.evaluate_session(pb.EvaluateSessionRequest(name="sessions/three"), CALL))


@pytest.mark.parametrize(
    ("order_by", "wanted"),
    [
        ("", [0.9, 0.75, 0.25]),
        ("stored_ns", [0.25, 0.75, 0.9]),
        ("stored_ns desc", [0.9, 0.75, 0.25]),
        ("value", [0.25, 0.75, 0.9]),
        ("value desc", [0.9, 0.75, 0.25]),
    ],
)
def test_scores_are_listed_in_the_order_that_is_asked_for(backend, order_by, wanted):
    request = score_pb.ListScoresRequest(filter="value > 0", order_by=order_by)
    assert [
        x.value for x in _ask(ScoreService(backend).list_scores(request, CALL)).scores
    ] == wanted


@pytest.mark.parametrize(
    ("order_by", "problem"),
    [
        ("reason", "there is no order by 'reason'; there is stored_ns, value, evaluated_at_ns"),
        ("value down", "write `value` or `value desc`"),
        ("value, value desc", "a field is named twice"),
        ("value, stored_ns", "stored_ns stands alone"),
        ("value,", "there is no order by ''"),
    ],
)
def test_what_cannot_be_ordered_by_is_named(backend, order_by, problem):
    with pytest.raises(FieldError, match=problem):
        _ask(ScoreService(backend).list_scores(score_pb.ListScoresRequest(order_by=order_by), CALL))


@pytest.mark.slow
@pytest.mark.parametrize("order_by", ["", "value"])
@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("metric", "a\x00b"),
        ("source", "a\x00b"),
        ("run", "runs/%00"),
        ("metric", "x" * 60_000),
        ("source", "x" * 60_000),
        ("service_name", "x" * 60_000),
        ("run", "runs/" + "x" * 60_000),
    ],
)
def test_text_that_no_database_can_look_for_is_refused_by_its_field(backend, field, text, order_by):
    request = score_pb.ListScoresRequest(order_by=order_by, **{field: text})
    with pytest.raises(FieldError) as raised:
        _ask(ScoreService(backend).list_scores(request, CALL))
    assert raised.value.field == field
    assert len(str(raised.value)) < 200


def test_a_page_token_holds_for_its_order_alone(backend):
    service = ScoreService(backend)
    token = _ask(
        service.list_scores(score_pb.ListScoresRequest(order_by="value", page_size=1), CALL)
    ).next_page_token
    other = score_pb.ListScoresRequest(order_by="value desc", page_size=1, page_token=token)
    with pytest.raises(FieldError, match="page_token"):
        _ask(service.list_scores(other, CALL))


def test_the_scores_of_one_trace_can_be_filtered(backend):
    request = score_pb.ListScoresRequest(trace_id=f"{1:032x}", filter="value > 0.5")
    assert not _ask(ScoreService(backend).list_scores(request, CALL)).scores


def test_every_service_has_all_methods_of_its_proto_each_with_a_scope(backend):
    paths = {x.path: x.scope for servicer in services(backend) for x in methods(servicer)}
    assert paths["/spanscore.v1.TraceService/EvaluateTrace"] == "write"


def test_every_service_is_listed_under_the_full_name_of_its_proto(backend):
    assert tuple(x.service.full_name for x in services(backend)) == NAMES


def test_a_score_is_got_by_the_name_that_its_list_gives(backend):
    service = ScoreService(backend)
    listed = _ask(
        service.list_scores(score_pb.ListScoresRequest(filter="value = 0.75"), CALL)
    ).scores[0]
    assert _ask(service.get_score(score_pb.GetScoreRequest(name=listed.name), CALL)).value == 0.75


def test_a_score_that_is_not_stored_is_not_found(backend):
    with pytest.raises(NotFoundError, match="there is no score 'abc'"):
        _ask(ScoreService(backend).get_score(score_pb.GetScoreRequest(name="scores/abc"), CALL))


def test_a_service_without_one_of_its_methods_is_an_error_of_its_author():
    class Incomplete(Servicer):
        service = score_pb.DESCRIPTOR.services_by_name["ScoreService"]

    with pytest.raises(TypeError, match="Incomplete needs a method get_score with @needs"):
        methods(Incomplete())


def test_a_method_that_streams_where_the_proto_does_not_is_an_error_of_its_author():
    class Streaming(Servicer):
        service = score_pb.DESCRIPTOR.services_by_name["ScoreService"]

        @needs("read")
        async def get_score(self, request, call):
            yield request

    with pytest.raises(TypeError, match="must stream its responses where the proto does"):
        methods(Streaming())


def test_a_field_error_is_an_input_error():
    assert isinstance(FieldError("a", "b"), InputError)


class _Large(StoreBackend):
    """Has 40 scores of 200 kB each, whatever is asked for."""

    def _scores(self):
        outcome = Score(0.5, "x" * 200_000)
        return [
            replace(_score(_trace(1, "two"), f"rubric.{n}", 0.5), outcome=outcome)
            for n in range(40)
        ]

    def list_scores(self, query, limit, after=None):
        start = after[0] if after else 0
        found = self._scores()[start : start + limit]
        return Page(found, (start + len(found),) if start + len(found) < 40 else None)

    def evaluations(self, *, tenant, trace_id=None, session_id=None, run=""):
        return self._scores()


@pytest.fixture
def large(tmp_path):
    store = _Large.open(Config(url=f"sqlite:///{tmp_path}/store.db"))
    store.commit([StoredTrace(_trace(1, "two"), 1, "")], [])
    yield store
    store.close()


@pytest.mark.parametrize("subject", [{}, {"session_id": "two"}])
def test_pages_of_large_scores_each_fit_in_a_message_and_together_have_all(large, subject):
    service, metrics, token = ScoreService(large), [], ""
    while True:
        request = score_pb.ListScoresRequest(page_size=1000, page_token=token, **subject)
        page = _ask(service.list_scores(request, CALL))
        assert page.ByteSize() < 4 * 2**20
        metrics += [x.metric for x in page.scores]
        token = page.next_page_token
        if not token:
            break
    assert metrics == [f"rubric.{n}" for n in range(40)]


def test_a_session_with_large_scores_fits_in_a_message(large):
    session = _ask(TraceService(large).get_session(pb.GetSessionRequest(name="sessions/two"), CALL))
    assert 0 < len(session.scores) < 40
    assert session.ByteSize() < 4 * 2**20


@pytest.mark.slow
def test_a_subject_has_pages_without_a_page_size_too(backend, monkeypatch):
    monkeypatch.setattr(requests, "MAX_PAGE", 1)
    page = _ask(
        ScoreService(backend).list_scores(score_pb.ListScoresRequest(session_id="a/b c"), CALL)
    )
    assert (len(page.scores), bool(page.next_page_token)) == (1, True)


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: ScoreService(x).list_scores(score_pb.ListScoresRequest(session_id="two"), CALL),
        lambda x: ScoreService(x).list_scores(score_pb.ListScoresRequest(), CALL),
        lambda x: TraceService(x).get_session(pb.GetSessionRequest(name="sessions/two"), CALL),
    ],
)
def test_scores_are_encoded_beside_the_event_loop(backend, monkeypatch, ask):
    threads = set()

    def noting(score):
        threads.add(threading.current_thread())
        return encode_score(score)

    monkeypatch.setattr(listing, "encode_score", noting)
    _ask(ask(backend))
    assert threads
    assert threading.main_thread() not in threads
