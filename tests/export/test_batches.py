"""Batches come from memory while they are there, and are made once."""

import asyncio

import pytest

from spanscore.export.batches import Batches, Window, encoded, send_again
from spanscore.export.config import Config
from spanscore.model.score import Score, Skip, Undelivered
from spanscore.model.span import of_tenant, tenant_in, with_headers


def window(make, *numbers, max_size=100):
    held = Window(max_size)
    held.add(make.many(*numbers))
    return held


def test_the_window_gives_what_follows(make):
    assert [seq for seq, _ in window(make, 1, 2, 3).after(1, 10)] == [2, 3]


def test_the_window_gives_no_more_than_asked_for(make):
    assert [seq for seq, _ in window(make, 1, 2, 3).after(0, 2)] == [1, 2]


def test_the_window_stops_at_a_gap(make):
    assert [seq for seq, _ in window(make, 1, 2, 4).after(0, 10)] == [1, 2]


def test_the_window_gives_nothing_when_the_next_one_is_missing(make):
    assert window(make, 3, 4).after(1, 10) == []


def test_the_order_of_arrival_does_not_matter(make):
    assert [seq for seq, _ in window(make, 3, 4, 1, 2).after(0, 10)] == [1, 2, 3, 4]


def test_the_window_is_bounded(make):
    held = window(make, *range(1, 20), max_size=5)
    assert (len(held), held.after(0, 10)) == (5, [])


def test_the_window_lets_go_of_what_is_done(make):
    held = window(make, 1, 2, 3)
    held.forget(2)
    assert len(held) == 1


def with_skips(make, count, *, scored):
    """`count` evaluations, of which those with the numbers `scored` are no skips."""
    skip = make.score(outcome=Skip("No judge.", "no_judge"))
    held = Window(1000)
    held.add((number, make.score() if number in scored else skip) for number in range(1, count + 1))
    return held


def test_skips_take_no_place_of_scores_in_a_batch(make):
    assert [seq for seq, _ in with_skips(make, 8, scored={1, 4, 6}).after(0, 2)] == [1, 2, 3, 4]


def test_skips_alone_are_a_batch_before_they_are_too_many(make):
    assert len(with_skips(make, 100, scored=set()).after(0, 2)) == 16


def test_a_batch_is_full_of_scores_and_not_of_skips(make):
    held = with_skips(make, 8, scored={1, 6})
    assert (held.has_full_batch(0, 2), held.has_full_batch(1, 2)) == (True, False)


async def test_a_skip_that_nobody_sees_is_in_no_part_of_a_batch(make, fakes):
    batches = Batches(Config(), fakes.Outbox())
    batches.window = with_skips(make, 3, scored={2})
    batch = await batches.after(0, 3)
    assert (batch.count, [len(part.evaluations) for part in batch.parts]) == (3, [1])


async def test_two_exporters_at_the_same_place_share_one_batch(make, fakes):
    outbox = fakes.Outbox(make.many(1, 2))
    batches = Batches(Config(), outbox)
    first, second = await asyncio.gather(batches.after(0, 2), batches.after(0, 2))
    assert (first is second, outbox.reads) == (True, 1)


async def test_what_is_in_memory_is_not_read_from_the_store(make, fakes):
    outbox = fakes.Outbox()
    batches = Batches(Config(), outbox)
    batches.window.add(make.many(1, 2))
    assert ((await batches.after(0, 2)).last_seq, outbox.reads) == (2, 0)


async def test_where_the_store_has_nothing_more_the_batch_ends_at_the_latest(make, fakes):
    batch = await Batches(Config(), fakes.Outbox()).after(0, 7)
    assert (batch.last_seq, batch.count, batch.parts) == (7, 0, [])


def test_only_the_forms_that_are_switched_on_are_encoded(make):
    config = Config.model_validate({"emit": {"spans": False}})
    assert [x.signal for x in encoded([(1, make.score())], config)] == ["logs"]


def test_a_score_that_cannot_be_encoded_is_left_out(make, caplog):
    broken = make.score("broken", target=make.target(resource={"key": object()}))
    requests = encoded([(1, make.score("fine")), (2, broken), (3, make.score("good"))], Config())
    sent = b"".join(x.body for x in requests)
    assert (b"fine" in sent, b"good" in sent, b"broken" in sent, "broken" in caplog.text) == (
        True,
        True,
        False,
        True,
    )


def test_no_request_is_longer_than_a_backend_takes(make):
    scores = [(n, make.score(f"m{n}", outcome=Score(1.0, f"{n}" * 8000))) for n in range(512)]
    requests = encoded(scores, Config())
    assert (len(requests) > 2, max(len(x.body) for x in requests) < 2**21) == (True, True)


def test_a_request_names_the_scores_in_it(make):
    pairs = [(1, make.score()), (2, make.skipped()), (3, make.score(inline=True))]
    assert {x.signal: x.seqs for x in encoded(pairs, Config(spans="all"))} == {
        "traces": {1},
        "logs": {1, 3},
    }


async def test_scores_of_different_tenants_leave_apart(make, fakes):
    a, b = (
        make.score(target=make.target(resource=with_headers({}, (("x-scope-orgid", x),))))
        for x in "ab"
    )
    batch = await Batches(Config(), fakes.Outbox([(1, a), (2, b), (3, a)])).after(0, 3)
    assert [(x.headers, list(x.evaluations)) for x in batch.parts] == [
        ((("x-scope-orgid", "a"),), [a, a]),
        ((("x-scope-orgid", "b"),), [b]),
    ]


@pytest.mark.parametrize(("by_tenant", "parted"), [(True, ["acme", "blue"]), (False, [""])])
async def test_tenants_leave_apart_where_what_leaves_names_them(make, fakes, by_tenant, parted):
    scores = [
        make.score(target=make.target(resource=with_headers({}, of_tenant(x))))
        for x in ("acme", "blue", "acme")
    ]
    outbox = fakes.Outbox(list(enumerate(scores, start=1)))
    batch = await Batches(Config(), outbox, by_tenant=by_tenant).after(0, 3)
    assert [tenant_in(x.headers) for x in batch.parts] == parted


async def test_scores_that_are_sent_again_leave_by_tenant_too(make):
    class Delivery:
        name, tenants = "tempo", []

        async def deliver(self, _signal, _body, headers, *, patient):
            self.tenants.append(tenant_in(headers))

    scores = [
        make.score(target=make.target(resource=with_headers({}, of_tenant(x))))
        for x in ("acme", "blue")
    ]
    rows = [
        (Undelivered("tempo", seq, ("traces",), "", "", 0), x)
        for seq, x in enumerate(scores, start=1)
    ]
    delivery = Delivery()
    assert await send_again(delivery, Config(spans="all"), rows, 0, by_tenant=True) == []
    assert delivery.tenants == ["acme", "blue"]


def test_headers_do_not_leave_as_attributes(make):
    score = make.score(
        target=make.target(resource=with_headers({"service.name": "s"}, (("x", "secret"),)))
    )
    assert all(b"secret" not in x.body for x in encoded([(1, score)], Config()))
