"""Scores filed with a tool: patiently, in order, and those without their span apart."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from spanscore.errors import PermanentError
from spanscore.export.config import PhoenixConfig
from spanscore.export.delivery import Surroundings
from spanscore.export.filer import Filing
from spanscore.export.port import FaultError, UndeliveredError, UnsupportedSignalError
from spanscore.model.score import Skip, Undelivered
from spanscore.telemetry import Meter


class FakeSink:
    """Remembers what was filed; `absent` are metrics whose span is not there; `errors` are raised
    first, in order.

    `second_best` are those of the absent that have another place, if it has to be.
    """

    def __init__(self):
        self.filed, self.asked, self.absent, self.errors, self.poison = [], [], set(), [], set()
        self.second_best = set()

    async def file(self, evaluations, *, final=False):
        self.asked.append([x.metric for x in evaluations])
        if self.errors:
            raise self.errors.pop(0)
        if self.poison & {x.metric for x in evaluations}:
            raise PermanentError("not this one")
        absent = self.absent - self.second_best if final else self.absent
        self.filed += [x.metric for x in evaluations if x.metric not in absent]
        return [x for x in evaluations if x.metric in absent]

    async def close(self):
        pass


@pytest.fixture
def filing(clock, fakes):
    """`async with filing(pairs) as (sink, outbox, meter, until)`: `await until(f)` waits until
    `f()` holds.
    """

    @asynccontextmanager
    async def running(pairs, sink=None, **settings):
        sink, meter = sink or FakeSink(), Meter()
        outbox = fakes.Outbox()
        around = Surroundings(clock, clock.sleep, lambda: 0.5, meter)
        one = Filing("phoenix", sink, PhoenixConfig.model_validate(settings), outbox, around)
        outbox.pairs += pairs
        task = asyncio.create_task(one.run(lambda: None))
        one.offer(outbox.last_seq)

        async def until(holds):
            async with asyncio.timeout(20):
                while not holds():  # noqa: ASYNC110 - what is awaited is a fake's state
                    await asyncio.sleep(0.001)

        try:
            yield sink, outbox, meter, until
        finally:
            task.cancel()
            await asyncio.wait([task])

    return running


async def test_scores_are_filed_in_their_order(filing, make):
    async with filing(make.many(1, 2, 3)) as (sink, outbox, _, until):
        await until(lambda: outbox.cursors.get("phoenix") == 3)
        assert sink.filed == ["m1", "m2", "m3"]


async def test_a_score_that_is_committed_while_the_outbox_is_read_is_filed_too(make, clock, fakes):
    sink, outbox = FakeSink(), fakes.Outbox()
    one = Filing(
        "phoenix",
        sink,
        PhoenixConfig(),
        outbox,
        Surroundings(clock, clock.sleep, lambda: 0.5, Meter()),
    )
    read = outbox.outbox

    def read_and_commit(after, limit):
        found = read(after, limit)
        if after == 0:
            outbox.pairs += make.many(2)
            one.offer(2)
        return found

    outbox.outbox = read_and_commit
    outbox.pairs += make.many(1)
    task = asyncio.create_task(one.run(lambda: None))
    one.offer(1)
    async with asyncio.timeout(20):
        while outbox.cursors.get("phoenix") != 2:  # noqa: ASYNC110 - what is awaited is a fake's state
            await asyncio.sleep(0.001)
    task.cancel()
    assert sink.filed == ["m1", "m2"]


async def test_scores_that_a_tool_does_not_take_for_now_count_as_not_filed(make, clock, fakes):
    sink, outbox, down = FakeSink(), fakes.Outbox(), asyncio.Event()

    async def wait_for_ever(_delay_s):
        down.set()
        await asyncio.Event().wait()

    sink.errors = [UndeliveredError("down")]
    one = Filing(
        "phoenix",
        sink,
        PhoenixConfig(),
        outbox,
        Surroundings(clock, wait_for_ever, lambda: 0.5, Meter()),
    )
    outbox.pairs += make.many(1, 2)
    task = asyncio.create_task(one.run(lambda: None))
    one.offer(2)
    async with asyncio.timeout(20):
        await down.wait()
    task.cancel()
    assert (one.behind, one.unread) == (2, 2)


async def test_skips_are_not_filed(filing, make):
    async with filing([(1, make.skipped()), (2, make.score("m2"))]) as (sink, outbox, _, until):
        await until(lambda: outbox.cursors.get("phoenix") == 2)
        assert sink.filed == ["m2"]


async def test_a_session_that_rests_on_no_signal_is_filed(filing, make):
    skip = Skip("No trace of the session has the signals.", "no_signals")
    async with filing([(1, make.score("m1", outcome=skip, scope="session"))]) as (
        sink,
        _,
        _,
        until,
    ):
        await until(lambda: sink.filed == ["m1"])


async def test_a_score_whose_span_is_not_there_holds_up_no_other(filing, make):
    sink = FakeSink()
    sink.absent = {"m1"}
    async with filing(make.many(1, 2), sink) as (_, _, _, until):
        await until(lambda: "m2" in sink.filed)
        sink.absent = set()
        await until(lambda: sink.filed == ["m2", "m1"])


async def test_the_place_stays_before_a_score_that_waits(filing, make):
    sink = FakeSink()
    sink.absent = {"m2"}
    async with filing(make.many(1, 2, 3), sink) as (_, outbox, _, until):
        await until(lambda: len(sink.asked) > 2)
        assert outbox.cursors["phoenix"] == 1
        sink.absent = set()
        await until(lambda: outbox.cursors.get("phoenix") == 3)


async def test_a_span_that_never_comes_is_given_up(filing, make):
    sink = FakeSink()
    sink.absent = {"m1"}
    async with filing(make.many(1), sink, max_wait="10m") as (_, outbox, meter, until):
        await until(lambda: outbox.cursors.get("phoenix") == 1)
        assert meter.totals() == {"exporter_dropped_scores": 1}


async def test_what_has_waited_for_long_enough_is_filed_in_its_second_best_place(filing, make):
    sink = FakeSink()
    sink.absent, sink.second_best = {"m1"}, {"m1"}
    async with filing(make.many(1), sink, max_wait="10m") as (_, outbox, meter, until):
        await until(lambda: outbox.cursors.get("phoenix") == 1)
        assert (sink.filed, meter.totals()) == (["m1"], {"exporter_sent_scores": 1})


async def test_of_too_many_that_wait_the_oldest_is_dropped(filing, make):
    sink = FakeSink()
    sink.absent = {"m1", "m2", "m3"}
    async with filing(make.many(1, 2, 3), sink, max_waiting=2) as (_, outbox, meter, until):
        await until(lambda: outbox.cursors.get("phoenix") == 1)
        assert meter.totals() == {"exporter_dropped_scores": 1}


async def test_an_outage_is_waited_out(filing, make):
    sink = FakeSink()
    sink.errors = [UndeliveredError("down")] * 30
    async with filing(make.many(1), sink) as (_, outbox, meter, until):
        await until(lambda: outbox.cursors.get("phoenix") == 1)
        assert sink.filed == ["m1"]
        assert meter.totals() == {"exporter_failed_sends": 30, "exporter_sent_scores": 1}


async def test_a_refused_score_is_dropped_alone(filing, make):
    sink = FakeSink()
    sink.poison = {"m2"}
    async with filing(make.many(1, 2, 3), sink) as (_, outbox, meter, until):
        await until(lambda: outbox.cursors.get("phoenix") == 3)
        assert sink.filed == ["m1", "m3"]
        assert meter.totals() == {"exporter_dropped_scores": 1, "exporter_sent_scores": 2}


async def test_a_score_that_breaks_the_tool_is_dropped_alone(filing, make):
    class Breaking(FakeSink):
        async def file(self, evaluations, *, final=False):
            if "m2" in {x.metric for x in evaluations}:
                raise FaultError("HTTP 500")
            return await super().file(evaluations, final=final)

    async with filing(make.many(1, 2, 3), Breaking()) as (sink, outbox, _, until):
        await until(lambda: outbox.cursors.get("phoenix") == 3)
        assert sink.filed == ["m1", "m3"]


async def test_a_tool_without_a_place_for_scores_is_asked_again_later(filing, make, clock):
    sink = FakeSink()
    sink.errors = [UnsupportedSignalError("404")]
    async with filing(make.many(1), sink) as (_, outbox, _, until):
        await until(lambda: outbox.cursors.get("phoenix") == 1)
        assert max(clock.slept_s) == 600


async def test_of_two_revisions_only_the_later_is_filed(filing, make):
    pairs = [(1, make.score(value=0.1)), (2, make.score(value=0.9, revision=2))]
    async with filing(pairs) as (sink, outbox, _, until):
        await until(lambda: outbox.cursors.get("phoenix") == 2)
        assert sink.asked == [["task_completion"]]


async def test_a_score_that_waits_does_not_come_after_its_later_revision(filing, make):
    class Absent(FakeSink):
        """Has not got the span until the second revision comes."""

        async def file(self, evaluations, *, final=False):
            self.absent = set() if {x.revision for x in evaluations} & {2} else self.absent
            return await super().file(evaluations, final=final)

    sink = Absent()
    sink.absent = {"task_completion"}
    pairs = [(n, make.score(f"m{n}")) for n in range(2, 300)]
    async with filing([(1, make.score()), *pairs, (300, make.score(revision=2))], sink) as (
        _,
        outbox,
        _,
        until,
    ):
        await until(lambda: outbox.cursors.get("phoenix") == 300)
        assert sink.filed.count("task_completion") == 1


async def test_those_that_wait_are_asked_about_in_requests_of_a_bounded_length(filing, make):
    sink = FakeSink()
    sink.absent = {f"m{n}" for n in range(1, 1001)}
    async with filing(make.many(*range(1, 1001)), sink) as (_, outbox, _, until):
        await until(lambda: len(sink.asked) > 10)
        sink.absent = set()
        await until(lambda: outbox.cursors.get("phoenix") == 1000)
        assert max(map(len, sink.asked)) <= 400


async def test_of_a_session_that_went_on_only_the_later_score_is_filed(filing, make):
    session = {"scope": "session", "subject_id": "s-1"}
    later = make.score(**session, revision=2, target=make.target(span_id="0e" * 8))
    async with filing([(1, make.score(**session)), (2, later)]) as (sink, outbox, _, until):
        await until(lambda: outbox.cursors.get("phoenix") == 2)
        assert sink.asked == [["task_completion"]]


async def test_a_score_that_is_given_up_is_noted_with_the_reason(filing, make):
    sink = FakeSink()
    sink.poison = {"m2"}
    async with filing(make.many(1, 2, 3), sink) as (_, outbox, _, until):
        await until(lambda: outbox.cursors.get("phoenix") == 3)
        [note] = outbox.lost.values()
        assert (note.seq, note.forms, note.reason, note.error) == (
            2,
            ("scores",),
            "refused",
            "not this one",
        )


async def test_a_score_whose_span_does_not_come_is_noted(filing, make):
    sink = FakeSink()
    sink.absent = {"m1"}
    async with filing(make.many(1), sink, max_wait="10m") as (_, outbox, _, until):
        await until(lambda: outbox.cursors.get("phoenix") == 1)
        assert [(x.seq, x.reason) for x in outbox.lost.values()] == [(1, "no_span")]


async def test_faults_of_the_tool_are_tried_again_for_their_time(filing, make):
    sink = FakeSink()
    sink.errors = [FaultError("HTTP 500")] * 10
    async with filing(make.many(1, 2), sink) as (_, outbox, _, until):
        await until(lambda: outbox.cursors.get("phoenix") == 2)
        assert (sink.filed, outbox.lost) == (["m1", "m2"], {})


async def test_what_is_filed_again_takes_the_place_of_no_later_revision(make, clock, fakes):
    sink, outbox = FakeSink(), fakes.Outbox([(1, make.score()), (2, make.score("other"))])
    one = Filing(
        "phoenix",
        sink,
        PhoenixConfig(),
        outbox,
        Surroundings(clock, clock.sleep, lambda: 0.5, Meter()),
    )
    notes = [
        Undelivered("phoenix", seq, ("scores",), "no_span", "", 0, to_resend=True) for seq in (1, 2)
    ]
    rows = [(notes[0], outbox.pairs[0][1], True), (notes[1], outbox.pairs[1][1], False)]
    assert (await one.file_again(rows), sink.filed) == ([], ["other"])


async def test_what_still_cannot_be_filed_is_noted_anew(make, clock, fakes):
    sink, outbox = FakeSink(), fakes.Outbox(make.many(1, 2, 3))
    sink.absent, sink.poison = {"m1"}, {"m2"}
    one = Filing(
        "phoenix",
        sink,
        PhoenixConfig(),
        outbox,
        Surroundings(clock, clock.sleep, lambda: 0.5, Meter()),
    )
    notes = [
        Undelivered("phoenix", seq, ("scores",), "fault", "", 0, to_resend=True)
        for seq in (1, 2, 3)
    ]
    still = await one.file_again(
        [(note, x, False) for note, (_, x) in zip(notes, outbox.pairs, strict=True)]
    )
    assert sorted((x.seq, x.reason, x.to_resend) for x in still) == [
        (1, "no_span", False),
        (2, "refused", False),
    ]
