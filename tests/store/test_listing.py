"""Scores and traces of a store, newest first and page by page."""

from dataclasses import replace

import pytest

from spanscore.errors import ConfigError
from spanscore.filters import parse
from spanscore.model.score import Annotation, Evaluator, Failure, Skip
from spanscore.model.span import TENANT, with_headers
from spanscore.model.trace import ToolCall, Usage
from spanscore.store import listing, records
from spanscore.store.config import Config
from spanscore.store.listing import SCORE_FIELDS, TRACE_FIELDS, ScoreQuery, TraceQuery
from spanscore.store.ordering import Order
from spanscore.store.session_lists import SESSION_FIELDS, SessionQuery

HUMAN = Evaluator("HUMAN", "helpful", "", source="human")


@pytest.fixture
def commit(store, make, clock):
    """Commit scores of one trace each, a second after the ones before."""

    def one(*scores, trace=None):
        clock.now_ns += 10**9
        store.commit([make.stored(trace)] if trace else [], scores)

    return one


def metrics_of(page):
    return [x.metric for x in page.items]


def test_the_newest_scores_come_first(store, make, commit):
    commit(make.score(make.trace(1), "coherence"))
    commit(make.score(make.trace(2), "confidence"))
    assert metrics_of(store.list_scores(ScoreQuery(), 10)) == ["confidence", "coherence"]


def test_pages_follow_each_other_without_gap_or_repetition(store, make, commit):
    for number in range(7):
        commit(make.score(make.trace(number), f"m{number}"))
    found, place = [], None
    while not found or place:
        page = store.list_scores(ScoreQuery(), 3, place)
        found, place = found + metrics_of(page), page.next
    assert found == [f"m{x}" for x in reversed(range(7))]


def test_the_oldest_scores_come_first_where_that_is_asked_for(store, make, commit):
    for number in range(5):
        commit(make.score(make.trace(number), f"m{number}"))
    found, place = [], None
    while not found or place:
        page = store.list_scores(ScoreQuery(order=(listing.OLDEST_FIRST,)), 2, place)
        found, place = found + metrics_of(page), page.next
    assert found == [f"m{x}" for x in range(5)]


def test_scores_that_come_while_pages_are_read_move_nothing(store, make, commit):
    for number in range(4):
        commit(make.score(make.trace(number), f"m{number}"))
    first = store.list_scores(ScoreQuery(), 2)
    commit(make.score(make.trace(9), "later"))
    assert metrics_of(first) + metrics_of(store.list_scores(ScoreQuery(), 2, first.next)) == [
        "m3",
        "m2",
        "m1",
        "m0",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("metric = m1", ["m1"]),
        ('metric = "m*" AND NOT metric = m1', ["m2", "m0"]),
        ("metric = m1 OR value < 0.2", ["m1", "m0"]),
        ("NOT (metric = m1 AND value > 0)", ["m2", "m0"]),
        ("metric = m1 value > 0.9", []),
        ("scope = session", []),
        ("evaluated_at_ns >= 0", ["m2", "m1", "m0"]),
        ('evaluated_at_ns > "0001-01-01T00:00:00Z"', ["m2", "m1", "m0"]),
        ('evaluated_at_ns > "9999-01-01T00:00:00Z"', []),
        ("revision < 3000000000", ["m2", "m1", "m0"]),
        ("revision > 99999999999999999999", []),
        ("revision > -99999999999999999999", ["m2", "m1", "m0"]),
        ("NOT revision > 99999999999999999999 AND metric = m1", ["m1"]),
        ("revision > 0.5", ["m2", "m1", "m0"]),
        ("metric:M2", ["m2"]),
    ],
)
def test_a_filter_is_met_by_what_the_database_and_the_record_contain(
    store, make, commit, text, wanted
):
    for number in range(3):
        commit(make.score(make.trace(number), f"m{number}", 0.1 + 0.3 * number))
    assert metrics_of(store.list_scores(ScoreQuery(filter=parse(text, SCORE_FIELDS)), 10)) == wanted


def test_traces_are_filtered_by_their_scores_and_resource(store, make, commit):
    trace = make.trace(1)
    commit(make.score(trace, "coherence", 0.25), trace=trace)
    commit(make.score(make.trace(2), "coherence", 0.75), trace=make.trace(2))
    query = TraceQuery(filter=parse("score.coherence < 0.5", TRACE_FIELDS))
    assert [x.trace.id for x in store.list_traces(query, 10).items] == [trace.id]


def test_traces_are_not_found_by_the_headers_that_came_with_them(store, make, commit):
    target = make.trace(1).target
    sent = replace(target, resource=with_headers({"zone": "eu"}, (("x-api-key", "secret"),)))
    trace = make.trace(1, target=sent)
    commit(make.score(trace, "coherence"), trace=trace)
    asked = {"resource.zone = eu": [trace.id], "resource.spanscore.header.x-api-key:*": []}
    for text, wanted in asked.items():
        query = TraceQuery(filter=parse(text, TRACE_FIELDS))
        assert [x.trace.id for x in store.list_traces(query, 10).items] == wanted


def test_sessions_come_page_by_page_those_that_went_on_last_first(store, make, commit):
    for number, session in enumerate(["a", "b", "c", "a"]):
        trace = make.trace(number, session_id=session)
        commit(make.score(trace, "coherence"), trace=trace)
    found, place = [], None
    while not found or place:
        page = store.list_sessions(SessionQuery(), 1, place)
        found, place = (
            found + [(x.session.id, len(x.session.traces)) for x in page.items],
            page.next,
        )
    assert found == [("a", 2), ("c", 1), ("b", 1)]


def test_sessions_are_filtered_by_what_their_scores_are(store, make, commit):
    for session, value in (("a", 0.25), ("b", 0.75)):
        trace = make.trace(1 if session == "a" else 2, session_id=session)
        commit(make.score(trace, "coherence", value), trace=trace)
    page = store.list_sessions(SessionQuery(filter=parse("failing = true", SESSION_FIELDS)), 10)
    assert [x.session.id for x in page.items] == ["a"]


def test_what_others_gave_is_listed_among_ours_by_its_time(store, make, commit, clock):
    trace = make.trace(1)
    commit(make.score(trace, "first"))
    clock.now_ns += 10**9
    given = make.score(
        trace, "helpful", outcome=Annotation(1.0), threshold=None, scale=None, evaluator=HUMAN
    )
    store.put_external([replace(given, received_uid="ab" * 8)])
    commit(make.score(trace, "last"))
    pages = [store.list_scores(ScoreQuery(), 1)]
    while pages[-1].next:
        pages.append(store.list_scores(ScoreQuery(), 1, pages[-1].next))
    assert [x for page in pages for x in metrics_of(page)] == ["last", "helpful", "first"]


def test_of_several_revisions_only_the_newest_is_listed(store, make, commit):
    trace = make.trace(1)
    commit(make.score(trace, value=0.1))
    commit(make.score(trace, value=0.9, revision=2))
    assert [x.value for x in store.list_scores(ScoreQuery(), 10).items] == [0.9]


def test_only_what_fails_and_what_went_wrong_is_listed_as_failing(store, make, commit):
    trace = make.trace(1)
    commit(
        make.score(trace, "good", 0.9),
        make.score(trace, "bad", 0.1),
        make.score(trace, "broken", outcome=Failure("Error", "no answer")),
        make.score(trace, "none", outcome=Skip("no judge", "no_judge")),
    )
    assert metrics_of(store.list_scores(ScoreQuery(failing=True), 10)) == ["broken", "bad"]


def test_skips_are_listed_only_where_they_are_asked_for(store, make, commit):
    commit(make.score(make.trace(1), outcome=Skip("no judge", "no_judge")))
    assert store.list_scores(ScoreQuery(), 10).items == []
    assert len(store.list_scores(ScoreQuery(skipped=True), 10).items) == 1


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"metric": "rubric"}, ["rubric.overall"]),
        ({"metric": "rubric_like"}, ["rubric_like"]),
        ({"service": "shop"}, ["rubric_like"]),
        ({"session_id": "s-1"}, ["rubric.overall"]),
        ({"source": "human"}, []),
        ({"source": "spanscore"}, ["rubric_like", "rubric.overall"]),
    ],
)
def test_a_condition_leaves_out_what_does_not_meet_it(store, make, commit, condition, expected):
    commit(make.score(make.trace(1), "rubric.overall", session_id="s-1"))
    commit(make.score(make.trace(2), "rubric_like", service_name="shop"))
    assert metrics_of(store.list_scores(ScoreQuery(**condition), 10)) == expected


@pytest.mark.parametrize(
    "name", ["shop", "50%_off", 'the "shop"', "a\\b", "a/b", "läden", "店", "tab\there"]
)
def test_a_service_and_a_session_of_any_name_are_found(store, make, commit, name):
    commit(make.score(make.trace(1), "other"))
    commit(
        replace(
            make.score(make.trace(2), "wanted"),
            service_name=name,
            session_id=name,
            session_key=name,
        )
    )
    assert metrics_of(store.list_scores(ScoreQuery(service=name), 10)) == ["wanted"]
    assert metrics_of(store.list_scores(ScoreQuery(session_id=name), 10)) == ["wanted"]


@pytest.mark.parametrize(
    ("source", "expected"), [("spanscore", ["coherence"]), ("human", ["helpful"]), ("nobody", [])]
)
def test_a_source_is_looked_for_only_where_it_can_be(
    store, make, commit, source, expected, monkeypatch
):
    trace = make.trace(1)
    commit(make.score(trace), trace=trace)
    human = replace(
        make.score(trace, "helpful"),
        evaluator=HUMAN,
        outcome=Annotation(1.0),
        received_uid="1" * 16,
    )
    store.put_external([human])
    # a record of the other table would end the page
    monkeypatch.setattr(listing, "_MAX_LOOKED_AT", 1)
    assert metrics_of(store.list_scores(ScoreQuery(source=source), 10)) == expected


def test_what_was_stored_before_a_time_is_left_out(store, make, commit, clock):
    commit(make.score(make.trace(1), "old"))
    commit(make.score(make.trace(2), "new"))
    assert metrics_of(store.list_scores(ScoreQuery(since_ns=clock.now_ns), 10)) == ["new"]


@pytest.mark.parametrize("since", range(5))
def test_what_was_stored_before_a_time_is_left_out_also_where_the_oldest_comes_first(
    store, make, commit, clock, since
):
    started_ns = clock.now_ns + 10**9
    for number in range(4):
        commit(make.score(make.trace(number), f"m{number}"))
    query = ScoreQuery(since_ns=started_ns + since * 10**9, order=(listing.OLDEST_FIRST,))
    first = store.list_scores(query, 2)
    rest = store.list_scores(query, 10, first.next) if first.next else listing.Page([], None)
    assert metrics_of(first) + metrics_of(rest) == ["m0", "m1", "m2", "m3"][since:]


def test_traces_are_listed_with_their_scores(store, make, commit):
    first, second = make.trace(1), make.trace(2)
    commit(make.score(first, value=0.1), trace=first)
    commit(make.score(second, value=0.9), trace=second)
    found = store.list_traces(TraceQuery(), 10).items
    assert [(x.trace, [y.value for y in x.scores]) for x in found] == [
        (second, [0.9]),
        (first, [0.1]),
    ]


def test_pages_of_failing_traces_follow_each_other(store, make, commit):
    traces = [make.trace(number) for number in range(6)]
    for number, trace in enumerate(traces):
        commit(make.score(trace, value=number % 2), trace=trace)
    found, place = [], None
    while not found or place:
        page = store.list_traces(TraceQuery(failing=True), 2, place)
        found, place = found + [x.trace for x in page.items], page.next
    assert found == [traces[4], traces[2], traces[0]]


def test_traces_of_a_session_are_found_by_its_id_and_its_key(store, make, commit):
    trace = make.trace(1, session_id="s", session_key="tenant:s")
    commit(trace=trace)
    commit(trace=make.trace(2, session_id="other"))
    for name in ("s", "tenant:s"):
        assert [x.trace for x in store.list_traces(TraceQuery(session_id=name), 10).items] == [
            trace
        ]


def test_a_page_ends_where_too_much_was_looked_at_and_the_next_goes_on(
    store, make, commit, monkeypatch
):
    monkeypatch.setattr(listing, "_MAX_LOOKED_AT", 2)
    for number, value in enumerate((0.1, 0.9, 0.9)):
        commit(make.score(make.trace(number), value=value))
    query = ScoreQuery(filter=parse("value < 0.5", SCORE_FIELDS))
    first = store.list_scores(query, 10)
    assert first.items == []
    assert [x.value for x in store.list_scores(query, 10, first.next).items] == [0.1]


def test_of_failing_scores_only_these_are_looked_at(store, make, commit, monkeypatch):
    monkeypatch.setattr(listing, "_MAX_LOOKED_AT", 2)
    for number, value in enumerate((0.1, 0.9, 0.9)):
        commit(make.score(make.trace(number), value=value))
    assert [x.value for x in store.list_scores(ScoreQuery(failing=True), 10).items] == [0.1]


def test_a_damaged_record_is_left_out(store, make, commit, sql):
    commit(make.score(make.trace(1), "damaged"))
    commit(make.score(make.trace(2), "sound"))
    sql("UPDATE scores SET record = '{' WHERE metric = 'damaged'")
    assert metrics_of(store.list_scores(ScoreQuery(), 10)) == ["sound"]


def test_a_store_is_read_without_being_opened(store, make, commit, database_url):
    for number in range(5):
        commit(make.score(make.trace(number), f"m{number}"))
    config = Config(url=database_url)
    found = listing.pages(
        config, lambda connection, place: listing.scores(connection, ScoreQuery(), 2, place), 3
    )
    assert [x.metric for x in found] == ["m4", "m3", "m2"]


def test_a_store_that_is_not_there_is_refused(tmp_path):
    config = Config(url=f"sqlite:///{tmp_path}/nowhere.db")
    with pytest.raises(ConfigError, match="no store there"):
        next(
            listing.pages(
                config, lambda connection, place: listing.scores(connection, ScoreQuery(), 2, place)
            )
        )


def test_a_damaged_score_of_a_trace_costs_no_other(store, make, commit, sql):
    trace = make.trace(1)
    store.commit([make.stored(trace)], [make.score(trace, "damaged"), make.score(trace, "whole")])
    sql("UPDATE scores SET record = '{' WHERE metric = 'damaged'")
    assert [x.metric for x in store.evaluations(trace_id=trace.id)] == ["whole"]


def searched(store, text):
    """The page's search for a text in what was asked and answered."""
    query = TraceQuery(
        filter=parse(f'(user_input:"{text}" OR final_output:"{text}")', TRACE_FIELDS)
    )
    return [x.trace.user_input for x in store.list_traces(query, 10).items]


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("Where is my Zebra?", "ZEBRA"),
        ("Die Straße dort", "strasse"),
        ("Die STRASSE dort", "straße"),
        ("273 \u212a warm", "273 k"),
        ('She said "stop"\nand left', "stop"),
        ("C:\\new folder", "c:\\\\new f"),
        ("half \ud83d é", "É"),
    ],
)
def test_a_text_is_found_in_whatever_form_the_record_has_it(store, make, commit, asked, text):
    commit(trace=make.trace(1, user_input=asked))
    commit(trace=make.trace(2, user_input="something else"))
    assert searched(store, text) == [asked]


def test_of_searched_traces_only_those_that_contain_the_text_are_decoded(
    store, make, commit, monkeypatch
):
    for number in range(1, 31):
        commit(trace=make.trace(number, user_input="zebra" if number == 1 else f"horse {number}"))
    decoded = []
    decode = records.decode_trace
    monkeypatch.setattr(records, "decode_trace", lambda record: decoded.append(1) or decode(record))
    assert searched(store, "zebra") == ["zebra"]
    assert len(decoded) == 1


def test_a_search_ends_its_page_where_many_records_were_read_and_goes_on(
    store, make, commit, monkeypatch
):
    monkeypatch.setattr(listing, "_MAX_LOOKED_AT", 10)
    for number in range(1, 31):
        commit(trace=make.trace(number, user_input="zebra" if number == 1 else "horse"))
    query, place, sizes = TraceQuery(filter=parse("user_input:zebra", TRACE_FIELDS)), None, []
    while not sizes or place:
        page = store.list_traces(query, 5, place)
        sizes, place = [*sizes, len(page.items)], page.next
    assert sizes[:3] == [0, 0, 1]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("NOT user_input:zebra", [2, 1]),
        ("user_input:*", [2]),
        ("user_input:zebra AND service_name = none", []),
        ("user_input:horse OR label.coherence = pass", [2, 1]),
        ("user_input = *ors*", [2]),
    ],
)
def test_a_filter_that_is_not_only_of_texts_is_met_by_what_meets_it(
    store, make, commit, text, wanted
):
    one, two = make.trace(1), make.trace(2, user_input="horse", service_name="shop")
    commit(make.score(one, value=0.9), trace=one)
    commit(trace=two)
    page = store.list_traces(TraceQuery(filter=parse(text, TRACE_FIELDS)), 10)
    assert [int(x.trace.trace_ids[0], 16) for x in page.items] == wanted


def started(make, number, at):
    """A trace that was stored as the `number`-th and started at `at` ns."""
    trace = make.trace(number)
    return replace(trace, started_ns=at, ended_ns=at + 1)


@pytest.mark.parametrize("is_falling", [False, True])
def test_traces_come_in_the_order_in_which_they_started(store, make, is_falling):
    starts = [50, 10, 40, 10, 30, 20]
    for number, at in enumerate(starts):
        store.commit([make.stored(started(make, number, at))], [])
    query = TraceQuery(order=Order("started_ns", is_falling))
    found, place = [], None
    while not found or place:
        page = store.list_traces(query, 2, place)
        found, place = found + [x.trace.started_ns for x in page.items], page.next
    assert found == sorted(starts, reverse=is_falling)


MEASURED = {
    1: {
        "ended_ns": 3000,
        "usage": Usage(10, 5),
        "tool_calls": (ToolCall("1", "a", error="no"),) * 2,
    },
    2: {"ended_ns": 9000, "usage": Usage(10, None), "tool_calls": (ToolCall("1", "a"),)},
    3: {"ended_ns": 3500, "usage": Usage(7, 1)},
    4: {
        "ended_ns": 4400,
        "usage": Usage(2**70, 1),
        "tool_calls": (ToolCall("1", "a", error="no"),),
    },
}
BY_MEASURE = [("latency", [4, 3, 1, 2]), ("tokens", [3, 1, 4, 2]), ("tool_errors", [2, 4, 1, 3])]


@pytest.fixture
def measured(store, make):
    """Commit traces of different latency, tokens and failed calls, some without the fact."""
    traces = [make.trace(x, session_id="s", **facts) for x, facts in MEASURED.items()]
    store.commit([make.stored(trace) for trace in traces], [])
    return traces


def in_pages(store, query):
    """The numbers of the traces of all pages of two."""
    found, place = [], None
    while not found or place:
        page = store.list_traces(query, 2, place)
        found, place = found + [int(x.trace.trace_ids[0], 16) for x in page.items], page.next
    return found


@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize("session_id", [None, "s"])
@pytest.mark.parametrize(("field", "rising"), BY_MEASURE)
def test_traces_come_in_the_order_of_a_measure_and_those_without_it_last(
    store, field, rising, session_id
):
    last = [x for x in rising if field != "latency"][-1:]
    falling = [x for x in reversed(rising) if x not in last] + last
    for is_falling, wanted in ((False, rising), (True, falling)):
        query = TraceQuery(order=Order(field, is_falling), session_id=session_id)
        assert in_pages(store, query) == wanted


@pytest.mark.usefixtures("measured")
def test_a_new_revision_of_a_trace_has_its_place_by_its_new_measures(store, make):
    store.commit([make.stored(make.trace(2, usage=Usage(1, 1)), revision=2)], [])
    assert in_pages(store, TraceQuery(order=Order("tokens"))) == [2, 3, 1, 4]


@pytest.mark.parametrize("order", [Order("latency"), Order("tool_errors", is_falling=True)])
def test_traces_in_the_order_of_a_measure_are_of_one_tenant(store, make, order):
    for number, tenant in ((1, "acme"), (2, "blue")):
        trace = make.trace(number)
        headers = with_headers(trace.target.resource, ((TENANT, tenant),))
        store.commit(
            [make.stored(replace(trace, target=replace(trace.target, resource=headers)))], []
        )
    assert in_pages(store, TraceQuery(order=order, tenant="acme")) == [1]


@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize(
    ("text", "wanted"),
    [("tokens > 8", [1, 4]), ("tool_errors >= 1", [1, 4]), ("tool_errors = 0", [2])],
)
def test_traces_are_filtered_by_what_they_can_be_ordered_by(store, text, wanted):
    query = TraceQuery(filter=parse(text, TRACE_FIELDS), order=Order("started_ns"))
    assert in_pages(store, query) == wanted


def test_traces_that_come_while_pages_are_read_repeat_none_and_hide_none(store, make):
    for number, at in enumerate((10, 20, 30, 40)):
        store.commit([make.stored(started(make, number, at))], [])
    query = TraceQuery(order=Order("started_ns", is_falling=True))
    first = store.list_traces(query, 2)
    for number, at in ((5, 35), (6, 25)):
        store.commit([make.stored(started(make, number, at))], [])
    rest = store.list_traces(query, 10, first.next)
    assert [x.trace.started_ns for x in (*first.items, *rest.items)] == [40, 30, 25, 20, 10]


def test_only_traces_that_were_stored_since_are_in_the_order_of_their_start(store, make):
    for number, at in enumerate((30, 10, 20)):
        store.commit([make.stored(started(make, number, at))], [])
    query = TraceQuery(order=Order("started_ns"), since_ns=2**62)
    assert not store.list_traces(query, 10).items
