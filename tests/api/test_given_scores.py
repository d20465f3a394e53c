"""Scores that people and programs give by the API: created, changed, deleted, and refused with what
is wrong.
"""

import asyncio

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from spanscore.api.scores import ScoreService
from spanscore.api.servicer import Call
from spanscore.api.v1 import score_pb2 as score_pb, score_service_pb2 as pb
from spanscore.errors import ConflictError, ExistsError, FieldError, NotFoundError, StateError
from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.model.trace import AgentTrace, Target
from spanscore.store import records
from spanscore.store.config import Config
from spanscore.store.store import Store, StoredTrace

CALL = Call()
ADA = score_pb.Evaluator(source="human", author="ada")


class StoreBackend(Store):
    """A store as the services' backend."""

    def why_unscored(self, trace, scores):
        return "" if scores else "left out"

    def why_not_stored(self, trace_id, *, tenant):
        return ""

    def evaluations(self, *, run="", **subject):
        return [*super().evaluations(run=run, **subject), *self.external_scores(**subject)]


def trace(number, *, opening=None, session_id=None):
    """The turn of one OTel trace that begins with a span."""
    opening_id = f"{opening or number:016x}"
    target = Target(
        f"{number:032x}", opening_id, 1, 2, {"service.name": "shop", "spanscore.header.x-team": "a"}
    )
    return AgentTrace(
        trace_ids=(target.trace_id,),
        root_span_id=opening_id,
        target=target,
        opening_span_id=opening_id,
        started_ns=1,
        ended_ns=2,
        session_id=session_id,
        agent_name="clerk",
        service_name="shop",
    )


def measured(of, value=0.25):
    return Evaluation(
        scope="trace",
        subject_id=of.id,
        metric="coherence",
        outcome=Score(value, ""),
        threshold=0.5,
        scale=(0.0, 1.0),
        evaluator=Evaluator("CODE", "spanscore", "1"),
        target=of.target,
        session_id=of.session_id,
    )


@pytest.fixture
def store(database_url):
    opened = StoreBackend.open(Config(url=database_url), clock_ns=lambda: 10**18)
    yield opened
    opened.close()


@pytest.fixture
def service(store):
    return ScoreService(store)


def ask(coroutine):
    return asyncio.run(coroutine)


def score(**facts):
    defaults = {"trace_id": f"{1:032x}", "metric": "helpful", "label": "pass", "evaluator": ADA}
    return score_pb.Score(**{**defaults, **facts})


def create(service, request_id="", call=CALL, **facts):
    return ask(
        service.create_score(
            pb.CreateScoreRequest(score=score(**facts), request_id=request_id), call
        )
    )


def batch(service, *requests, **facts):
    return ask(
        service.batch_create_scores(pb.BatchCreateScoresRequest(requests=requests, **facts), CALL)
    )


def given(store, number=1):
    return store.external_scores(trace_id=f"{number:032x}")


def wrong(service, **facts):
    """The fields that are wrong, with what is wrong with them."""
    with pytest.raises(FieldError) as caught:
        create(service, **facts)
    return {x.field: x.problem for x in (caught.value, *caught.value.others)}


def test_a_score_of_a_stored_trace_is_joined_to_its_turn(service, store):
    of = trace(1, session_id="s")
    store.commit([StoredTrace(of, 1, "")], [])
    created = create(service, reason="it booked the right flight")
    [found] = given(store)
    assert created.subject_state == score_pb.SUBJECT_STATE_STORED
    assert (found.uid, found.subject_id, found.service_name) == (created.uid, of.id, "shop")
    assert (created.session_id, created.evaluated_at_ns, created.revision) == ("s", 10**18, 1)


def test_a_score_may_come_before_its_trace_and_says_so(service, store):
    created = create(service)
    assert created.subject_state == score_pb.SUBJECT_STATE_NOT_STORED
    store.commit([StoredTrace(trace(1), 1, "")], [])
    assert ask(service.get_score(pb.GetScoreRequest(name=created.name), CALL)).subject_state == (
        score_pb.SUBJECT_STATE_STORED
    )
    assert [x.subject_id for x in given(store)] == [trace(1).id]


def test_of_several_turns_in_one_trace_a_score_is_of_the_one_whose_id_it_names(service, store):
    first, second = trace(1, opening=7), trace(1, opening=8)
    store.commit([StoredTrace(first, 1, ""), StoredTrace(second, 1, "")], [])
    created = create(service, trace_id=second.id)
    assert created.subject_state == score_pb.SUBJECT_STATE_STORED
    assert [x.subject_id for x in store.external_scores(trace_id=second.id)] == [second.id]
    assert not store.external_scores(trace_id=first.id)


def test_a_score_of_a_trace_with_several_turns_that_names_none_of_them_says_so(service, store):
    store.commit(
        [StoredTrace(trace(1, opening=7), 1, ""), StoredTrace(trace(1, opening=8), 1, "")], []
    )
    assert create(service).subject_state == score_pb.SUBJECT_STATE_AMBIGUOUS
    assert create(service, span_id=f"{7:016x}").subject_state == score_pb.SUBJECT_STATE_STORED


def test_a_score_of_a_session_is_found_with_it(service, store):
    store.commit([StoredTrace(trace(1, session_id="chat 7"), 1, "")], [])
    created = create(service, trace_id="", session_id="chat 7")
    assert (created.scope, created.subject_state) == (
        score_pb.SCOPE_SESSION,
        score_pb.SUBJECT_STATE_STORED,
    )
    assert [x.uid for x in store.external_scores(session_id="chat 7")] == [created.uid]


def test_the_time_at_which_a_score_was_given_is_kept(service):
    assert create(service, evaluated_at_ns=5).evaluated_at_ns == 5


def test_values_of_a_metric_that_is_known_have_its_scale(service):
    created = create(service, metric="coherence", value=0.5)
    assert (created.scale.low, created.scale.high) == (0.0, 1.0)


def test_a_score_whose_message_was_read_can_be_created_again(service):
    first = create(service, metric="coherence", value=0.5, label="pass")
    again = ask(service.create_score(pb.CreateScoreRequest(score=first), CALL))
    assert (again.value, again.label, again.uid != first.uid) == (0.5, "pass", True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("facts", "field", "problem"),
    [
        ({"trace_id": "7"}, "score.trace_id", "is no id"),
        ({"trace_id": "0" * 32}, "score.trace_id", "nothing but zeros"),
        ({"trace_id": ""}, "score.trace_id", "is no id"),
        ({"span_id": "xyz"}, "score.span_id", "16 hex digits"),
        ({"session_id": "s"}, "score.scope", "say by scope"),
        ({"scope": score_pb.SCOPE_SESSION}, "score.session_id", "is empty"),
        ({"metric": " "}, "score.metric", "is empty"),
        ({"metric": "x" * 257}, "score.metric", "256 at most"),
        ({"label": None}, "score.value", "neither value nor label"),
        ({"label": ""}, "score.label", "is empty"),
        ({"value": float("nan")}, "score.value", "finite"),
        ({"value": float("inf")}, "score.value", "finite"),
        (
            {"value": 5, "metric": "coherence"},
            "score.value",
            "off the scale of coherence, which is 0 to 1",
        ),
        (
            {"value": 5, "scale": {"low": 0, "high": 4}},
            "score.value",
            "off the scale that is given",
        ),
        ({"scale": {"low": 1, "high": 1}}, "score.scale", "is no scale"),
        (
            {"value": 1, "scale": {"low": 0, "high": 4}, "metric": "coherence"},
            "score.scale",
            "has the scale 0 to 1",
        ),
        ({"label": "formal", "metric": "coherence"}, "score.label", "give pass or fail"),
        ({"reason": "x" * 32_769}, "score.reason", "32,768 at most"),
        ({"reason": "a\0b"}, "score.reason", "NUL"),
        ({"metadata_json": "[1]"}, "score.metadata_json", "no JSON object"),
        ({"metadata_json": "{"}, "score.metadata_json", "no JSON object"),
        ({"evaluator": {}}, "score.evaluator.source", "say who gives it"),
        (
            {"evaluator": {"source": "spanscore"}},
            "score.evaluator.source",
            "measures its own scores",
        ),
        ({"evaluated_at_ns": 2**63}, "score.evaluated_at_ns", "in the future"),
    ],
)
def test_a_field_that_is_wrong_is_named(service, store, facts, field, problem):
    assert problem in wrong(service, **facts)[field]
    assert not given(store)


def test_all_fields_that_are_wrong_are_named_at_once(service):
    assert list(wrong(service, trace_id="7", metric="", value=float("nan"))) == [
        "score.trace_id",
        "score.metric",
        "score.value",
    ]


def test_a_request_that_is_repeated_creates_nothing(service, store):
    first = create(service, "once")
    assert create(service, "once") == first
    assert len(given(store)) == 1


def test_a_request_id_with_other_content_is_refused(service):
    create(service, "once")
    with pytest.raises(ExistsError, match="request_id: another score was created with this one"):
        create(service, "once", label="fail")


def test_a_request_id_of_one_tenant_is_free_for_another(service):
    first = create(service, "once")
    assert create(service, "once", Call(tenant="b"), label="fail").uid != first.uid


def test_a_batch_is_kept_in_its_order(service, store):
    made = batch(
        service, *(pb.CreateScoreRequest(score=score(trace_id=f"{x:032x}")) for x in (3, 1, 2))
    )
    assert [x.trace_id for x in made.scores] == [f"{x:032x}" for x in (3, 1, 2)]
    assert made.already_there == 0
    assert all(given(store, x) for x in (1, 2, 3))


def test_each_error_in_a_batch_names_its_place_and_nothing_is_kept(service, store):
    requests = [
        pb.CreateScoreRequest(score=score(**x)) for x in ({}, {"metric": ""}, {}, {"trace_id": "7"})
    ]
    with pytest.raises(FieldError) as caught:
        batch(service, *requests)
    fields = [x.field for x in (caught.value, *caught.value.others)]
    assert fields == ["requests[1].score.metric", "requests[3].score.trace_id"]
    assert not given(store)


def test_a_batch_with_one_request_id_that_is_taken_keeps_nothing(service, store):
    create(service, "once")
    with pytest.raises(ExistsError, match=r"requests\[1\]\.request_id"):
        batch(
            service,
            pb.CreateScoreRequest(score=score(trace_id=f"{2:032x}")),
            pb.CreateScoreRequest(score=score(label="fail"), request_id="once"),
        )
    assert not given(store, 2)


def test_a_batch_that_is_repeated_creates_only_what_is_missing(service):
    first = pb.CreateScoreRequest(score=score(), request_id="a")
    batch(service, first)
    again = batch(service, first, pb.CreateScoreRequest(score=score(label="fail"), request_id="b"))
    assert (again.already_there, len(again.scores)) == (1, 2)


def test_a_batch_under_one_request_id_is_created_once(service, store):
    requests = [pb.CreateScoreRequest(score=score()) for _ in range(2)]
    assert batch(service, *requests, request_id="all").already_there == 0
    assert batch(service, *requests, request_id="all").already_there == 2


def test_a_batch_has_a_thousand_scores_at_most(service):
    with pytest.raises(FieldError, match="requests: has 1001 scores"):
        batch(service, *(pb.CreateScoreRequest(score=score()) for _ in range(1001)))


def update(service, changed, *paths):
    mask = FieldMask(paths=paths) if paths else None
    return ask(service.update_score(pb.UpdateScoreRequest(score=changed, update_mask=mask), CALL))


def test_a_change_changes_the_fields_of_its_mask_alone(service, store):
    created = create(service, reason="why")
    changed = update(
        service, score_pb.Score(name=created.name, label="fail", reason="other"), "label"
    )
    assert (changed.label, changed.reason, changed.revision) == ("fail", "why", 2)
    assert [(x.label, x.passed) for x in given(store)] == [("fail", False)]


def test_without_a_mask_what_is_set_is_changed(service):
    created = create(service, reason="why")
    assert update(service, score_pb.Score(name=created.name, reason="other")).reason == "other"


def test_a_change_keeps_the_time_at_which_the_score_was_given(service):
    created = create(service, evaluated_at_ns=5)
    assert update(service, score_pb.Score(name=created.name, label="fail")).evaluated_at_ns == 5


def test_of_two_who_change_the_same_score_the_second_is_told(service):
    created = create(service)
    first = update(service, score_pb.Score(name=created.name, etag=created.etag, label="fail"))
    with pytest.raises(ConflictError, match="was changed since it was read"):
        update(service, score_pb.Score(name=created.name, etag=created.etag, reason="mine"))
    assert (
        update(service, score_pb.Score(name=created.name, etag=first.etag, reason="mine")).label
        == "fail"
    )


def test_a_list_gives_the_etag_with_which_a_score_is_changed(service, store):
    store.commit([StoredTrace(trace(1), 1, "")], [])
    created = create(service)
    [listed] = ask(
        service.list_scores(pb.ListScoresRequest(trace_id=created.trace_id), CALL)
    ).scores
    assert listed.etag == created.etag


@pytest.mark.parametrize(
    ("changed", "paths", "problem"),
    [
        ({"metric": "other"}, ["metric"], "update_mask: 'metric' cannot be changed"),
        ({}, [], "update_mask: nothing is to be changed"),
        ({"value": 7}, ["value"], "score.value: 7 is off the scale of coherence"),
        ({}, ["label"], "score.value: neither value nor label"),
    ],
)
def test_a_change_that_cannot_be_is_refused(service, changed, paths, problem):
    created = create(service, metric="coherence")
    with pytest.raises(FieldError, match=problem):
        update(service, score_pb.Score(name=created.name, **changed), *paths)


def test_a_score_that_was_deleted_is_gone(service, store):
    created = create(service)
    ask(service.delete_score(pb.DeleteScoreRequest(name=created.name, etag=created.etag), CALL))
    assert not given(store)
    with pytest.raises(NotFoundError, match="there is no score"):
        ask(service.delete_score(pb.DeleteScoreRequest(name=created.name), CALL))
    ask(service.delete_score(pb.DeleteScoreRequest(name=created.name, allow_missing=True), CALL))


def test_a_score_that_somebody_has_changed_is_not_deleted(service, store):
    created = create(service)
    update(service, score_pb.Score(name=created.name, label="fail"))
    with pytest.raises(ConflictError):
        ask(service.delete_score(pb.DeleteScoreRequest(name=created.name, etag=created.etag), CALL))
    assert given(store)


def update_label(service, name, call=CALL):
    return service.update_score(
        pb.UpdateScoreRequest(score=score_pb.Score(name=name, label="fail")), call
    )


def remove(service, name, call=CALL):
    return service.delete_score(pb.DeleteScoreRequest(name=name), call)


@pytest.mark.parametrize("method", [update_label, remove])
def test_what_was_measured_is_not_changed(service, store, method):
    of = measured(trace(1))
    store.commit([StoredTrace(trace(1), 1, "")], [of])
    with pytest.raises(StateError, match="was measured by spanscore"):
        ask(method(service, f"scores/{of.uid}"))


@pytest.mark.parametrize("method", [update_label, remove])
def test_what_another_tenant_has_is_not_found(service, method):
    created = create(service)
    with pytest.raises(NotFoundError):
        ask(method(service, created.name, Call(tenant="other")))


def test_a_score_of_one_tenant_is_not_joined_to_a_trace_of_another(service, store):
    store.commit([StoredTrace(trace(1), 1, "")], [])
    assert create(service, "", Call(tenant="b")).subject_state == score_pb.SUBJECT_STATE_NOT_STORED
    assert not store.external_scores(trace_id=trace(1).id)


def test_a_request_id_that_is_too_long_is_named_where_it_stands(service, store):
    with pytest.raises(FieldError, match=r"requests\[1\].request_id: is longer than 64 characters"):
        batch(
            service,
            pb.CreateScoreRequest(score=score()),
            pb.CreateScoreRequest(score=score(), request_id="x" * 65),
        )
    with pytest.raises(FieldError, match="request_id: is longer than 64 characters"):
        create(service, request_id="x" * 65)
    assert not given(store)


def test_of_many_turns_in_one_trace_only_the_one_that_a_score_is_of_is_read(store, monkeypatch):
    turns = [trace(1, opening=opening) for opening in range(1, 11)]
    store.commit([StoredTrace(x, 1, "") for x in turns], [])
    service = ScoreService(store)
    wanted = score(trace_id=f"{1:032x}", span_id=f"{3:016x}")
    ask(service.create_score(pb.CreateScoreRequest(score=wanted), CALL))  # what is narrow is kept
    read = []
    decode = records.decode_trace
    monkeypatch.setattr(records, "decode_trace", lambda x: read.append(x) or decode(x))
    for named in (wanted, score(trace_id=turns[4].id)):
        ask(service.create_score(pb.CreateScoreRequest(score=named), CALL))
    assert len(read) == 2
