"""Spans belong to the work that they were emitted for, whoever made their provider and whatever
runs beside it.
"""

import asyncio
import contextvars
import threading

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

from spanscore.sdk import captures as capturing
from spanscore.sdk.captures import attached


@pytest.fixture
def captures():
    return attached().captures


@pytest.fixture
def tracer():
    return TracerProvider(shutdown_on_exit=False).get_tracer("agent")


def names(capture, timeout_s=0.0):
    return sorted(x.name for x in capture.telemetry(timeout_s)[0])


def test_a_span_that_ends_within_belongs_to_the_work(captures, tracer):
    with captures.running() as capture, tracer.start_as_current_span("agent"):
        pass
    assert names(capture) == ["agent"]


def test_a_span_after_it_does_not(captures, tracer):
    with captures.running() as capture:
        pass
    with tracer.start_as_current_span("later"):
        pass
    assert names(capture) == []


def test_a_provider_that_was_there_before_is_seen():
    class Own(TracerProvider):
        pass

    made = Own(shutdown_on_exit=False)
    with attached().captures.running() as capture:
        made.get_tracer("x").start_span("own").end()
    assert names(capture) == ["own"]


def test_without_a_global_provider_one_is_set_that_a_later_one_may_replace(monkeypatch, captures):
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", type(trace._TRACER_PROVIDER_SET_ONCE)())
    attached().require_providers()
    with captures.running() as capture:
        trace.get_tracer("agent").start_span("first").end()
        later = TracerProvider(shutdown_on_exit=False)
        trace.set_tracer_provider(later)
        trace.get_tracer("agent").start_span("second").end()
    assert names(capture) == ["first", "second"]
    assert trace.get_tracer_provider() is later


def test_tasks_of_two_pieces_of_work_at_once_do_not_mix(captures, tracer):
    async def work(name):
        with captures.running() as capture:
            for _ in range(3):
                with tracer.start_as_current_span(name):
                    await asyncio.sleep(0)
            return names(capture)

    async def both():
        return await asyncio.gather(work("a"), work("b"))

    assert asyncio.run(both()) == [["a"] * 3, ["b"] * 3]


def test_threads_of_two_pieces_of_work_at_once_do_not_mix(captures, tracer):
    found, meet = {}, threading.Barrier(2, timeout=30)

    def work(name):
        with captures.running() as capture:
            meet.wait()
            with tracer.start_as_current_span(name):
                meet.wait()
            found[name] = names(capture)

    threads = [threading.Thread(target=work, args=(x,)) for x in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"a": ["a"], "b": ["b"]}


def test_a_thread_without_context_belongs_to_the_only_work(captures, tracer):
    with captures.running() as capture:
        thread = threading.Thread(target=lambda: tracer.start_span("in a thread").end())
        thread.start()
        thread.join()
    assert names(capture) == ["in a thread"]


def test_a_span_without_context_belongs_to_the_work_of_its_parent(captures, tracer):
    empty = contextvars.Context()
    with captures.running() as one, captures.running() as other:
        parent = empty.run(tracer.start_span, "unknown")
        with tracer.start_as_current_span("known") as known:
            around = trace.set_span_in_context(known, Context())
        contextvars.Context().run(tracer.start_span, "child", around).end()
        parent.end()
    assert names(other) == ["child", "known"]
    assert names(one) == []


def test_what_a_finished_work_still_emits_belongs_to_no_later_one(captures, tracer):
    with captures.running():
        left = contextvars.copy_context()
    with captures.running() as capture:
        left.run(tracer.start_span, "late").end()
    assert names(capture) == []


def test_it_waits_for_a_span_that_a_thread_has_still_to_end(captures, tracer):
    with captures.running() as capture:
        span = tracer.start_span("slow")
        waiting = threading.Timer(0.01, span.end)
        waiting.start()
        assert names(capture, timeout_s=30) == ["slow"]


def test_it_does_not_wait_for_the_span_in_which_the_caller_is(captures, tracer):
    with (
        captures.running() as capture,
        tracer.start_as_current_span("test"),
        tracer.start_as_current_span("step"),
    ):
        assert capture.open_spans() == 0


def test_of_too_many_spans_the_rest_is_counted(captures, tracer, monkeypatch):
    monkeypatch.setattr(capturing, "MAX_SPANS", 2)
    with captures.running() as capture:
        for _ in range(5):
            tracer.start_span("x").end()
    assert (len(names(capture)), capture.left_out) == (2, 3)


def test_a_span_without_ids_disturbs_nothing(captures):
    with captures.running() as capture:
        captures.on_end(ReadableSpan("no context"))
    assert names(capture) == []
