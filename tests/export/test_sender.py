"""The sender: each exporter at its own pace, at least once by the cursor, the histogram at most
once.
"""

import asyncio

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.errors import PermanentError, RetryableError
from spanscore.export.port import FaultError, UndeliveredError, UnsupportedSignalError
from spanscore.otlp.signal import WIRE

DOWN = UndeliveredError("down")
BROKEN = UndeliveredError("broken line", maybe_delivered=True)
ABSENT = UnsupportedSignalError("HTTP 404")
BUSY = FaultError("INTERNAL: busy")


async def test_what_is_offered_leaves_as_span_event_and_count(make, fakes, start):
    exporter = fakes.Exporter()
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        up.commit(make.many(1, 2))
        await up.settle()
    assert (exporter.names("traces"), exporter.names("logs"), exporter.counts()) == (
        ["m1", "m2"],
        ["m1", "m2"],
        2,
    )


async def test_an_exporter_to_a_tool_that_has_the_scores_gets_events_and_counts_alone(
    make, fakes, start, caplog
):
    caplog.set_level("INFO")
    exporter = fakes.Exporter()
    async with start({"otlp_grpc": exporter}, fakes.Outbox(), tools=["phoenix"]) as up:
        up.commit(make.many(1, 2))
        await up.settle()
    assert (exporter.names("traces"), exporter.names("logs"), exporter.counts()) == (
        [],
        ["m1", "m2"],
        2,
    )
    assert (
        "otlp_grpc: no evaluation spans are sent there, since phoenix shows the same scores"
        in caplog.text
    )


async def test_what_is_offered_is_not_read_from_the_store(make, fakes, start):
    async with start({"otlp_grpc": fakes.Exporter()}, fakes.Outbox()) as up:
        up.commit(make.many(1, 2))
        await up.settle()
    assert up.outbox.reads == 0


async def test_commits_handed_over_in_another_order_all_leave(make, fakes, start):
    exporter = fakes.Exporter()
    async with start({"otlp_grpc": exporter}, fakes.Outbox(make.many())) as up:
        up.outbox.pairs += make.many(1, 2, 3, 4)
        up.sender.offer(make.many(3, 4))
        await asyncio.sleep(0)
        up.sender.offer(make.many(1, 2))
        await up.settle()
    assert exporter.names() == ["m1", "m2", "m3", "m4"]


async def test_what_was_offered_before_it_ran_leaves(make, fakes, start):
    exporter = fakes.Exporter()
    up = start({"otlp_grpc": exporter}, fakes.Outbox())
    up.commit(make.many(1))
    async with up:
        await up.settle()
    assert exporter.names() == ["m1"]


async def test_after_a_restart_an_exporter_goes_on_at_its_cursor(make, fakes, start):
    exporter = fakes.Exporter()
    outbox = fakes.Outbox(make.many(1, 2, 3))
    outbox.cursors["otlp_grpc"] = 1
    async with start({"otlp_grpc": exporter}, outbox) as up:
        await up.settle()
    assert (exporter.names(), outbox.cursors) == (["m2", "m3"], {"otlp_grpc": 3})


async def test_nothing_leaves_twice_over_a_restart(make, fakes, start):
    outbox, exporter = fakes.Outbox(), fakes.Exporter()
    for number in (1, 2):
        async with start({"otlp_grpc": exporter}, outbox) as up:
            up.commit(make.many(number))
            await up.settle()
    assert exporter.names() == ["m1", "m2"]


async def test_a_new_exporter_begins_with_what_comes_next(make, fakes, start):
    exporter = fakes.Exporter()
    async with start({"otlp_grpc": exporter}, fakes.Outbox(make.many(1, 2))) as up:
        up.commit(make.many(3))
        await up.settle()
    assert exporter.names() == ["m3"]


async def test_a_backlog_leaves_in_batches(make, fakes, start):
    exporter = fakes.Exporter()
    outbox = fakes.Outbox(make.many(*range(1, 8)))
    outbox.cursors["otlp_grpc"] = 0
    async with start({"otlp_grpc": exporter}, outbox, batch={"max_size": 3}) as up:
        await up.settle()
    assert exporter.tries.count("traces") == 3


async def test_more_than_fits_in_memory_is_read_from_the_store(make, fakes, start):
    exporter = fakes.Exporter()
    async with start({"otlp_grpc": exporter}, fakes.Outbox(), max_waiting=2) as up:
        up.commit(make.many(*range(1, 6)))
        await up.settle()
    assert (exporter.names(), up.outbox.reads > 0) == (["m1", "m2", "m3", "m4", "m5"], True)


async def test_one_blocked_exporter_blocks_no_other(make, fakes, start):
    blocked, free = fakes.Exporter(), fakes.Exporter()
    blocked.gate.clear()
    async with start({"otlp_grpc": blocked, "otlp_http": free}, fakes.Outbox()) as up:
        up.commit(make.many(1))
        await free.tried["metrics"].wait()
        assert (free.names(), up.outbox.cursors) == (["m1"], {"otlp_grpc": 0, "otlp_http": 1})


async def test_a_cursor_does_not_pass_what_is_not_delivered(make, fakes, start):
    blocked = fakes.Exporter()
    blocked.gate.clear()
    async with start({"otlp_grpc": blocked}, fakes.Outbox()) as up:
        up.commit(make.many(1))
        await blocked.tried["traces"].wait()
    assert up.outbox.cursors == {"otlp_grpc": 0}


async def test_what_was_not_taken_is_sent_again_after_the_wait(make, fakes, start, clock):
    exporter = fakes.Exporter({"traces": [DOWN, DOWN]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox(), batch={"flush_timeout": "0"}) as up:
        up.commit(make.many(1))
        await up.settle()
    assert (exporter.names(), [x for x in clock.slept_s if x]) == (["m1"], [5.0, 7.5])


async def test_the_wait_is_what_the_backend_asked_for(make, fakes, start, clock):
    exporter = fakes.Exporter({"traces": [UndeliveredError("busy", requested_wait_s=42.0)]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        up.commit(make.many(1))
        await up.settle()
    assert 42.0 in clock.slept_s


async def test_what_is_refused_is_dropped_and_what_follows_leaves(make, fakes, start):
    exporter = fakes.Exporter({"traces": [PermanentError("HTTP 400")]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        for number in (1, 2):
            up.commit(make.many(number))
            await up.settle()
    assert (exporter.names(), up.meter.totals()["exporter_dropped_requests"]) == (["m2"], 1)


async def test_an_unsupported_signal_is_said_once_and_left_out(make, fakes, start, caplog):
    exporter = fakes.Exporter({"logs": [ABSENT, ABSENT]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        for number in (1, 2, 3):
            up.commit(make.many(number))
            await up.settle()
    assert (exporter.tries.count("logs"), caplog.text.count("not supported"), exporter.names()) == (
        1,
        1,
        ["m1", "m2", "m3"],
    )


async def test_a_backend_that_is_down_all_night_is_a_line_a_minute(
    make, fakes, start, clock, caplog
):
    exporter = fakes.Exporter(
        {"traces": [UndeliveredError(f"down, attempt {n}") for n in range(1000)]}
    )
    began_ns = clock.now_ns
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        up.commit(make.many(1))
        await up.settle()
    minutes = (clock.now_ns - began_ns) / 60e9
    assert minutes / 2 < caplog.text.count("otlp_grpc: traces: not delivered") <= minutes + 1


async def test_what_is_refused_is_said_although_a_retry_was_just_said(make, fakes, start, caplog):
    exporter = fakes.Exporter({"traces": [DOWN, PermanentError("HTTP 400")]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        up.commit(make.many(1))
        await up.settle()
    assert "otlp_grpc: traces: dropped: HTTP 400" in caplog.text


async def test_a_recovery_is_said_once(make, fakes, start, caplog):
    caplog.set_level("INFO")
    exporter = fakes.Exporter({"traces": [DOWN, DOWN]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        for number in (1, 2):
            up.commit(make.many(number))
            await up.settle()
    assert caplog.text.count("otlp_grpc: traces: delivering again") == 1


async def test_a_signal_that_stays_unsupported_is_said_once_in_all(
    make, fakes, start, clock, caplog
):
    exporter = fakes.Exporter({"logs": [ABSENT, ABSENT]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        for number in (1, 2):
            up.commit(make.many(number))
            await up.settle()
            clock.now_ns += 11 * 60 * 10**9
    assert (exporter.tries.count("logs"), caplog.text.count("not supported")) == (2, 1)


async def test_an_unsupported_signal_is_asked_for_again_later(make, fakes, start, clock):
    exporter = fakes.Exporter({"logs": [ABSENT]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        for number in (1, 2):
            up.commit(make.many(number))
            await up.settle()
            clock.now_ns += 11 * 60 * 10**9
    assert exporter.names("logs") == ["m2"]


async def test_a_partial_success_is_logged_and_not_sent_again(make, fakes, start, caplog):
    exporter = fakes.Exporter({"traces": ["1 spans not taken: too old"]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        up.commit(make.many(1))
        await up.settle()
    assert (exporter.tries.count("traces"), "too old" in caplog.text) == (1, True)


async def test_a_count_that_may_have_arrived_is_not_sent_again(make, fakes, start):
    exporter = fakes.Exporter({"metrics": [BROKEN]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        up.commit(make.many(1))
        await up.settle()
    assert exporter.tries.count("metrics") == 1


async def test_a_count_that_certainly_did_not_arrive_is_sent_again(make, fakes, start):
    exporter = fakes.Exporter({"metrics": [DOWN]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        up.commit(make.many(1))
        await up.settle()
    assert exporter.counts() == 1


async def test_after_a_crash_while_counting_nothing_is_counted_twice(make, fakes, start):
    outbox, exporter = fakes.Outbox(), fakes.Exporter()
    async with start({"otlp_grpc": exporter}, outbox, emit={"spans": False, "events": False}) as up:
        exporter.gate.clear()
        up.commit(make.many(1))
        await exporter.tried["metrics"].wait()
    exporter.gate.set()
    async with start({"otlp_grpc": exporter}, outbox) as up:
        await up.settle()
    assert (exporter.tries, outbox.cursors) == (["metrics"], {"otlp_grpc": 1})


async def test_counts_cover_times_that_follow_one_another(make, fakes, start):
    exporter = fakes.Exporter()
    async with start(
        {"otlp_grpc": exporter}, fakes.Outbox(), emit={"spans": False, "events": False}
    ) as up:
        for number in (1, 2):
            up.commit([(number, make.score())])
            await up.settle()
    requests = [WIRE["metrics"].request.FromString(body) for _, body in exporter.sent]
    first, second = (
        r.resource_metrics[0].scope_metrics[0].metrics[0].histogram.data_points[0] for r in requests
    )
    assert (
        first.start_time_unix_nano
        < first.time_unix_nano
        <= second.start_time_unix_nano
        < second.time_unix_nano
    )


async def test_a_store_that_cannot_be_read_is_waited_for(make, fakes, start, caplog):
    class Locked(fakes.Outbox):
        failures = 2

        def cursor(self, exporter):
            self.failures -= 1
            if self.failures >= 0:
                raise RetryableError("locked")
            return super().cursor(exporter)

    exporter = fakes.Exporter()
    async with start({"otlp_grpc": exporter}, Locked()) as up:
        up.commit(make.many(1))
        await up.settle()
    assert (exporter.names(), caplog.text.count("export waits for the store: locked")) == (
        ["m1"],
        1,
    )


async def test_scores_that_retention_took_first_are_counted_as_lost(make, fakes, start):
    outbox = fakes.Outbox(make.many(5, 6))
    outbox.cursors["otlp_grpc"] = 1
    async with start({"otlp_grpc": fakes.Exporter()}, outbox) as up:
        await up.settle()
    assert up.meter.totals()["exporter_dropped_scores"] == 3


async def test_without_exporters_it_says_where_scores_stay(make, fakes, start, caplog):
    caplog.set_level("INFO")
    async with start({}, fakes.Outbox()) as up:
        up.commit(make.many(1))
        await up.settle()
        await asyncio.sleep(0)
    assert "store only" in caplog.text


async def test_stop_is_idempotent_and_closes_the_exporters(fakes, start):
    exporter = fakes.Exporter()
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        await up.sender.stop()
        await up.sender.stop()
    assert exporter.closed == 3


async def test_drain_says_when_it_could_not_finish(make, fakes, start):
    exporter = fakes.Exporter()
    exporter.gate.clear()
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        up.commit(make.many(1))
        assert not await up.sender.drain(0.01)


async def test_a_forwarded_request_leaves_as_it_came(fakes, start):
    exporter = fakes.Exporter()
    request = ExportTraceServiceRequest()
    request.resource_spans.add().schema_url = "x"
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        await up.sender.forward("traces", request)
    assert exporter.sent == [("traces", request.SerializeToString())]


APART = {"otlp_grpc": ["traces"], "otlp_http": ["logs", "metrics"]}


async def test_scores_leave_in_the_forms_whose_signals_an_exporter_sends(make, fakes, start):
    spans, others = fakes.Exporter(), fakes.Exporter()
    async with start(
        {"otlp_grpc": spans, "otlp_http": others}, fakes.Outbox(), signals=APART
    ) as up:
        up.commit(make.many(1))
        await up.settle()
    assert {x for x, _ in spans.sent} == {"traces"}
    assert {x for x, _ in others.sent} == {"logs", "metrics"}


async def test_a_request_is_forwarded_to_the_exporters_of_its_signal_alone(fakes, start):
    spans, others = fakes.Exporter(), fakes.Exporter()
    async with start(
        {"otlp_grpc": spans, "otlp_http": others}, fakes.Outbox(), signals=APART
    ) as up:
        await up.sender.forward("traces", b"")
        await up.sender.forward("logs", b"")
    assert ([x for x, _ in spans.sent], [x for x, _ in others.sent]) == (["traces"], ["logs"])


async def test_a_request_of_a_signal_that_nobody_sends_is_done(fakes, start):
    async with start(
        {"otlp_grpc": fakes.Exporter()}, fakes.Outbox(), signals={"otlp_grpc": ["traces"]}
    ) as up:
        assert await up.sender.forward("metrics", b"") is None


async def test_a_forwarded_request_is_done_when_every_exporter_is(fakes, start):
    slow, fast = fakes.Exporter(), fakes.Exporter()
    slow.gate.clear()
    async with start({"otlp_grpc": slow, "otlp_http": fast}, fakes.Outbox()) as up:
        done = up.sender.forward("traces", b"")
        await fast.tried["traces"].wait()
        before = done.done()
        slow.gate.set()
        await done
    assert not before


async def test_a_forwarded_request_that_is_refused_for_good_is_done(fakes, start):
    exporter = fakes.Exporter({"traces": [PermanentError("HTTP 400")]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        assert await up.sender.forward("traces", b"") is None


async def test_a_full_queue_says_so_at_once(fakes, start):
    up = start({"otlp_grpc": fakes.Exporter()}, fakes.Outbox())
    for _ in range(1000):
        up.sender.forward("traces", b"")
    with pytest.raises(RetryableError, match="queue of otlp_grpc is full"):
        up.sender.forward("traces", b"")


async def test_stop_gives_back_what_has_not_left(fakes, start):
    exporter = fakes.Exporter()
    exporter.gate.clear()
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        given = [up.sender.forward("traces", b"") for _ in range(20)]
        await exporter.tried["traces"].wait()
    assert all(future.cancelled() for future in given)


async def test_a_fault_of_the_backend_is_tried_again(make, fakes, start):
    exporter = fakes.Exporter({"traces": [BUSY, BUSY]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        up.commit(make.many(1))
        await up.settle()
    assert (exporter.names(), up.outbox.lost) == (["m1"], {})


async def test_a_fault_that_lasts_is_noted_and_what_follows_leaves(make, fakes, start):
    exporter = fakes.Exporter({"traces": [BUSY] * 100, "logs": [BUSY] * 100})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        up.commit(make.many(1))
        await up.settle()
        exporter.script = {}
        up.commit(make.many(2))
        await up.settle()
    [note] = up.outbox.lost.values()
    assert exporter.names() == ["m2"]
    assert (note.seq, note.forms, note.reason, note.error) == (
        1,
        ("traces", "logs"),
        "fault",
        "INTERNAL: busy",
    )


async def test_only_what_did_not_arrive_is_noted(make, fakes, start):
    exporter = fakes.Exporter({"logs": [PermanentError("HTTP 400")]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        up.commit(make.many(1))
        await up.settle()
    assert [x.forms for x in up.outbox.lost.values()] == [("logs",)]


async def test_a_form_that_the_backend_does_not_know_is_not_missed(make, fakes, start):
    exporter = fakes.Exporter({"logs": [ABSENT]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        up.commit(make.many(1))
        await up.settle()
    assert up.outbox.lost == {}


async def test_where_the_backend_knows_no_form_of_it_a_score_is_noted(make, fakes, start):
    exporter = fakes.Exporter({"traces": [ABSENT], "logs": [ABSENT]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        up.commit(make.many(1))
        await up.settle()
    assert [x.reason for x in up.outbox.lost.values()] == ["unsupported"]


async def test_skips_are_not_missed(make, fakes, start):
    exporter = fakes.Exporter({"traces": [PermanentError("no")], "logs": [PermanentError("no")]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        up.commit([(1, make.skipped()), (2, make.score())])
        await up.settle()
    assert [x.seq for x in up.outbox.lost.values()] == [2]


async def test_what_is_undelivered_is_counted_and_said(make, fakes, start):
    exporter = fakes.Exporter({"traces": [PermanentError("no")]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        up.commit(make.many(1, 2))
        await up.settle()
        await up.sender.look()
        said = (
            "scores that could not be delivered: 2 by otlp_grpc; see spanscore scores --undelivered"
        )
        assert (up.sender.undelivered, up.sender.notice) == ({"otlp_grpc": 2}, said)


async def resent(up):
    """Ask for what is undelivered, and wait until the sender has dealt with it."""
    up.outbox.ask()
    await up.sender.look()
    async with asyncio.timeout(20):
        while any(x.to_resend for x in up.outbox.lost.values()):  # noqa: ASYNC110 - what is awaited is a fake's state
            await asyncio.sleep(0.001)


async def test_what_is_asked_for_is_sent_again_and_only_what_did_not_arrive(make, fakes, start):
    exporter = fakes.Exporter({"logs": [PermanentError("HTTP 400")]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        up.commit(make.many(1, 2))
        await up.settle()
        await resent(up)
    assert (exporter.names("traces"), exporter.names("logs"), up.outbox.lost) == (
        ["m1", "m2"],
        ["m1", "m2"],
        {},
    )


async def test_an_exporter_that_has_a_score_does_not_get_it_again(make, fakes, start):
    failing, other = fakes.Exporter({"traces": [PermanentError("no")]}), fakes.Exporter()
    async with start({"otlp_grpc": failing, "otlp_http": other}, fakes.Outbox()) as up:
        up.commit(make.many(1))
        await up.settle()
        await resent(up)
    assert (failing.names(), other.names()) == (["m1"], ["m1"])


async def test_what_is_sent_again_is_counted_once(make, fakes, start):
    exporter = fakes.Exporter({"traces": [PermanentError("no")]})
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        up.commit(make.many(1))
        await up.settle()
        await resent(up)
    assert exporter.counts() == 1


async def test_of_what_is_sent_again_the_score_that_the_backend_refuses_is_found_alone(
    make, fakes, start
):
    class Refusing(fakes.Exporter):
        async def send(self, signal, body, headers=()):
            if b"m3" in body and signal != "metrics":
                raise PermanentError("not m3")
            return await super().send(signal, body, headers)

    exporter = Refusing()
    async with start({"otlp_grpc": exporter}, fakes.Outbox()) as up:
        up.commit(make.many(1, 2, 3, 4, 5))
        await up.settle()
        await resent(up)
    assert sorted(exporter.names()) == ["m1", "m2", "m4", "m5"]
    assert [(x.seq, x.to_resend) for x in up.outbox.lost.values()] == [(3, False)]
