"""The traces that were stored last before some time."""

from dataclasses import replace

import pytest

from spanscore.model.headers import TENANT, with_headers


def filled(open_store, clock, make, times):
    store = open_store()
    for number, now_ns in enumerate(times, start=1):
        clock.now_ns = now_ns
        store.commit([make.stored(make.trace(number))], [])
    return store, [make.trace(x).id for x in range(1, len(times) + 1)]


def found(store, before_ns, limit=100):
    return [x.id for x in store.stored_before("", before_ns, limit)]


def test_they_are_the_newest_before_that_time(open_store, clock, make):
    store, ids = filled(open_store, clock, make, range(10, 60, 10))
    assert found(store, 40, 2) == [ids[2], ids[1]]


def test_the_time_itself_is_not_before_it(open_store, clock, make):
    store, ids = filled(open_store, clock, make, (10, 20, 20, 30))
    assert [found(store, x) for x in (10, 20, 21)] == [[], [ids[0]], [ids[2], ids[1], ids[0]]]


def test_after_all_of_them_all_are_before(open_store, clock, make):
    store, ids = filled(open_store, clock, make, (10, 20))
    assert found(store, 99) == ids[::-1]


def test_an_empty_store_has_none(open_store):
    assert found(open_store(), 99) == []


def test_those_of_another_tenant_are_not_counted(open_store, make):
    store = open_store()
    target = make.trace(2).target
    of_acme = replace(target, resource=with_headers(target.resource, ((TENANT, "acme"),)))
    traces = [make.trace(1), make.trace(2, target=of_acme)]
    store.commit([make.stored(x) for x in traces], [])
    assert [
        [x.id for x in store.stored_before(tenant, 2 * 10**18, 9)]
        for tenant in ("", "acme", "blue")
    ] == [
        [traces[0].id],
        [traces[1].id],
        [],
    ]


@pytest.mark.slow
def test_more_than_one_step_of_rows_is_read(open_store, clock, make):
    store, ids = filled(open_store, clock, make, [10] * 130)
    assert found(store, 99, 120) == ids[:9:-1]
