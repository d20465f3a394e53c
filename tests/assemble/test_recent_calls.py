"""Which traces had a model call with an id, and for how long that is known."""

from spanscore.assemble.config import Config
from spanscore.turn_scheduling import scheduler
from spanscore.turn_scheduling.scheduler import RecentCalls

SECOND = 10**9


def known(*traces, ids=("r1",), late_window="60s"):
    found = RecentCalls(Config(late_window=late_window))
    for second, trace_id in enumerate(traces):
        found.add(ids, trace_id, second * SECOND)
    return found


def test_a_trace_is_found_by_each_of_its_ids():
    found = known("a", ids=("r1", "c1"))
    assert (found.find(["c1", "r1"]), found.find(["r2"])) == (["a"], [])


def test_of_traces_with_one_id_the_latest_are_known():
    assert known(*"abcdefg").find(["r1"]) == ["d", "e", "f", "g"]


def test_a_trace_that_comes_again_is_known_once():
    assert known("a", "b", "a").find(["r1"]) == ["b", "a"]


def test_an_id_is_forgotten_when_late_spans_would_be():
    found = known("a")
    found.add(["r2"], "b", 60 * SECOND)
    assert (found.find(["r1"]), found.find(["r2"])) == ([], ["b"])


def test_above_their_number_the_oldest_ids_are_forgotten(monkeypatch):
    monkeypatch.setattr(scheduler, "MAX_IDS", 3)
    found = RecentCalls(Config())
    for number in range(5):
        found.add([f"r{number}"], "a", number)
    assert (len(found), found.find(["r1"]), found.find(["r2"])) == (3, [], ["a"])
