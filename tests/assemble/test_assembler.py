"""When a trace is complete, and which requests are still needed."""

from hypothesis import given, strategies as st

from spanscore.assemble.assembler import Assembler, Cut
from spanscore.assemble.config import Config
from spanscore.assemble.fragments import Fragment

SECOND = 10**9
CONFIG = Config(whole_after="10s")
TRACE = b"t" * 16


def fragment(row, span, parent=b"", *, trace_id=TRACE, items=1, size_bytes=100, genai=True):
    return Fragment(
        trace_id,
        row,
        items=items,
        size_bytes=size_bytes,
        has_root=not parent,
        span_ids={span},
        parents={parent} if parent else set(),
        genai=genai,
    )


def completeness(cuts):
    return [cut.completeness for cut in cuts]


def test_a_trace_with_its_root_is_complete_when_quiet():
    assembler = Assembler(CONFIG)
    assembler.push(fragment(1, b"child", b"root"), 0)
    assembler.push(fragment(2, b"root"), 5 * SECOND)
    assert assembler.cut(14 * SECOND) == []
    assert assembler.cut(15 * SECOND) == [
        Cut(TRACE, (1, 2), "complete", genai=True, reopened=False)
    ]


def test_a_trace_is_handed_out_once():
    assembler = Assembler(CONFIG)
    assembler.push(fragment(1, b"root"), 0)
    assembler.cut(10 * SECOND)
    assert assembler.cut(100 * SECOND) == []


def test_a_trace_whose_root_never_comes_is_idle():
    assembler = Assembler(CONFIG)
    assembler.push(fragment(1, b"child", b"remote"), 0)
    assert assembler.cut(29 * SECOND) == []
    assert completeness(assembler.cut(30 * SECOND)) == ["idle"]


def test_a_parentless_span_is_no_proof_of_a_root_while_another_parent_is_missing():
    assembler = Assembler(CONFIG)
    assembler.push(fragment(1, b"setup"), 0)
    assembler.push(fragment(2, b"chat", b"agent"), 0)
    assert assembler.cut(10 * SECOND) == []
    assembler.push(fragment(3, b"agent"), 20 * SECOND)
    assert completeness(assembler.cut(30 * SECOND)) == ["complete"]


def test_log_records_alone_make_an_idle_trace():
    assembler = Assembler(CONFIG)
    assembler.push(Fragment(TRACE, 1, items=1), 0)
    assert completeness(assembler.cut(30 * SECOND)) == ["idle"]


def test_logs_that_come_later_keep_a_trace_open():
    assembler = Assembler(CONFIG)
    assembler.push(fragment(1, b"root"), 0)
    assembler.push(Fragment(TRACE, 2, items=1), 9 * SECOND)
    assert assembler.cut(18 * SECOND) == []
    assert assembler.cut(19 * SECOND)[0].rows == (1, 2)


def test_a_late_span_opens_the_trace_again_with_all_its_rows():
    assembler = Assembler(CONFIG)
    assembler.push(fragment(1, b"root"), 0)
    assembler.cut(10 * SECOND)
    assert assembler.push(fragment(2, b"late", b"root"), 60 * SECOND)
    assert assembler.cut(70 * SECOND) == [Cut(TRACE, (1, 2), "complete", genai=True, reopened=True)]


def test_what_comes_past_the_late_window_is_read_by_itself_as_turns_since_then():
    assembler = Assembler(CONFIG)
    assembler.push(fragment(1, b"root"), 0)
    assembler.cut(10 * SECOND)
    late_ns = 11 * SECOND + CONFIG.late_window
    assembler.cut(late_ns)
    assert assembler.push(fragment(2, b"late", b"root"), late_ns)
    (cut,) = assembler.cut(late_ns + CONFIG.idle_after)
    assert (cut.rows, cut.after_ns) == ((2,), 10 * SECOND)


def test_a_trace_past_its_cap_is_read_no_more():
    assembler = Assembler(Config(max_spans=1))
    assembler.push(fragment(1, b"a", b"root"), 0)
    assembler.cut(0)
    assert not assembler.push(fragment(2, b"b", b"root"), 10 * SECOND + CONFIG.late_window)


def test_a_trace_is_cut_at_its_cap_of_spans():
    assembler = Assembler(Config(max_spans=2))
    assembler.push(fragment(1, b"a", b"root"), 0)
    assembler.push(fragment(1, b"b", b"root"), 0)
    assert completeness(assembler.cut(0)) == ["truncated"]


def test_what_comes_above_the_cap_is_refused():
    assembler = Assembler(Config(max_trace_bytes=100))
    assembler.push(fragment(1, b"a", b"root", size_bytes=100), 0)
    assert not assembler.push(fragment(2, b"b", b"root"), 0)


def test_the_cap_of_spans_holds_over_all_openings():
    assembler = Assembler(Config(max_spans=3))
    cuts = []
    for number in range(3):
        assembler.push(fragment(number, b"%d" % number, b"root"), number * 60 * SECOND)
        cuts += assembler.cut(number * 60 * SECOND + 30 * SECOND)
    assert completeness(cuts) == ["idle", "idle", "truncated"]


def test_a_trace_that_lacked_a_parent_is_idle_again_when_it_grows():
    assembler = Assembler(CONFIG)
    assembler.push(fragment(1, b"root"), 0)
    assembler.push(fragment(1, b"child", b"missing"), 0)
    assembler.cut(30 * SECOND)
    assembler.push(fragment(2, b"late", b"root"), 40 * SECOND)
    assert completeness(assembler.cut(70 * SECOND)) == ["idle"]


def test_above_the_number_of_open_spans_the_quietest_is_cut():
    assembler = Assembler(Config(max_open_spans=1))
    assembler.push(fragment(1, b"a", b"x", trace_id=b"1" * 16), 0)
    assembler.push(fragment(2, b"a", b"x", trace_id=b"2" * 16), 1)
    assert [cut.key for cut in assembler.cut(1)] == [b"1" * 16]


def test_a_trace_that_never_falls_quiet_is_cut_at_its_age():
    assembler = Assembler(CONFIG)
    cuts = []
    for second in range(0, 4000, 5):
        assembler.push(fragment(second, b"%d" % second, b"root"), second * SECOND)
        cuts += assembler.cut(second * SECOND)
    assert completeness(cuts) == ["truncated"]


def test_above_the_number_of_open_traces_the_quietest_is_cut():
    assembler = Assembler(Config(max_open_traces=1))
    assembler.push(fragment(1, b"a", b"x", trace_id=b"1" * 16), 0)
    assembler.push(fragment(2, b"a", b"x", trace_id=b"2" * 16), 1)
    assert [cut.key for cut in assembler.cut(1)] == [b"1" * 16]


def test_a_row_is_released_when_its_traces_are_dealt_with_and_past_the_window():
    assembler = Assembler(CONFIG)
    assembler.push(fragment(7, b"root"), 0)
    (cut,) = assembler.cut(10 * SECOND)
    assembler.cut(10 * SECOND + CONFIG.late_window)
    assert assembler.released() == []
    assembler.done(cut)
    assert assembler.released() == [7]


def test_a_row_with_two_traces_waits_for_both():
    assembler = Assembler(Config(late_window=0))
    assembler.push(fragment(7, b"root", trace_id=b"1" * 16), 0)
    assembler.push(fragment(7, b"x", b"parent", trace_id=b"2" * 16), 0)
    (first,) = assembler.cut(10 * SECOND)
    assembler.done(first)
    assembler.cut(11 * SECOND)
    assert assembler.released() == []
    (second,) = assembler.cut(30 * SECOND)
    assembler.done(second)
    assert assembler.released() == [7]


def test_room_is_made_by_giving_up_what_was_cut_longest_ago():
    assembler = Assembler(CONFIG)
    assembler.push(fragment(7, b"root"), 0)
    (cut,) = assembler.cut(10 * SECOND)
    assembler.done(cut)
    assert assembler.forget_oldest()
    assert assembler.released() == [7]
    assert not assembler.forget_oldest()


def test_a_trace_that_was_not_read_begins_anew_after_it_was_given_up():
    assembler = Assembler(Config())
    assembler.push(fragment(1, b"", genai=False), 0)
    (cut,) = assembler.cut(100 * SECOND)
    assembler.done(cut)
    assert assembler.forget_oldest()
    assert assembler.push(fragment(2, b"root"), 101 * SECOND)


def test_a_trace_cut_before_a_restart_opens_only_for_a_late_span():
    assembler = Assembler(CONFIG)
    assembler.restore(fragment(1, b"root"), closed_ns=0)
    assert assembler.cut(60 * SECOND) == []
    assembler.push(fragment(2, b"late", b"root"), 61 * SECOND)
    assert assembler.cut(71 * SECOND)[0].rows == (1, 2)


def test_a_trace_cut_before_a_restart_whose_requests_are_gone_is_past():
    assembler = Assembler(CONFIG)
    assembler.remember_past({TRACE: 7})
    assembler.push(fragment(2, b"late", b"root"), 0)
    (cut,) = assembler.cut(CONFIG.idle_after)
    assert (cut.rows, cut.after_ns) == ((2,), 7)


def test_a_held_row_is_released_when_it_is_let_go():
    assembler = Assembler(CONFIG)
    assembler.hold((7,))
    assert assembler.released() == []
    assembler.let_go((7,))
    assert assembler.released() == [7]


def test_a_request_that_may_hold_genai_makes_the_trace_worth_reading():
    assembler = Assembler(CONFIG)
    assembler.push(fragment(1, b"child", b"root", genai=True), 0)
    assembler.push(fragment(2, b"root", genai=False), 0)
    assert assembler.cut(10 * SECOND)[0].genai


SPANS = st.permutations(
    [(1, b"root", b""), (2, b"a", b"root"), (2, b"b", b"a"), (3, b"c", b"root"), (4, b"c", b"root")]
)


@given(SPANS)
def test_any_order_of_spans_gives_the_same_trace(spans):
    assembler = Assembler(CONFIG)
    for row, span, parent in spans:
        assembler.push(fragment(row, span, parent), 0)
    (cut,) = assembler.cut(10 * SECOND)
    assert (sorted(cut.rows), cut.completeness) == ([1, 2, 3, 4], "complete")


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(0, 40)), max_size=60))
def test_every_row_is_released_in_the_end_and_once(pushes):
    assembler = Assembler(Config(max_spans=4, max_open_traces=2, max_closed_traces=2))
    now_ns, used, released = 0, set(), []
    for trace, row, wait_s in pushes:
        now_ns += wait_s * SECOND
        if assembler.push(fragment(row, b"%d" % row, b"x", trace_id=b"%d" % trace), now_ns):
            used.add(row)
        for cut in assembler.cut(now_ns):
            assembler.done(cut)
        released += assembler.released()
    for later_s in (60, 3600, 7200):
        for cut in assembler.cut(now_ns + later_s * SECOND):
            assembler.done(cut)
        released += assembler.released()
    assert set(released) == used


def test_very_many_complete_traces_are_handed_out_in_parts():
    assembler = Assembler(CONFIG)
    for number in range(12_000):
        assembler.push(fragment(1, b"root", trace_id=number.to_bytes(16, "big")), 0)
    cuts = [assembler.cut(10 * SECOND) for _ in range(4)]
    assert [len(x) for x in cuts] == [5000, 5000, 2000, 0]
    assert len({cut.key for part in cuts for cut in part}) == 12_000
