"""Traces that a client has rebuilt: what is stored of them, and what is refused before anything
is.
"""

import asyncio

import pytest

from spanscore.api.convert import encode_trace
from spanscore.api.servicer import Call
from spanscore.api.traces import TraceService
from spanscore.api.v1 import agent_trace_pb2 as trace_pb, trace_service_pb2 as pb
from spanscore.config import Settings
from spanscore.control.measurer import Measurers
from spanscore.control.runs import Runs
from spanscore.errors import FieldError
from spanscore.evaluation import Engine
from spanscore.export.sender import Sender
from spanscore.scoring import Scoring
from spanscore.store.config import Config
from spanscore.store.store import Store, StoredTrace
from spanscore.telemetry import Meter
from spanscore.testing.traces import agent_trace

CALL = Call()


class Backend:
    def __init__(self, store):
        settings, meter = Settings(), Meter()
        sender = Sender(settings.export, {}, store, meter)
        scoring = Scoring(Engine(settings.evaluation, None, None), store, sender, meter)
        self.runs = Runs(settings.evaluation.runs, Measurers(settings, None, None), scoring, store)


@pytest.fixture
def store(tmp_path):
    opened = Store.open(Config(url=f"sqlite:///{tmp_path}/store.db"))
    yield opened
    opened.close()


@pytest.fixture
def send(store):
    def send_them(messages, call=CALL):
        service = TraceService(Backend(store))
        return asyncio.run(service.import_traces(pb.ImportTracesRequest(traces=messages), call))

    return send_them


def test_traces_that_are_sent_are_stored_and_named(send, store):
    traces = [agent_trace(user_input=str(n), session_id="s") for n in range(3)]
    answer = send(map(encode_trace, traces))

    assert list(answer.traces) == [f"traces/{x.id}" for x in traces]
    assert list(answer.sessions) == ["sessions/s"]
    assert [store.trace(x.id, tenant="") for x in traces] == traces


def test_traces_that_are_sent_are_none_that_came(send, store):
    send([encode_trace(agent_trace(session_id="s"))])
    assert store.open_sessions() == []


def test_a_trace_that_came_stays_as_it_is(send, store):
    trace = agent_trace()
    store.commit([StoredTrace(trace, 2, "digest")], [])
    send([encode_trace(trace)])
    assert store.known([trace.id]) == {trace.id: (2, "digest")}


def test_a_trace_belongs_to_the_tenant_who_sends_it_whatever_it_says(send, store):
    message = encode_trace(agent_trace(user_input="mine", session_id="s"))
    message.target.resource_json = '{"spanscore.header.:tenant": "rival"}'
    message.session_key = "of-another-tenant"
    [name] = send([message], Call(tenant="acme")).traces
    id_ = name.removeprefix("traces/")

    assert store.trace(id_, tenant="rival") is None
    assert store.trace(id_, tenant="acme").session_key not in {"s", "of-another-tenant"}


def wrong(**facts):
    message = encode_trace(agent_trace())
    for name, value in facts.items():
        owner, _, field = name.rpartition("__")
        holder = getattr(message, owner) if owner else message
        if isinstance(value, list):
            holder.ClearField(field)
            getattr(holder, field).extend(value)
        else:
            setattr(holder, field, value)
    return message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("message", "field"),
    [
        (trace_pb.AgentTrace(), "trace_ids"),
        (wrong(trace_ids=[]), "trace_ids"),
        (wrong(trace_ids=["x" * 40]), "trace_ids"),
        (wrong(target__trace_id="ABC"), "trace_ids"),
        (wrong(target__span_id="no span"), "opening_span_id"),
        (wrong(ended_ns=2**63), "ended_ns"),
        (wrong(started_ns=2**62, ended_ns=1), "ended_ns"),
        (wrong(target__end_ns=2**64 - 1), "target.end_ns"),
        (wrong(target__resource_json="[]"), "target.resource_json"),
        (wrong(target__resource_json="{"), "target.resource_json"),
        (
            wrong(
                model_calls=[
                    trace_pb.ModelCall(tool_calls=[trace_pb.RequestedCall(arguments_json="{")])
                ]
            ),
            "",
        ),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_trace_that_cannot_be_stored_is_refused_by_its_field_and_nothing_is_stored(
    message, field, send, store
):
    good = agent_trace()
    with pytest.raises(FieldError) as raised:
        send([encode_trace(good), message])
    assert raised.value.field == f"traces[1].{field}".rstrip(".")
    assert store.trace(good.id, tenant="") is None


def test_more_traces_than_one_request_may_have_are_refused(send):
    with pytest.raises(FieldError, match="at most 1000"):
        send([trace_pb.AgentTrace()] * 1001)
