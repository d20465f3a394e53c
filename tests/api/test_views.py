"""ViewService: a trace and a session as a page shows them, and who looks."""

import asyncio
import json

import pytest

from spanscore.api.servicer import Call
from spanscore.api.traces import ViewService
from spanscore.api.v1 import view_service_pb2 as pb
from spanscore.errors import FieldError, NotFoundError
from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.model.trace import AgentTrace, Target, ToolCall
from spanscore.store.config import Config
from spanscore.store.store import Store, StoredTrace

_S = 10**9


class StoreBackend(Store):
    """A store as the service's backend, without a judge."""

    has_judge = False
    trace_url = "https://traces.example.com/{trace_id}"

    def why_unscored(self, trace, scores):
        return "" if scores else "left out"

    def why_not_stored(self, trace_id, *, tenant):
        return ""

    def sessions(self, session_id, *, tenant):
        return super().sessions(self.session_keys(session_id, tenant=tenant), tenant=tenant)


def _trace(number, **facts):
    target = Target(f"{number:032x}", f"{number:016x}", number * _S, (number + 1) * _S)
    return AgentTrace(
        trace_ids=(target.trace_id,),
        root_span_id=target.span_id,
        target=target,
        opening_span_id=target.span_id,
        started_ns=target.start_ns,
        ended_ns=target.end_ns,
        session_id="s",
        tool_calls=(ToolCall("c", "book", {"day": 3}, error="no seats", started_ns=number * _S),),
        **facts,
    )


def _score(trace, metric="task_completion", scope="trace", **facts):
    return Evaluation(
        scope=scope,
        subject_id=trace.id if scope == "trace" else "s",
        metric=metric,
        outcome=Score(0.2, 'Step 1 found "no seats".'),
        threshold=0.5,
        scale=(0.0, 1.0),
        evaluator=Evaluator("CODE", "spanscore", "1"),
        target=trace.target,
        session_id="s",
        **facts,
    )


@pytest.fixture
def service(tmp_path):
    store = StoreBackend.open(Config(url=f"sqlite:///{tmp_path}/store.db"))
    traces = [_trace(number, user_input=f"question {number}") for number in (1, 2)]
    scores = [_score(x) for x in traces]
    scores.append(_score(traces[1], "conversation_completion", "session"))
    store.commit([StoredTrace(x, 1, "") for x in traces], scores)
    yield ViewService(store)
    store.close()


def _ask(coroutine):
    return asyncio.run(coroutine)


def _view(response):
    return json.loads(response.view_json)


def test_a_trace_has_its_steps_and_the_places_that_its_scores_name(service):
    response = _ask(service.get_trace_view(pb.GetTraceViewRequest(name=f"traces/{1:032x}"), Call()))
    view = _view(response)
    (score,) = view["turn"]["scores"]
    assert response.name == f"traces/{view['turn']['id']}"
    assert [x["name"] for x in view["turn"]["steps"]] == ["book"]
    assert (score["places"], score["quotes"]) == ([{"step": 0}], ["no seats"])
    assert (view["row"]["state"], view["row"]["session"]) == ("fail", "s")


def test_a_session_has_its_scores_and_a_row_for_each_turn(service):
    view = _view(
        _ask(service.get_session_view(pb.GetSessionViewRequest(name="sessions/s"), Call()))
    )
    assert [x["input"] for x in view["turns"]] == ["question 1", "question 2"]
    assert [x["metric"] for x in view["session"]["scores"]] == ["conversation_completion"]
    assert [view["metrics"][x]["metric"] for x in view["turns"][0]["fails"]] == ["task_completion"]
    assert view["row"]["turns"] == [0, 1]


def test_what_another_tenant_has_is_not_there(service):
    for ask in (
        service.get_trace_view(
            pb.GetTraceViewRequest(name=f"traces/{1:032x}"), Call(tenant="acme")
        ),
        service.get_session_view(pb.GetSessionViewRequest(name="sessions/s"), Call(tenant="acme")),
    ):
        with pytest.raises(NotFoundError):
            _ask(ask)


def test_a_name_that_is_none_is_an_error_of_its_field(service):
    for ask in (
        service.get_trace_view(pb.GetTraceViewRequest(name="traces/x"), Call()),
        service.get_trace_view(pb.GetTraceViewRequest(name=f"traces/{1:032x}", run="x"), Call()),
        service.get_session_view(pb.GetSessionViewRequest(name="x"), Call()),
    ):
        with pytest.raises(FieldError):
            _ask(ask)


def test_who_looks_is_shown_with_what_they_may_do(service):
    viewer = _ask(
        service.get_viewer(pb.GetViewerRequest(), Call(tenant="acme", scopes=frozenset({"read"})))
    )
    assert (viewer.tenant, list(viewer.scopes), viewer.has_judge) == ("acme", ["read"], False)
    assert viewer.trace_url == StoreBackend.trace_url


def test_who_may_do_all_has_every_scope(service):
    viewer = _ask(service.get_viewer(pb.GetViewerRequest(), Call(scopes=frozenset({"admin"}))))
    assert list(viewer.scopes) == ["admin", "read", "write"]
