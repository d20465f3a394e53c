"""How far a judge agrees with the labels that are stored, and the calibration that is kept of
them.
"""

import asyncio
import json

import pytest

from spanscore import calibration
from spanscore.api.annotation import AnnotationService
from spanscore.api.scores import ScoreService
from spanscore.api.servicer import Call
from spanscore.api.v1 import (
    annotation_service_pb2 as pb,
    score_pb2 as score_pb,
    score_service_pb2 as score_service_pb,
)
from spanscore.calibration import Verdict
from spanscore.errors import FieldError, StateError
from spanscore.judge.config import Certificate
from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.model.trace import AgentTrace, Target
from spanscore.store import calibrations
from spanscore.store.config import Config
from spanscore.store.store import Store, StoredTrace

CALL = Call()
COUNT = 30
LENIENT = 20
"""So many of the first traces the judge passes; people pass every other one."""


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


def judged(number, **facts):
    of = trace(number)
    defaults = {
        "scope": "trace",
        "subject_id": of.id,
        "metric": "coherence",
        "outcome": Score(0.9 if number <= LENIENT else 0.1, ""),
        "threshold": 0.5,
        "scale": (0.0, 1.0),
        "evaluator": Evaluator("LLM", "spanscore", "1", model="m"),
        "target": of.target,
        "session_id": None,
    }
    return Evaluation(**{**defaults, **facts})


NUMBERS = range(1, COUNT + 1)


@pytest.fixture
def config(database_url):
    return Config(url=database_url)


@pytest.fixture
def store(config):
    opened = Store.open(config)
    opened.commit([StoredTrace(trace(x), 1, "") for x in NUMBERS], [judged(x) for x in NUMBERS])
    yield opened
    opened.close()


@pytest.fixture
def service(store):
    store.required_of_judges = None
    return AnnotationService(store)


def ask(coroutine):
    return asyncio.run(coroutine)


def label(store, number, author="ada", metric="coherence", call=CALL, **facts):
    words = {} if facts else {"label": "pass" if number % 2 else "fail"}
    by = {"source": "human", "author": author}
    score = score_pb.Score(trace_id=trace(number).id, metric=metric, evaluator=by, **words, **facts)
    ask(ScoreService(store).create_score(score_service_pb.CreateScoreRequest(score=score), call))


def agreement(service, call=CALL, metric="coherence", **request):
    return ask(service.get_agreement(pb.GetAgreementRequest(metric=metric, **request), call))


def lease(service, count):
    request = pb.LeaseAnnotationItemsRequest(
        queue=pb.AnnotationQueue(metric="coherence", author="ada"), max_items=count
    )
    found = ask(service.lease_annotation_items(request, CALL)).items
    ids = {trace(x).id: x for x in NUMBERS}
    return [ids[x.subject_id] for x in found]


def cells(table):
    return table.true_pass, table.false_fail, table.false_pass, table.true_fail


@pytest.mark.slow
def test_all_labels_are_counted_beside_the_judges_verdicts(service, store):
    for number in NUMBERS:
        label(store, number)
    [judge] = agreement(service).judges
    assert cells(judge.all) == (10, 5, 10, 5)
    assert (judge.model, judge.threshold, judge.HasField("at_random")) == ("m", 0.5, False)


@pytest.mark.slow
def test_measures_have_intervals(service, store):
    for number in NUMBERS:
        label(store, number)
    measures = {x.name: x for x in agreement(service).judges[0].all.measures}
    assert measures["agreement"].value == 0.5
    assert measures["agreement"].low < 0.5 < measures["agreement"].high
    assert measures["agreement"].n == COUNT
    assert measures["Cohen's kappa"].value == pytest.approx(0.0)


@pytest.mark.slow
def test_only_labels_of_the_random_order_are_counted_as_drawn_at_random(service, store):
    drawn = lease(service, 10)
    others = [x for x in NUMBERS if x not in drawn]
    for number in [*drawn, *others[:5]]:
        label(store, number)
    [judge] = agreement(service).judges
    assert (sum(cells(judge.at_random)), sum(cells(judge.all))) == (10, 15)


@pytest.mark.slow
def test_what_was_labelled_before_the_random_order_reached_it_is_of_the_sample(service, store):
    for number in range(1, 6):
        label(store, number)
    assert not agreement(service).judges[0].HasField("at_random")
    for number in lease(service, 100):
        label(store, number)
    assert sum(cells(agreement(service).judges[0].at_random)) == COUNT


@pytest.mark.slow
def test_agreement_is_shown_as_the_labels_grew(service, store):
    for place, number in enumerate(lease(service, 10)):
        label(store, number, evaluated_at_ns=1000 + place, label="pass")
    points = agreement(service).judges[0].history
    assert [x.n for x in points] == list(range(1, 11))
    assert [x.labelled_ns for x in points] == list(range(1000, 1010))
    assert points[-1].agreement.n == 10


@pytest.mark.slow
def test_of_many_labels_twenty_points_are_shown_the_last_of_them_after_all(service, store):
    for place, number in enumerate(lease(service, COUNT)):
        label(store, number, evaluated_at_ns=1000 + place, label="pass")
    points = agreement(service).judges[0].history
    assert (len(points), points[-1].n, points[-1].labelled_ns) == (20, COUNT, 1000 + COUNT - 1)


def test_several_people_count_by_their_majority_and_agree_with_each_other(service, store):
    for author in ("ada", "bob", "eve"):
        label(store, 1, author, label="fail" if author == "eve" else "pass")
    [judge] = agreement(service).judges
    assert cells(judge.all) == (1, 0, 0, 0)
    assert {"agreement of ada and bob", "kappa of ada and eve"} <= {
        x.name for x in judge.all.measures
    }


def test_a_grade_on_the_metrics_scale_passes_from_the_judges_threshold(service, store):
    label(store, 1, value=0.6)
    label(store, 2, value=0.4)
    assert cells(agreement(service).judges[0].all) == (1, 0, 1, 0)


def test_numbers_under_another_name_pass_from_a_value(service, store):
    label(store, 1, metric="stars", value=5)
    assert agreement(service, label="stars").without_verdict == 1
    assert cells(agreement(service, label="stars", pass_from=4).judges[0].all) == (1, 0, 0, 0)


def test_labels_of_what_was_not_scored_are_counted(service, store):
    label(store, COUNT + 7)
    assert agreement(service).of_nothing_scored == 1


def test_another_judge_is_another_row(service, store):
    store.commit(
        [], [judged(1, evaluator=Evaluator("LLM", "spanscore", "1", model="other"), revision=2)]
    )
    for number in (1, 2):
        label(store, number)
    assert sorted(x.model for x in agreement(service).judges) == ["m", "other"]


def test_without_labels_there_is_nothing(service):
    assert not agreement(service).judges


def test_one_tenant_does_not_see_the_labels_of_another(service, store):
    label(store, 1)
    assert agreement(service, Call(tenant="acme")) == pb.Agreement()


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"metric": ""}, "metric"),
        ({"level": 1.0}, "level"),
        ({"pass_from": float("inf")}, "pass_from"),
    ],
)
def test_a_wrong_field_is_named(service, request_, field):
    with pytest.raises(FieldError) as caught:
        agreement(service, **request_)
    assert caught.value.field == field


def calibrate(service, call=CALL, **request):
    return ask(
        service.calibrate_judge(pb.CalibrateJudgeRequest(metric="coherence", **request), call)
    )


@pytest.mark.slow
def test_what_is_kept_is_what_calibrating_by_a_file_of_the_same_labels_gives(
    service, store, config, tmp_path
):
    for number in NUMBERS:
        label(store, number)
    calibrate(service, all_labels=True)
    [(_, kept, _)] = calibrations.kept(config)
    file = tmp_path / "labels.jsonl"
    lines = [
        {
            "trace_id": trace(x).trace_ids[0],
            "metric": "coherence",
            "label": "pass" if x % 2 else "fail",
            "annotator": "ada",
        }
        for x in NUMBERS
    ]
    file.write_text("".join(json.dumps(x) + "\n" for x in lines))
    verdicts = [x for number in NUMBERS if (x := Verdict.of(judged(number)))]
    [matched] = calibration.match(file, calibration.read_labels(file), verdicts, ())
    of_file = calibration.calibration(matched, kept["made_at_ns"]).to_json()
    for sides in (kept, of_file):
        sides["passing"], sides["failing"] = sorted(sides["passing"]), sorted(sides["failing"])
    assert kept == of_file


@pytest.mark.slow
def test_it_rests_on_the_random_sample_unless_all_labels_are_asked_for(service, store, config):
    drawn = lease(service, 10)
    for number in (*drawn, next(x for x in NUMBERS if x not in drawn)):
        label(store, number)
    shown = calibrate(service).judges
    [(_, kept, _)] = calibrations.kept(config)
    assert (sum(cells(shown[0].at_random)), sum(kept["confusion"].values())) == (10, 10)


@pytest.mark.parametrize(("min_labels", "has_one"), [(10, True), (11, False)])
def test_enough_labels_earn_a_certificate_where_one_is_required(
    service, store, config, min_labels, has_one
):
    store.required_of_judges = Certificate(min_labels=min_labels)
    for number in lease(service, 10):
        label(store, number)
    calibrate(service)
    [(_, kept, _)] = calibrations.kept(config)
    assert (kept["certificate"] is not None) is has_one


def test_without_labels_nothing_is_kept(service, store, config):
    label(store, 1)
    with pytest.raises(
        StateError,
        match="no label of the random order is stored of what 'coherence' passes or fails",
    ):
        calibrate(service)
    assert calibrations.kept(config) == []
