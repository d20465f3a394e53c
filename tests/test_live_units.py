"""Turns that are no trace, or are told by several: sent to a running server they give the agent
traces of files.
"""

import asyncio
import gzip
import time
from dataclasses import replace
from pathlib import Path

import pytest

from spanscore import config
from spanscore.otlp import codec, files
from spanscore.otlp.signal import WIRE
from spanscore.rebuild import rebuild_all
from spanscore.serving import pipeline

GOLDEN = Path(__file__).parent / "golden"
CASES = (
    "claude_code/shop-events",
    "claude_code/shop-traces",
    "claude_code/shop-version-0-1",
    "codex/shop",
    "gemini_cli/shop",
    "gemini_cli/shop-traces",
    "litellm/shop-gateway",
    "openinference/desk-mcp",
    "openllmetry/shop-js-langchain-runs",
    "pydantic_ai/desk-a2a",
    "semconv/desk-http",
)
GATEWAY = "litellm/shop-gateway"


@pytest.fixture
def settings(tmp_path):
    return config.Settings.model_validate(
        {
            "receive": {key: {"endpoint": "127.0.0.1:0"} for key in ("grpc", "http", "health")},
            "journal": {"path": tmp_path / "journal.db"},
            "store": {"url": f"sqlite:///{tmp_path}/store.db"},
            "assemble": {
                "complete_after": "20ms",
                "idle_after": "20ms",
                "session_idle_after": "20ms",
            },
        }
    )


def requests_of(case):
    """The requests of a recording, each cut in two so that turns come in pieces."""
    for path in sorted((GOLDEN / case).glob("*.pb.gz")):
        signal = "logs" if path.name.startswith("logs") else "traces"
        for odd in (True, False):
            request = WIRE[signal].request.FromString(gzip.decompress(path.read_bytes()))
            for group in request.resource_logs if signal == "logs" else request.resource_spans:
                for scoped in group.scope_logs if signal == "logs" else group.scope_spans:
                    items = scoped.log_records if signal == "logs" else scoped.spans
                    kept = [x for number, x in enumerate(items) if bool(number % 2) == odd]
                    copies = [type(x).FromString(x.SerializeToString()) for x in kept]
                    del items[:]
                    items.extend(copies)
            yield signal, request


def plain(trace):
    """The agent trace, but for how complete it was thought to be."""
    return None if trace is None else replace(trace, completeness="complete")


def finished(running):
    """How many traces a server has dealt with."""
    return running.meter.totals().get("traces_finished", 0)


class Clock:
    """Stands still while requests are sent, so that no trace is complete before the next one has
    come.
    """

    def __init__(self):
        self.stands_ns = None

    def __call__(self):
        return time.time_ns() if self.stands_ns is None else self.stands_ns

    def stop(self):
        self.stands_ns = time.time_ns()

    def go_on(self):
        self.stands_ns = None


async def until(is_true):
    while not is_true():  # noqa: ASYNC110 # the store has no events
        await asyncio.sleep(0.01)


def sent(settings, requests, expected, *, traces=0):
    """Send requests to a server until it has stored what is expected and dealt with `traces`; what
    it has stored.

    With each request is said how many traces have to be dealt with before the next one is sent;
    with 0 the next one comes at the same time.
    """

    async def main():
        clock, stopping, ready = Clock(), asyncio.Event(), asyncio.Event()
        running = pipeline.Pipeline(settings, clock_ns=clock)
        serving = asyncio.create_task(running.run(stopping, ready.set))
        await ready.wait()

        def is_over():
            return finished(running) >= traces and all(
                plain(running.trace(x)) == turn for x, turn in expected.items()
            )

        try:
            async with asyncio.timeout(90):
                for signal, request, count in requests:
                    clock.stop()
                    await running.accept(signal, request.SerializeToString(), request)
                    if count:
                        clock.go_on()
                        await until(lambda count=count: finished(running) >= count)
                clock.go_on()
                await until(is_over)
        except TimeoutError:
            pass  # what differs is seen in what is stored
        stored = {x: plain(running.trace(x)) for x in expected}
        stopping.set()
        await serving
        return stored

    return asyncio.run(main())


def agent_traces(case):
    """What files give, by id."""
    telemetry = files.load(sorted((GOLDEN / case).glob("*.pb.gz")))
    return {x.id: plain(x) for x in rebuild_all(telemetry.spans, telemetry.logs)}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_turns_that_are_no_trace_are_the_same_live_and_from_files(settings, case):
    expected = agent_traces(case)
    requests = [(*x, 0) for x in requests_of(case)]
    assembling = settings.assemble.model_copy(update={"stitch_window": 300_000_000})
    settings = settings.model_copy(update={"assemble": assembling})
    assert sent(settings, requests, expected) == expected


def by_service(service, case=GATEWAY):
    """The spans of one service in the recording of two, as an application's and its gateway's, as a
    request.
    """
    (request,) = (
        WIRE["traces"].request.FromString(gzip.decompress(x.read_bytes()))
        for x in (GOLDEN / case).glob("*.gz")
    )
    kept = [x for x in request.resource_spans if named(x.resource)["service.name"] == service]
    return WIRE["traces"].request(resource_spans=kept)


def named(resource):
    return {x.key: x.value.string_value for x in resource.attributes}


def ids(request):
    return {
        x.trace_id.hex()
        for group in request.resource_spans
        for scoped in group.scope_spans
        for x in scoped.spans
    }


def own_agent_traces(request):
    """What one request gives by itself, by id."""
    return {x.id: plain(x) for x in rebuild_all(codec.spans(request))}


APPLICATION, MODELS = by_service("shop"), by_service("models")


@pytest.mark.slow
@pytest.mark.parametrize("first", [APPLICATION, MODELS])
def test_a_gateways_traces_are_no_agent_traces_whichever_come_first(settings, first):
    expected = agent_traces(GATEWAY)
    nothing = dict.fromkeys(ids(MODELS))
    second = MODELS if first is APPLICATION else APPLICATION
    requests = [("traces", x, 0) for x in (first, second)]
    assert sent(settings, requests, expected | nothing, traces=17) == expected | nothing


@pytest.mark.slow
def test_a_gateways_traces_are_no_agent_traces_though_the_applications_was_scored_before(settings):
    expected = agent_traces(GATEWAY)
    nothing = dict.fromkeys(ids(MODELS))
    requests = [("traces", APPLICATION, 4), ("traces", MODELS, 0)]
    assert sent(settings, requests, expected | nothing, traces=17) == expected | nothing


@pytest.mark.slow
def test_a_gateways_traces_that_were_scored_before_the_application_came_give_way_to_it(settings):
    expected = agent_traces(GATEWAY)
    nothing = dict.fromkeys(own_agent_traces(MODELS))
    requests = [("traces", MODELS, len(ids(MODELS))), ("traces", APPLICATION, 0)]
    assert sent(settings, requests, expected | nothing) == expected | nothing


DELEGATED = "pydantic_ai/desk-a2a"
DESK, CLERK = by_service("desk", DELEGATED), by_service("clerk", DELEGATED)


@pytest.mark.slow
@pytest.mark.parametrize("first", [DESK, CLERK])
def test_what_a_tool_call_had_done_by_an_agent_elsewhere_is_in_the_turn_whichever_comes_first(
    settings, tmp_path, first
):
    expected = agent_traces(DELEGATED) | dict.fromkeys(own_agent_traces(CLERK))
    second = CLERK if first is DESK else DESK
    requests = [("traces", x, 0) for x in (first, second)]
    assert sent(settings, requests, expected) == expected


@pytest.mark.slow
def test_an_agents_trace_that_was_scored_by_itself_gives_way_to_the_turn_that_it_was_asked_by(
    settings,
):
    alone = dict.fromkeys(own_agent_traces(CLERK))
    expected = agent_traces(DELEGATED) | alone
    requests = [("traces", CLERK, len(ids(CLERK))), ("traces", DESK, 0)]
    assert sent(settings, requests, expected) == expected


@pytest.mark.slow
def test_a_turn_that_was_scored_without_the_agent_that_it_asked_is_scored_again_with_it(settings):
    expected = agent_traces(DELEGATED) | dict.fromkeys(own_agent_traces(CLERK))
    requests = [("traces", DESK, len(ids(DESK))), ("traces", CLERK, 0)]
    assert sent(settings, requests, expected) == expected


@pytest.mark.slow
def test_the_turn_is_found_by_the_trace_of_the_agent_that_it_asked(settings):
    (turn,) = (x for x in agent_traces(DELEGATED).values() if len(x.trace_ids) > 1)
    expected = {turn.trace_ids[1]: turn}
    requests = [("traces", DESK, len(ids(DESK))), ("traces", CLERK, 0)]
    assert sent(settings, requests, expected) == expected


LATE = "openinference/shop-openai-agents-js-chat"


def spans_of(case, is_kept):
    """A recording's traces with only some of their spans, as a request."""
    (path,) = (GOLDEN / case).glob("*.pb.gz")
    request = WIRE["traces"].request.FromString(gzip.decompress(path.read_bytes()))
    scopes = [x for group in request.resource_spans for x in group.scope_spans]
    around = {span.parent_span_id for scoped in scopes for span in scoped.spans}
    for scoped in scopes:
        kept = [
            type(x).FromString(x.SerializeToString())
            for x in scoped.spans
            if is_kept(x.span_id in around)
        ]
        del scoped.spans[:]
        scoped.spans.extend(kept)
    return request


@pytest.mark.slow
def test_spans_that_come_before_those_around_them_leave_no_second_agent_trace(settings):
    inner, outer = (
        spans_of(LATE, lambda is_around: not is_around),
        spans_of(LATE, lambda is_around: is_around),
    )
    expected = dict.fromkeys(own_agent_traces(inner)) | agent_traces(LATE)
    requests = [("traces", inner, len(ids(inner))), ("traces", outer, 0)]
    assert sent(settings, requests, expected) == expected


CUT = "semconv/openai-v2-latest"


def cut_request(chars):
    """The recording of a model's SDK, a trace for each call, as it comes where an SDK limits the
    length of values.
    """
    (path,) = (GOLDEN / CUT).glob("*.pb.gz")
    request = WIRE["traces"].request.FromString(gzip.decompress(path.read_bytes()))
    for group in request.resource_spans:
        for scoped in group.scope_spans:
            for attribute in (x for span in scoped.spans for x in span.attributes):
                if attribute.value.HasField("string_value"):
                    attribute.value.string_value = attribute.value.string_value[:chars]
    return request


@pytest.mark.slow
def test_a_trace_that_may_go_on_in_one_that_was_cut_is_as_damaged_live_as_from_files(
    settings, tmp_path
):
    request = cut_request(512)
    (tmp_path / "cut.pb").write_bytes(request.SerializeToString())
    expected = {x.id: plain(x) for x in rebuild_all(files.load([tmp_path / "cut.pb"]).spans)}
    assembling = settings.assemble.model_copy(update={"stitch_window": 300_000_000})
    found = sent(
        settings.model_copy(update={"assemble": assembling}), [("traces", request, 0)], expected
    )
    assert found == expected
