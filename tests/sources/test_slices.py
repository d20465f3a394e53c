import asyncio

from hypothesis import given, strategies as st

from spanscore.sources.http import sliced

SECOND_NS = 10**9


def found(times, page, start_ns=0, end_ns=1000 * SECOND_NS):
    overfull, searches = [], []

    async def search(low_ns, high_ns):
        searches.append((low_ns, high_ns))
        inside = [x for x in times if low_ns <= x <= high_ns]
        return inside[:page], len(inside) >= page

    async def collect():
        return [
            x
            async for x in sliced(
                start_ns, end_ns, search, lambda low, high: overfull.append((low, high))
            )
        ]

    return asyncio.run(collect()), overfull, searches


@given(st.lists(st.integers(0, 1000 * SECOND_NS), max_size=60, unique=True))
def test_everything_is_found_however_it_is_spread(times):
    apart = sorted({x // 2_000_000 * 2_000_000 for x in times})
    assert sorted(found(apart, 3)[0]) == apart


def test_newer_ranges_come_first():
    times = [x * SECOND_NS for x in range(100)]
    assert found(times, 2)[0] == list(reversed(times))


def test_what_does_not_fit_into_the_shortest_range_is_said():
    listed, overfull, _ = found([500] * 5, 3)
    assert (len(listed), len(overfull)) == (3, 1)


def test_a_range_that_fits_is_searched_once():
    assert len(found([1, 2], 3)[2]) == 1
