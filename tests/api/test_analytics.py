"""AnalyticsService's messages: what is asked, and what is answered."""

import asyncio

import pytest

from spanscore.api import analytics
from spanscore.api.analytics import AnalyticsService
from spanscore.api.servicer import Call
from spanscore.api.v1 import analytics_service_pb2 as pb, score_pb2 as score_pb
from spanscore.calibration import Calibration
from spanscore.errors import FieldError, InputError, NotFoundError
from spanscore.model.score import Evaluation, Evaluator, Score, Skip
from spanscore.model.trace import AgentTrace, Target
from spanscore.stats import Confusion
from spanscore.store import calibrations
from spanscore.store.config import Config
from spanscore.store.store import Store, StoredTrace

DAY_NS = 86_400 * 10**9
JUDGE = Evaluator("LLM", "judged", "1", model="judge-1", prompt_hash="abc")
CALIBRATED = ("judged", "judged", "1", "judge-1", "abc", None, 0.5)


def score_of(number, outcome, **facts):
    target = Target(
        f"{number:032x}",
        f"{number:016x}",
        DAY_NS * number,
        DAY_NS * number + 1,
        {"service.name": "shop"},
    )
    trace = AgentTrace(
        trace_ids=(target.trace_id,),
        root_span_id=target.span_id,
        target=target,
        opening_span_id=target.span_id,
        started_ns=target.start_ns,
        ended_ns=target.end_ns,
    )
    evaluation = Evaluation(
        scope="trace",
        subject_id=trace.id,
        metric="judged",
        outcome=outcome,
        threshold=0.5,
        scale=(0.0, 1.0),
        evaluator=JUDGE,
        target=target,
        session_id=None,
        service_name="shop",
        evaluated_at_ns=target.end_ns,
        **facts,
    )
    return trace, evaluation


@pytest.fixture
def config(tmp_path):
    return Config(url=f"sqlite:///{tmp_path}/spanscore.db")


@pytest.fixture
def store(config):
    """Ten turns, one a day: of nine scores six pass, one was skipped."""
    store = Store.open(config)
    outcomes = [
        *(Score(x, "") for x in (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.1, 0.0)),
        Skip("spent", "budget"),
    ]
    made = [score_of(number, outcome) for number, outcome in enumerate(outcomes, 1)]
    store.commit(
        [StoredTrace(trace, 1, "digest") for trace, _ in made], [score for _, score in made]
    )
    yield store
    store.close()


def ask(store, method, request, tenant=""):
    return asyncio.run(getattr(AnalyticsService(store), method)(request, Call(tenant)))


def test_a_summary_has_what_each_figure_rests_on(store):
    [found] = ask(
        store, "summarize_scores", pb.SummarizeScoresRequest(group_by=["service"])
    ).summaries
    assert (found.metric, found.scope, found.source) == (
        "judged",
        score_pb.SCOPE_TRACE,
        "spanscore",
    )
    assert [(x.name, x.value) for x in found.groups] == [("service", "shop")]
    assert (found.scores, found.subjects, found.sessions, found.least_sampling) == (9, 9, 9, 1.0)
    assert found.mean.value == pytest.approx(5 / 9)
    assert (found.low, found.high) == (0.0, 1.0)
    assert (found.pass_rate.value, found.pass_rate.scores) == (pytest.approx(6 / 9), 9)
    assert found.pass_rate.low < 6 / 9 < found.pass_rate.high
    assert [(x.status, x.cause, x.count) for x in found.missing] == [
        (score_pb.STATUS_SKIPPED, "budget", 1)
    ]
    assert not found.HasField("corrected_pass_rate")


def test_a_trend_has_a_point_for_each_day(store):
    [found] = ask(store, "query_score_trend", pb.QueryScoreTrendRequest()).trends
    assert [x.start_ns for x in found.points] == [DAY_NS * x for x in range(1, 11)]
    assert [x.summary.scores for x in found.points] == [1] * 9 + [0]
    first = found.points[0].summary.mean
    assert (first.value, first.HasField("low")) == (1.0, False)
    assert (
        first.note
        == "all scores are of one session: how sessions differ cannot be seen, so there is no"
        " interval"
    )


def test_a_pass_rate_is_corrected_where_its_judge_was_calibrated(store, config):
    kept = Calibration(CALIBRATED, Confusion(45, 5, 10, 40), 10**18)
    calibrations.keep(config, {kept.key: kept.to_json()}, 1)
    [found] = ask(store, "summarize_scores", pb.SummarizeScoresRequest()).summaries
    corrected = found.corrected_pass_rate
    assert corrected.value == pytest.approx((6 / 9 + 0.8 - 1) / (0.9 + 0.8 - 1))
    assert corrected.low < corrected.value < corrected.high
    assert corrected.note == "calibration of 2001-09-09 on 100 labels"
    assert found.pass_rate.value == pytest.approx(6 / 9)


@pytest.mark.slow
def test_a_difference_is_corrected_where_the_judge_was_calibrated(store, config):
    kept = Calibration(CALIBRATED, Confusion(450, 50, 100, 400), 10**18)
    calibrations.keep(config, {kept.key: kept.to_json()}, 1)
    sides = {
        "before": pb.ScoreSelection(end_ns=6 * DAY_NS),
        "after": pb.ScoreSelection(start_ns=6 * DAY_NS),
    }
    [found] = ask(store, "compare_scores", pb.CompareScoresRequest(**sides)).comparisons
    judged, corrected = found.pass_rate_difference, found.corrected_pass_rate_difference
    assert corrected.value == pytest.approx(max(-1.0, judged.value / (0.9 + 0.8 - 1)))
    assert -1 <= corrected.low <= corrected.value <= corrected.high <= 1
    assert corrected.note.startswith("calibration of 2001-09-09 on 1000 labels")


def test_without_a_calibration_a_difference_is_as_it_was_judged(store):
    sides = {
        "before": pb.ScoreSelection(end_ns=6 * DAY_NS),
        "after": pb.ScoreSelection(start_ns=6 * DAY_NS),
    }
    [found] = ask(store, "compare_scores", pb.CompareScoresRequest(**sides)).comparisons
    assert not found.HasField("corrected_pass_rate_difference")


def test_a_calibration_of_another_judge_corrects_nothing_and_is_named(store, config):
    kept = Calibration(
        (*CALIBRATED[:3], "judge-2", *CALIBRATED[4:]), Confusion(45, 5, 10, 40), 10**18
    )
    calibrations.keep(config, {kept.key: kept.to_json()}, 1)
    [found] = ask(store, "summarize_scores", pb.SummarizeScoresRequest()).summaries
    assert not found.corrected_pass_rate.HasField("value")
    assert (
        found.corrected_pass_rate.note
        == "not corrected: the calibration of 2001-09-09 is of another model"
    )


def test_the_calibration_of_another_tenant_corrects_nothing(store):
    kept = Calibration(CALIBRATED, Confusion(45, 5, 10, 40), 10**18)
    store.labels.keep("acme", {kept.key: kept.to_json()}, 1)
    [found] = ask(store, "summarize_scores", pb.SummarizeScoresRequest()).summaries
    assert (found.corrected_pass_rate.HasField("value"), found.corrected_pass_rate.note) == (
        False,
        "",
    )


def test_a_distribution_has_bins_labels_and_quantiles(store):
    request = pb.QueryScoreDistributionRequest(bins=2, quantiles=[0.5])
    [found] = ask(store, "query_score_distribution", request).distributions
    assert [(x.low, x.high, x.scores) for x in found.bins] == [(0.0, 0.5, 3), (0.5, 1.0, 6)]
    assert {x.label: x.scores for x in found.labels} == {"pass": 6, "fail": 3}
    [median] = found.quantiles
    assert (median.share, median.value.value) == (0.5, 0.6)
    assert median.value.low < 0.6 < median.value.high


def test_two_periods_are_compared(store):
    middle = DAY_NS * 6
    request = pb.CompareScoresRequest(before={"end_ns": middle}, after={"start_ns": middle})
    [found] = ask(store, "compare_scores", request).comparisons
    assert (found.before.scores, found.after.scores, found.shared_sessions) == (5, 4, 0)
    assert found.mean_difference.value == pytest.approx(0.25 - 0.8)
    assert found.pass_rate_difference.low < 1 / 4 - 1 == found.pass_rate_difference.value


def test_sessions_have_pages_and_are_named(store):
    first = ask(store, "rank_sessions", pb.RankSessionsRequest(page_size=2))
    assert [(x.failing, x.fail_rate, x.mean, x.service_name) for x in first.sessions] == [
        (1, 1.0, 0.0, "shop"),
        (1, 1.0, 0.1, "shop"),
    ]
    assert all(
        x.name.startswith("traces/") and not x.HasField("session_id") for x in first.sessions
    )
    found = list(first.sessions)
    while first.next_page_token:
        first = ask(
            store,
            "rank_sessions",
            pb.RankSessionsRequest(page_size=2, page_token=first.next_page_token),
        )
        found += first.sessions
    assert len({x.name for x in found}) == len(found) == 9


def test_a_history_names_its_scores(store):
    trace, score = score_of(1, None)
    request = pb.ListScoreHistoryRequest(metric="judged", trace_id=trace.id)
    [found] = ask(store, "list_score_history", request).scores
    assert (found.metric, found.value) == (score.metric, 1.0)
    with pytest.raises(NotFoundError, match="'other' has no score of"):
        ask(
            store,
            "list_score_history",
            pb.ListScoreHistoryRequest(metric="other", trace_id=trace.id),
        )
    with pytest.raises(NotFoundError):
        ask(store, "list_score_history", request, "acme")
    for request in (
        pb.ListScoreHistoryRequest(metric="judged"),
        pb.ListScoreHistoryRequest(trace_id=trace.id),
    ):
        with pytest.raises(FieldError, match="is empty"):
            ask(store, "list_score_history", request)


def test_another_tenant_has_no_figures(store):
    assert not ask(store, "summarize_scores", pb.SummarizeScoresRequest(), "acme").summaries
    assert not ask(store, "query_score_trend", pb.QueryScoreTrendRequest(), "acme").trends
    assert not ask(
        store, "query_score_distribution", pb.QueryScoreDistributionRequest(), "acme"
    ).distributions
    assert not ask(store, "compare_scores", pb.CompareScoresRequest(), "acme").comparisons
    assert not ask(store, "rank_sessions", pb.RankSessionsRequest(), "acme").sessions


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.SummarizeScoresRequest(level=1), "level"),
        (pb.SummarizeScoresRequest(level=float("nan")), "level"),
        (pb.SummarizeScoresRequest(group_by=["colour"]), "group_by"),
        (pb.SummarizeScoresRequest(selection={"filter": "metric ="}), "filter"),
        (pb.SummarizeScoresRequest(selection={"run": "a"}), "selection.run"),
        (pb.SummarizeScoresRequest(selection={"start_ns": 2**63}), "selection.start_ns"),
        (pb.SummarizeScoresRequest(selection={"start_ns": 5, "end_ns": 5}), "end_ns"),
    ],
)
def test_what_is_wrong_is_named_by_its_field(store, request_, field):
    with pytest.raises(FieldError) as raised:
        ask(store, "summarize_scores", request_)
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.QueryScoreTrendRequest(unit=99), "unit"),
        (pb.QueryScoreTrendRequest(time_zone="Nowhere"), "time_zone"),
        (
            pb.QueryScoreTrendRequest(
                unit="TIME_UNIT_HOUR", selection={"start_ns": 0, "end_ns": 2**62}
            ),
            "unit",
        ),
    ],
)
def test_what_is_wrong_with_a_trend_is_named_by_its_field(store, request_, field):
    with pytest.raises(FieldError) as raised:
        ask(store, "query_score_trend", request_)
    assert raised.value.field == field


def test_an_answer_that_no_client_would_read_is_refused(store, monkeypatch):
    monkeypatch.setattr(analytics, "MAX_ANSWER_BYTES", 10)
    with pytest.raises(InputError, match="more than a client reads: ask for fewer metrics or"):
        ask(store, "summarize_scores", pb.SummarizeScoresRequest())


def test_few_questions_are_worked_on_at_once(store, monkeypatch):
    counts = [0]

    async def in_turn(read, ask):
        counts.append(counts[-1] + 1)
        await asyncio.sleep(0)
        counts.append(counts[-1] - 1)
        return read(ask)

    async def ask_often():
        service = AnalyticsService(store)
        await asyncio.gather(
            *(service.summarize_scores(pb.SummarizeScoresRequest(), Call("")) for _ in range(15))
        )

    monkeypatch.setattr(analytics, "in_thread", in_turn)
    asyncio.run(ask_often())
    assert max(counts) == 2
