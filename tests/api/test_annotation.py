"""The queue for people who label, as the API has it."""

import asyncio

import pytest

from spanscore.api.annotation import AnnotationService
from spanscore.api.scores import ScoreService
from spanscore.api.servicer import Call
from spanscore.api.v1 import (
    annotation_service_pb2 as pb,
    score_pb2 as score_pb,
    score_service_pb2 as score_service_pb,
)
from spanscore.errors import FieldError, NotFoundError
from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.model.trace import AgentTrace, Target
from spanscore.store.config import Config
from spanscore.store.store import Store, StoredTrace

CALL = Call()
COUNT = 5


def trace(number):
    target = Target(f"{number:032x}", f"{number:016x}", 1, 2)
    return AgentTrace(
        trace_ids=(target.trace_id,),
        root_span_id=target.span_id,
        target=target,
        opening_span_id=target.span_id,
        started_ns=1,
        ended_ns=2,
    )


def judged(of, value):
    return Evaluation(
        scope="trace",
        subject_id=of.id,
        metric="coherence",
        outcome=Score(value, ""),
        threshold=0.5,
        scale=(0.0, 1.0),
        evaluator=Evaluator("LLM", "spanscore", "1"),
        target=of.target,
        session_id=None,
    )


@pytest.fixture
def store(tmp_path):
    opened = Store.open(Config(url=f"sqlite:///{tmp_path}/store.db"))
    traces = [trace(number) for number in range(1, COUNT + 1)]
    opened.commit(
        [StoredTrace(x, 1, "") for x in traces],
        [judged(x, n / COUNT) for n, x in enumerate(traces)],
    )
    yield opened
    opened.close()


@pytest.fixture
def service(store):
    return AnnotationService(store)


def queue(**facts):
    return pb.AnnotationQueue(**{"metric": "coherence", "author": "ada", **facts})


def listed(service, call=CALL, **request):
    return asyncio.run(
        service.list_annotation_items(pb.ListAnnotationItemsRequest(**request), call)
    )


def leased(service, call=CALL, **request):
    return asyncio.run(
        service.lease_annotation_items(pb.LeaseAnnotationItemsRequest(**request), call)
    ).items


def released(service, **request):
    return asyncio.run(
        service.release_annotation_item(pb.ReleaseAnnotationItemRequest(**request), CALL)
    )


def test_the_pages_have_each_item_once(service):
    found, token = [], ""
    for _ in range(COUNT):
        page = listed(service, queue=queue(), page_size=2, page_token=token)
        found += [x.subject_id for x in page.items]
        token = page.next_page_token
        if not token:
            break
    assert sorted(found) == sorted(trace(x).id for x in range(1, COUNT + 1))


def test_an_item_names_its_trace_and_has_the_judges_score_and_why_it_comes(service):
    wanted = queue(strategy=pb.ANNOTATION_STRATEGY_UNCERTAIN)
    [item] = listed(service, queue=wanted, page_size=1).items
    assert (item.subject, item.scope) == (f"traces/{item.subject_id}", score_pb.SCOPE_TRACE)
    assert (item.score.value, item.leased_until_ns) == (0.4, 0)
    assert item.reasons == ["the judge's score 0.4 is 0.1 from the threshold 0.5"]


def test_an_item_that_is_labelled_by_its_id_does_not_come_again(service, store):
    [item] = leased(service, queue=queue())
    label = score_pb.Score(
        trace_id=item.subject_id,
        metric="coherence",
        label="pass",
        evaluator={"source": "human", "author": "ada"},
    )
    created = ScoreService(store).create_score(
        score_service_pb.CreateScoreRequest(score=label), CALL
    )
    assert asyncio.run(created).subject_state == score_pb.SUBJECT_STATE_STORED
    assert item.subject_id not in {x.subject_id for x in listed(service, queue=queue()).items}


def test_a_lease_says_until_when(service):
    [item] = leased(service, queue=queue(), lease_s=60)
    assert item.leased_until_ns > 0


def test_another_tenant_gets_nothing(service):
    assert not leased(service, Call(tenant="acme"), queue=queue(), max_items=10)


def test_a_page_token_of_another_queue_is_refused(service):
    token = listed(service, queue=queue(), page_size=1).next_page_token
    with pytest.raises(FieldError, match="page_token"):
        listed(service, queue=queue(seed=7), page_token=token)


def test_what_is_not_leased_to_an_author_cannot_be_given_back(service):
    [item] = leased(service, queue=queue())
    with pytest.raises(NotFoundError, match="is not leased to 'bob'"):
        released(service, queue=queue(author="bob"), scope=item.scope, subject_id=item.subject_id)
    released(service, queue=queue(), scope=item.scope, subject_id=item.subject_id)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ({"metric": ""}, "queue.metric"),
        ({"author": " "}, "queue.author"),
        ({"author": "x" * 257}, "queue.author"),
        ({"strategy": 7}, "queue.strategy"),
        ({"threshold": float("nan")}, "queue.threshold"),
        ({"against": ["x"] * 21}, "queue.against"),
        ({"against": [""]}, "queue.against"),
        ({"labels_wanted": -1}, "queue.labels_wanted"),
    ],
)
def test_a_wrong_field_is_named(service, facts, field):
    with pytest.raises(FieldError) as caught:
        listed(service, queue=queue(**facts))
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("facts", "field"), [({"max_items": 101}, "max_items"), ({"lease_s": -1}, "lease_s")]
)
def test_a_lease_is_bounded(service, facts, field):
    with pytest.raises(FieldError) as caught:
        leased(service, queue=queue(), **facts)
    assert caught.value.field == field


def test_a_metric_that_has_no_scores_has_no_items(service):
    assert not listed(service, queue=queue(metric="confidence")).items
