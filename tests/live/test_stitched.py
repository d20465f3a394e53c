"""A turn that is spread over several traces is scored once, when its traces are there, whatever
happens meanwhile.
"""

import random

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

pytestmark = pytest.mark.slow

WAITS = {
    "complete_after": "300ms",
    "idle_after": "300ms",
    "session_idle_after": "1s",
    "stitch_window": "1h",
}
PROXY = "litellm/requests"
PARTS = 3
HOUR_S = 3600
GATEWAY, AGENTS, CALLS = "litellm/shop-gateway", 4, 13


def export(server, requests):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        for request in requests:
            TraceServiceStub(channel).Export(request)


def facts(traces):
    return [
        {key: value for key, value in trace.items() if key != "completeness"} for trace in traces
    ]


def by_trace(recorded):
    """The recording's spans as a request for each of its traces, oldest first."""
    found = {}
    for request in recorded.spans_one_by_one():
        span = request.resource_spans[0].scope_spans[0].spans[0]
        merged = found.setdefault(span.trace_id, request)
        if merged is not request:
            merged.resource_spans.extend(request.resource_spans)
    return list(found.values())


def revisions(server):
    return sorted(
        attribute["value"]["intValue"]
        for span in server.exported("spans")
        for attribute in span["attributes"]
        if attribute["key"] == "spanscore.revision"
    )


def parts_wait(count):
    return lambda state: state["waiting_parts"] == count and not state["open_traces"]


MEASURED = {
    "default_metrics": False,
    "metrics": {"check.arguments_match_schema": {}},
}  # which a part without an answer has, too


def scored_alone(server, recorded):
    """A server that has scored the recording's first part, since nothing came; its time stands
    still.
    """
    running = (
        server(assemble=WAITS | {"stitch_window": "1m"}, evaluation=MEASURED).stop_clock().start()
    )
    export(running, by_trace(recorded)[:1])
    running.pass_time(1)
    running.wait_until(parts_wait(1))
    running.pass_time(60)
    running.wait_until(lambda state: state["counters"].get("traces_finished") == 1)
    return running


def test_the_requests_of_a_proxy_give_the_turn_of_the_file(server, recording):
    recorded, running = recording(PROXY), server(assemble=WAITS).stop_clock().start()
    requests = list(recorded.spans_one_by_one())
    random.Random(5).shuffle(requests)
    export(running, requests)
    running.run_clock()
    running.wait_until_finished(PARTS)
    running.stop()
    (expected,) = recorded.expected
    assert facts(running.agent_traces([expected["id"]])) == facts([expected])
    assert set(revisions(running)) == {"1"}


def test_a_part_whose_continuation_never_comes_is_scored_when_its_time_is_up(server, recording):
    running = server(assemble=WAITS).stop_clock().start()
    export(running, by_trace(recording(PROXY))[:1])
    running.pass_time(1)
    running.wait_until(parts_wait(1))
    running.pass_time(HOUR_S)
    running.run_clock()
    running.wait_until_finished(1)
    assert running.state()["counters"]["agent_traces"] == 1


def test_what_comes_after_a_part_was_scored_is_the_turns_next_revision(server, recording):
    recorded, running = recording(PROXY), scored_alone(server, recording(PROXY))
    export(running, by_trace(recorded)[1:])
    running.run_clock()
    running.wait_until_finished(1 + PARTS)
    running.stop()
    (expected,) = recorded.expected
    assert facts(running.agent_traces([expected["id"]])) == facts([expected])
    assert set(revisions(running)) == {"1", "2"}


def test_parts_that_waited_when_the_process_was_killed_are_stitched_after_it(server, recording):
    known = 2
    recorded, running = recording(PROXY), server(assemble=WAITS).start()
    parts = by_trace(recorded)
    export(running, parts[:known])
    running.wait_until(parts_wait(known))
    running.kill()
    running.start()
    export(running, parts[known:])
    running.wait_until_finished(PARTS)
    running.stop()
    (expected,) = recorded.expected
    assert facts(running.agent_traces([expected["id"]])) == facts([expected])


def test_a_part_that_was_scored_before_a_kill_is_stitched_after_it(server, recording):
    recorded, running = recording(PROXY), scored_alone(server, recording(PROXY))
    running.kill()
    running.start()
    export(running, by_trace(recorded)[1:])
    running.run_clock()
    running.wait_until_finished(PARTS)
    running.stop()
    (expected,) = recorded.expected
    assert facts(running.agent_traces([expected["id"]])) == facts([expected])


def test_in_inline_mode_the_roots_of_all_parts_leave_once(server, recording):
    recorded, running = recording(PROXY), server(mode="inline", assemble=WAITS).stop_clock().start()
    export(running, recorded.spans_one_by_one())
    running.run_clock()
    running.wait_until_finished(PARTS)
    running.stop()
    passed_on = [x["spanId"] for x in running.exported("spans") if not emitted(x)]
    assert sorted(passed_on) == sorted(
        x.resource_spans[0].scope_spans[0].spans[0].span_id.hex()
        for x in recorded.spans_one_by_one()
    )


def test_in_inline_mode_a_part_that_waits_holds_its_root_no_longer_than_its_time(server, recording):
    settings = {"mode": "inline", "inline": {"max_delay": "1s"}, "assemble": WAITS}
    running = server(**settings).start()
    export(running, by_trace(recording(PROXY))[:1])
    running.wait_until(lambda state: state["waiting_parts"] == 1 and not state["held_roots"])


def emitted(span):
    return any(x["key"] == "spanscore.emitted" for x in span.get("attributes", []))


def sides(recorded):
    """The application's traces, and those of its gateway, each a request."""
    services = [
        (x, {y.value.string_value for y in x.resource_spans[0].resource.attributes})
        for x in by_trace(recorded)
    ]
    return [x for x, names in services if "shop" in names], [
        x for x, names in services if "models" in names
    ]


def stored(server, requests):
    """How many of the traces of requests are in an agent trace."""
    ids = [x.resource_spans[0].scope_spans[0].spans[0].trace_id.hex() for x in requests]
    return sum(x is not None for x in server.agent_traces(ids))


def test_what_waited_when_the_process_was_killed_is_known_as_the_gateways_after_it(
    server, recording
):
    application, gateway = sides(recording(GATEWAY))
    running = (
        server(assemble=WAITS | {"complete_after": "2s", "idle_after": "300ms"})
        .stop_clock()
        .start()
    )
    export(running, gateway)
    running.pass_time(3)
    running.wait_until(lambda state: state["waiting_parts"] == CALLS)
    running.kill()
    running.start()
    export(running, application)
    running.run_clock()
    running.wait_until_finished(AGENTS + CALLS)
    running.stop()
    assert (stored(running, application), stored(running, gateway)) == (AGENTS, 0)


def test_an_application_with_a_part_of_its_gateways_traces_is_known_to_the_rest_after_a_kill(
    server, recording
):
    application, gateway = sides(recording(GATEWAY))
    running = server(assemble=WAITS).stop_clock().start()
    export(running, [*application, *gateway[::2]])
    running.run_clock()
    running.wait_until_finished(AGENTS + len(gateway[::2]))
    running.kill()
    running.stop_clock()
    running.start()
    export(running, gateway[1::2])
    running.run_clock()
    running.wait_until_finished(CALLS)
    running.stop()
    assert (stored(running, application), stored(running, gateway)) == (AGENTS, 0)


def test_in_inline_mode_the_gateways_roots_leave_without_scores_and_the_applications_with_them(
    server, recording
):
    running = server(mode="inline", assemble=WAITS).start()
    # in one: a gateway's traces wait for the others only briefly
    export(running, [recording(GATEWAY).traces])
    running.wait_until_finished(AGENTS + CALLS)
    running.stop()
    passed_on = [x for x in running.exported("spans") if not emitted(x)]
    scored = {
        x["traceId"]
        for x in passed_on
        if any(y["key"].startswith("spanscore.") for y in x.get("attributes", []))
    }
    assert (len(passed_on), len(scored)) == (
        len(list(recording(GATEWAY).spans_one_by_one())),
        AGENTS,
    )
