"""What others gave counts in analytics with the turn that it is of, and with none where that cannot
be named.
"""

from dataclasses import replace

import pytest
from sqlalchemy import select

from spanscore.model.score import Annotation, Evaluator
from spanscore.model.span import of_tenant, with_headers
from spanscore.model.trace import ModelCall, Target, ToolCall
from spanscore.store import placement, records
from spanscore.store.schema import COUNTED, score_contexts, scores
from spanscore.store.stored_rows import IMPORTED, StoredTrace

ADA = Evaluator("HUMAN", "review", "1", source="human", author="ada")


@pytest.fixture
def placed(store):
    """`placed()`: of each given score, in the order given, its (cluster, subject, model);
    `placed(trace)`: a turn's.
    """
    query = select(scores, score_contexts.c.model).join(
        score_contexts, score_contexts.c.id == scores.c.context
    )

    def read(number=None):
        wanted = scores.c.number < 0 if number is None else scores.c.number == number
        with store._database.reading() as connection:
            rows = connection.execute(
                query.where(wanted, COUNTED).order_by(scores.c.number.desc())
            ).all()
        return [(x.cluster, x.subject, x.model) for x in rows]

    return read


def given(make, number, trace_id="", span_id="", response_id=None, **facts):
    return make.score(
        make.trace(),
        "helpful",
        subject_id=trace_id or response_id,
        outcome=Annotation(1.0, None),
        evaluator=ADA,
        evaluated_at_ns=number,
        received_uid=f"{number:016x}",
        session_id=None,
        target=Target(trace_id, span_id, 0, 0, response_id=response_id),
        **facts,
    )


def turn(make, letter, number=1, **facts):
    """A turn of OTel trace `number`, with the spans, the model and the response of its letter."""
    call = ModelCall(
        letter * 16, f"model-{letter}", response_id=facts.pop("response_id", f"resp-{letter}")
    )
    return make.trace(number, opening_span_id=letter * 16, model_calls=(call,), **facts)


def commit(store, make, *turns):
    store.commit([make.stored(x) for x in turns], [make.score(x) for x in turns])


@pytest.mark.parametrize("is_given_first", [True, False])
def test_of_several_turns_in_a_trace_it_counts_with_the_one_that_has_the_span(
    store, make, placed, is_given_first
):
    one, other = turn(make, "a", session_id="s"), turn(make, "b", session_id="t")
    score = given(make, 1, one.trace_ids[0], "b" * 16)
    if is_given_first:
        store.put_external([score])
    commit(store, make, one, other)
    if not is_given_first:
        store.put_external([score])
    assert placed() == placed(2) != placed(1)


@pytest.mark.parametrize("trace_id", [f"{1:032x}", "f" * 32, ""])
@pytest.mark.parametrize("is_given_first", [True, False])
def test_it_counts_with_the_turn_that_has_the_response(
    store, make, placed, trace_id, is_given_first
):
    one, other = turn(make, "a"), turn(make, "b")
    score = given(make, 1, trace_id, response_id="resp-b")
    if is_given_first:
        store.put_external([score])
    commit(store, make, one, other)
    if not is_given_first:
        store.put_external([score])
    assert [x[1:] for x in placed()] == [x[1:] for x in placed(2)]


def test_what_is_of_a_whole_trace_with_several_turns_counts_with_none_of_them(store, make, placed):
    commit(store, make, turn(make, "a", session_id="s"), turn(make, "b", session_id="t"))
    store.put_external([given(make, 1, f"{1:032x}")])
    [(cluster, subject, model)] = placed()
    own = placed(1) + placed(2)
    assert cluster not in {x[0] for x in own}
    assert subject not in {x[1] for x in own}
    assert model is None


def test_it_counts_with_none_any_more_once_its_trace_has_a_second_turn(store, make, placed):
    commit(store, make, turn(make, "a"))
    store.put_external([given(make, 1, f"{1:032x}")])
    assert placed() == placed(1)
    commit(store, make, turn(make, "b"))
    assert placed()[0][2] is None


def test_it_counts_with_the_turn_that_is_left_when_the_other_became_part_of_it(store, make, placed):
    one, other = turn(make, "a"), turn(make, "b")
    commit(store, make, one, other)
    store.put_external([given(make, 1, f"{1:032x}")])
    store.commit([], [], gone=[other.id])
    assert placed() == placed(1)


def test_two_people_who_scored_two_turns_of_a_trace_scored_two_subjects(store, make, placed):
    commit(store, make, turn(make, "a"), turn(make, "b"))
    store.put_external([given(make, n, f"{1:032x}", x * 16) for n, x in ((1, "a"), (2, "b"))])
    assert placed() == placed(1) + placed(2)


def test_what_a_person_gave_a_turn_again_takes_the_place_of_what_they_gave_before(
    store, make, placed
):
    commit(store, make, turn(make, "a"), turn(make, "b"))
    for number in (1, 2):
        store.put_external([given(make, number, f"{1:032x}", "b" * 16)])
    assert placed() == placed(2)


@pytest.mark.parametrize("is_in_one_commit", [True, False])
def test_a_response_that_a_stub_gives_to_all_names_no_turn(store, make, placed, is_in_one_commit):
    turns = [turn(make, "a", n, response_id="mock") for n in range(1, 31)]
    store.put_external([given(make, 1, response_id="mock")])
    commit(store, make, turns[0])
    assert placed() == placed(1)
    for some in [turns[1:]] if is_in_one_commit else [[x] for x in turns[1:]]:
        commit(store, make, *some)
    assert placed()[0][2] is None


def test_a_stubs_response_names_no_turn_though_another_score_names_one_that_has_it(
    store, make, placed
):
    commit(store, make, *(turn(make, "a", n, response_id="mock") for n in range(1, 31)))
    store.put_external([given(make, 1, f"{1:032x}"), given(make, 2, "f" * 32, response_id="mock")])
    assert [x[2] for x in placed()] == ["model-a", None]


def test_what_others_gave_to_a_stubs_response_is_not_read_with_each_commit(
    store, make, monkeypatch
):
    store.put_external([given(make, n, f"{n:032x}", response_id="mock") for n in range(1, 31)])
    commit(store, make, *(turn(make, "a", n, response_id="mock") for n in range(1, 31)))
    decoded = []
    decode = records.decode_evaluation
    monkeypatch.setattr(
        records, "decode_evaluation", lambda record: decoded.append(1) or decode(record)
    )
    commit(store, make, turn(make, "a", 40, response_id="mock"))
    assert decoded == []


@pytest.mark.parametrize("is_given_first", [True, False])
def test_it_counts_with_the_model_of_an_imported_trace_that_has_no_scores(
    store, make, placed, is_given_first
):
    score = given(make, 1, f"{1:032x}")
    if is_given_first:
        store.put_external([score])
    store.commit([StoredTrace(turn(make, "a", session_id="s"), IMPORTED, "digest")], [])
    if not is_given_first:
        store.put_external([score])
    [(_, _, model)] = placed()
    assert model == "model-a"


def test_a_score_of_another_owner_counts_with_no_turn(store, make, placed):
    commit(store, make, turn(make, "a"))
    score = given(make, 1, f"{1:032x}")
    target = replace(score.target, resource={"spanscore.header.x-sender": "other"})
    store.put_external([replace(score, target=target)])
    assert placed()[0][2] is None


def of_another_tenant(score):
    return replace(
        score, target=replace(score.target, resource=with_headers({}, of_tenant("other")))
    )


def test_what_other_tenants_gave_to_a_trace_id_leaves_room_for_what_its_owner_gave(
    store, make, placed, monkeypatch
):
    monkeypatch.setattr(placement, "MAX_SCORES", 3)
    own = given(make, 1, f"{1:032x}")
    store.put_external([own])
    store.put_external(
        [of_another_tenant(given(make, n, f"{1:032x}", f"{n:016x}")) for n in range(2, 12)]
    )
    commit(store, make, turn(make, "a"))
    assert (placed()[0], {x[2] for x in placed()[1:]}) == (placed(1)[0], {None})


def test_what_was_given_to_one_trace_leaves_room_for_what_was_given_to_another(
    store, make, placed, monkeypatch
):
    monkeypatch.setattr(placement, "MAX_SCORES", 3)
    store.put_external([given(make, 1, f"{1:032x}")])
    store.put_external([given(make, n, f"{2:032x}", f"{n:016x}") for n in range(2, 12)])
    commit(store, make, turn(make, "a", 1), turn(make, "b", 2))
    assert placed()[0] == placed(1)[0]


def test_turns_that_other_tenants_have_in_a_trace_id_are_not_read(store, make, monkeypatch):
    commit(store, make, turn(make, "a"))
    decoded = []
    decode = records.decode_trace
    monkeypatch.setattr(records, "decode_trace", lambda record: decoded.append(1) or decode(record))
    store.put_external([of_another_tenant(given(make, 1, f"{1:032x}"))])
    assert decoded == []


@pytest.mark.slow
def test_a_commit_to_a_trace_with_many_turns_and_scores_reads_the_record_of_no_turn_but_its_own(
    store, make, monkeypatch
):
    turns = [turn(make, letter) for letter in "abcdef"]
    commit(store, make, *turns[:4])
    store.put_external(
        [given(make, n, f"{1:032x}", letter * 16) for n, letter in enumerate("abc", 1)]
    )
    commit(store, make, turns[4])
    decoded = []
    decode = records.decode_trace
    monkeypatch.setattr(records, "decode_trace", lambda record: decoded.append(1) or decode(record))
    commit(store, make, turns[5])
    assert len(decoded) == 1


def test_a_score_counts_with_the_later_revision_of_its_turn(store, make, placed):
    commit(store, make, turn(make, "a"), turn(make, "b"))
    score = given(make, 1, f"{1:032x}", "c" * 16)
    store.put_external([score])
    again = turn(make, "b", tool_calls=(ToolCall("call", "find", span_id="c" * 16),))
    store.commit([make.stored(again, 2)], [make.score(again, revision=2)])
    assert placed() == placed(3)


def test_a_score_of_a_response_counts_with_none_once_a_revision_lacks_the_response(
    store, make, placed
):
    commit(store, make, turn(make, "a"))
    store.put_external([given(make, 1, response_id="resp-a")])
    assert placed() == placed(1)
    again = turn(make, "a", response_id="resp-b")
    store.commit([make.stored(again, 2)], [make.score(again, revision=2)])
    assert placed()[0][2] is None


@pytest.mark.parametrize("revision", [IMPORTED, 1])
def test_a_score_of_a_response_counts_with_none_once_what_replaces_an_imported_turn_lacks_it(
    store, make, placed, revision
):
    store.commit([make.stored(turn(make, "a"), IMPORTED)], [])
    store.put_external([given(make, 1, response_id="resp-a")])
    now = StoredTrace(turn(make, "a", response_id="resp-b"), revision, "digest of another")
    store.commit([now], [])
    assert placed()[0][2] is None


def test_a_response_that_moves_to_another_turn_takes_its_scores_along(store, make, placed):
    one, other = turn(make, "a"), turn(make, "b", 2)
    commit(store, make, one, other)
    store.put_external([given(make, 1, response_id="resp-a")])
    assert placed() == placed(1)
    now = [turn(make, "a", response_id="new"), turn(make, "b", 2, response_id="resp-a")]
    store.commit([make.stored(x, 2) for x in now], [make.score(x, revision=2) for x in now])
    assert [x[1:] for x in placed()] == [x[1:] for x in placed(4)]


@pytest.mark.parametrize("end", ["take out", "prune"])
def test_what_scores_are_joined_by_goes_with_the_agent_trace(open_store, make, sql, end):
    store = open_store(max_age="1h")
    one = turn(make, "a")
    commit(store, make, one)
    store.put_external([given(make, 1, f"{1:032x}")])
    assert sql("SELECT id FROM agent_traces WHERE turn IS NOT NULL") == [(one.id,)]
    if end == "take out":
        store.commit([], [], gone=[one.id])
    else:
        store._clock_ns.now_ns += 2 * 3600 * 10**9
        store.prune(store._clock_ns())
    assert sql("SELECT id FROM agent_traces WHERE turn IS NOT NULL") == []


def test_texts_that_no_database_takes_are_kept_of_a_scored_turn(store, make, placed):
    commit(store, make, turn(make, "a", session_id="\0\ud800"), turn(make, "b"))
    store.put_external([given(make, 1, f"{1:032x}", "a" * 16)])
    commit(store, make, turn(make, "c"))
    assert placed() == placed(1)
