"""When the traces of one turn are all there, and how long those wait whose turn has none."""

from dataclasses import dataclass, replace

import pytest

from spanscore.assemble.assembler import Assembler, Cut
from spanscore.assemble.config import Config
from spanscore.assemble.fragments import Fragment
from spanscore.turn_scheduling.trace_states import PendingTurns

SECOND = 10**9
CONFIG = Config(stitch_window="30s", complete_after="10s", late_window="5m")


@dataclass(frozen=True)
class Made:
    """A part of the turn `turn`, numbered; the last has `is_end`."""

    trace_id: str
    turn: str = "t"
    is_end: bool = False
    is_fragment: bool = True

    @property
    def offers(self):
        return frozenset({self.turn, f"trace {self.trace_id}"})

    @property
    def seeks(self):
        return frozenset({self.turn})


def by_turn(found):
    turns = {}
    for part in sorted(found, key=lambda x: x.trace_id):
        turns.setdefault(part.turn, []).append(part)
    return list(turns.values())


def has_end(turn):
    return any(x.is_end for x in turn)


def tells_all(turn):
    return not turn[-1].is_fragment


def parts(config=CONFIG, gone=()):
    return PendingTurns(
        config,
        group=by_turn,
        is_whole=has_end,
        is_settled=tells_all,
        is_there=lambda x: x not in gone,
    )


def cut(trace_id):
    return Cut(trace_id.encode(), (1,), "complete", genai=True, reopened=False)


def add(found, trace_id, second, **more):
    return found.add(Made(trace_id, **more), cut(trace_id), second * SECOND)


def due(found, second):
    """The turns that are due, each as the trace ids, with a star those to be read again."""
    return [
        [x.trace_id if waited else f"{x.trace_id}*" for x, waited in turn]
        for turn in found.due(second * SECOND)
    ]


def test_a_part_waits_for_the_rest_of_its_turn():
    found = parts()
    assert add(found, "a", 0)
    assert (due(found, 29), due(found, 30)) == ([], [["a"]])


def test_each_part_that_comes_starts_the_wait_anew():
    found = parts()
    add(found, "a", 0)
    add(found, "b", 20)
    assert (due(found, 49), due(found, 50)) == ([], [["a", "b"]])


def test_a_turn_that_is_whole_waits_only_for_stragglers():
    found = parts()
    add(found, "a", 0)
    add(found, "b", 5, is_end=True)
    assert (due(found, 14), due(found, 15)) == ([], [["a", "b"]])


def test_a_turn_is_due_once():
    found = parts()
    add(found, "a", 0)
    add(found, "b", 5)
    due(found, 35)
    assert (due(found, 100), found.waiting) == ([], 0)


def test_turns_do_not_wait_for_each_other():
    found = parts()
    add(found, "a", 0)
    add(found, "b", 10, turn="u")
    assert due(found, 30) == [["a"]]


def test_what_is_no_fragment_does_not_wait_alone():
    assert not add(parts(), "a", 0, is_fragment=False)


def test_what_is_no_fragment_is_known_when_a_part_comes_that_belongs_to_it():
    found = parts()
    add(found, "a", 0, is_fragment=False)
    add(found, "b", 5)
    assert due(found, 35) == [["a*", "b"]]


def test_what_tells_the_whole_turn_waits_for_no_more_of_it():
    found = parts()
    add(found, "a", 0)
    add(found, "b", 5, is_fragment=False)
    assert due(found, 5) == [["a", "b"]]


def test_a_part_of_a_turn_that_was_told_whole_waits_for_others_of_its_kind():
    found = parts()
    add(found, "b", 0)
    add(found, "c", 1, is_fragment=False)
    due(found, 1)
    add(found, "a", 2)
    assert (due(found, 31), due(found, 32)) == ([], [["a", "b*", "c*"]])


def test_a_part_that_comes_later_brings_what_was_dealt_with():
    found = parts()
    add(found, "a", 0)
    due(found, 30)
    add(found, "b", 100)
    assert due(found, 130) == [["a*", "b"]]


def test_what_was_scored_by_itself_is_not_due_once_more_by_itself():
    found = parts()
    add(found, "a", 0, is_fragment=False)
    add(found, "b", 5)
    add(found, "b", 6, turn="u")
    assert due(found, 40) == [["b"]]


def test_what_can_no_more_be_read_is_left_out():
    found = parts(gone={"a"})
    add(found, "a", 0)
    due(found, 30)
    add(found, "b", 100)
    assert due(found, 130) == [["b"]]


def test_what_was_dealt_with_is_forgotten_with_its_spans():
    found = parts()
    add(found, "a", 0)
    due(found, 30)
    due(found, 300)
    assert "a" not in found


def test_a_part_that_comes_again_replaces_itself():
    found = parts()
    add(found, "a", 0)
    add(found, "a", 10)
    assert (due(found, 39), due(found, 40), found.waiting) == ([], [["a"]], 0)


def test_a_trace_that_turns_out_to_be_none_is_forgotten():
    found = parts()
    add(found, "a", 0)
    found.forget("a")
    assert (due(found, 30), found.waiting) == ([], 0)


def test_the_cut_of_a_part_that_came_again_is_handed_back():
    found = parts()
    first, second = cut("a"), replace(cut("a"), rows=(1, 2))
    found.add(Made("a"), first, 0)
    found.add(Made("a"), second, 1)
    assert (found.replaced(), found.replaced()) == ([first], [])


def test_a_turn_of_which_a_trace_is_in_work_waits_on():
    found = parts()
    add(found, "a", 0)
    add(found, "b", 0)
    assert found.due(30 * SECOND, is_busy=lambda x: x == "b") == []
    assert due(found, 40) == [["a", "b"]]


def test_a_trace_that_others_point_to_is_sought():
    found = parts()
    found.add(replace(Made("a"), turn="trace b"), cut("a"), 0)
    assert (found.is_sought("trace b"), found.is_sought("trace c")) == (True, False)


def test_a_part_that_waits_and_looks_for_a_trace_is_told():
    found = parts()
    found.add(replace(Made("a"), turn="trace b"), cut("a"), 0)
    assert found.seekers(["trace c", "trace b"]) == ["a"]


def test_a_part_that_waits_no_more_looks_for_nothing():
    found = parts()
    found.add(replace(Made("a"), turn="trace b"), cut("a"), 0)
    due(found, 30)
    assert found.seekers(["trace b"]) == []


def test_what_was_dealt_with_is_due_again_only_with_others():
    found = parts()
    assert not found.add(Made("a"), None, 0)
    add(found, "b", 5)
    assert due(found, 35) == [["a*", "b"]]


def test_above_their_number_the_first_that_are_due_wait_no_more():
    found = parts(CONFIG.model_copy(update={"max_parts": 2}))
    for second, name in enumerate("abc"):
        add(found, name, second, turn=name)
    assert due(found, 3) == [["a"]]
    assert "a" not in found


def test_a_trace_that_was_cut_can_be_read_again_while_it_may_re_open():
    assembler = Assembler(Config(late_window="60s"))
    assembler.push(Fragment(b"t", 7, items=1, has_root=True, span_ids={b"s"}), 0)
    (first,) = assembler.cut(10 * SECOND)
    assembler.done(first)
    assert assembler.recut(b"t", 50 * SECOND).rows == (7,)


@pytest.mark.parametrize("later", [69, 71])
def test_reading_a_trace_again_keeps_it_as_long_as_if_it_had_been_cut_then(later):
    assembler = Assembler(Config(late_window="60s"))
    assembler.push(Fragment(b"t", 7, items=1, has_root=True, span_ids={b"s"}), 0)
    (first,) = assembler.cut(10 * SECOND)
    assembler.done(first)
    assembler.done(assembler.recut(b"t", 50 * SECOND))
    assembler.cut(later * SECOND)
    assert (assembler.can_read(b"t"), assembler.released()) == (True, [])


def test_a_trace_that_is_still_open_is_not_read_again():
    assembler = Assembler(CONFIG)
    assembler.push(Fragment(b"t", 7, items=1, has_root=True, span_ids={b"s"}), 0)
    assert assembler.recut(b"t", 1) is None
