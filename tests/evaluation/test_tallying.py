"""In which order scores matter, and how all of a trace came out."""

from itertools import permutations

from spanscore.evaluation.outcomes import tallied
from spanscore.model.score import Evaluation, Evaluator, Failure, Score, Skip
from spanscore.model.trace import Target

LABELS = {"fail": 0.0, "pass": 1.0}


def made(metric, how="pass", scope="trace", subject="t", reason="", **facts):
    outcomes = {
        "error": Failure("JudgeTimeoutError", "no answer"),
        "skip": Skip("no plan", "not_applicable"),
        "groundless": Skip("nothing to rest on", "no_signals"),
        "plain": Score(0.5, ""),
    }
    threshold = None if how == "plain" else 0.5
    return Evaluation(
        scope=scope,
        subject_id=subject,
        metric=metric,
        outcome=outcomes.get(how) or Score(LABELS[how], reason),
        threshold=threshold,
        scale=(0.0, 1.0),
        evaluator=Evaluator("CODE", "x", "1"),
        target=Target("0a" * 16, "0b" * 8, 0, 10),
        session_id="s",
        **facts,
    )


def order(*evaluations, weights=()):
    found = tallied(evaluations, (), dict(weights), run="trace")
    assert [x.rank for x in found] == list(range(len(found)))
    return [x.metric for x in found]


def test_what_failed_is_first_then_errors_then_what_has_no_verdict_then_passes_then_skips():
    kinds = ["fail", "error", "plain", "pass", "skip"]
    for some in permutations(kinds):
        assert order(*(made(x, x) for x in some)) == kinds


def test_among_those_alike_the_weightier_is_first():
    assert order(made("a", "fail"), made("b", "fail"), weights={"a": 0.5}) == ["b", "a"]


def test_of_the_same_weight_they_stay_in_the_order_in_which_they_are_configured():
    assert order(made("task_completion"), made("coherence")) == ["task_completion", "coherence"]


def test_the_first_has_the_tally_of_all_and_no_other_has_one():
    first, *others = tallied(
        [made("a"), made("b", "fail"), made("c", "error")], (), {}, run="trace"
    )
    assert [x.metric for x in first.tally.results] == ["b", "c", "a"]
    assert [x.tally for x in others] == [None, None]


def test_what_did_not_apply_is_not_counted():
    first, _ = tallied([made("a"), made("b", "skip")], (), {}, run="trace")
    assert [x.metric for x in first.tally.results] == ["a"]


def test_where_nothing_was_measured_there_is_no_tally():
    assert [x.tally for x in tallied([made("a", "skip")], (), {}, run="trace")] == [None]


def test_what_is_scored_again_alone_is_counted_with_what_stands():
    before = tallied([made("a", "fail"), made("b", "error")], (), {}, run="trace")
    (again,) = tallied([made("b", revision=2)], before, {}, run="trace")
    assert [(x.metric, x.label) for x in again.tally.results] == [("a", "fail"), ("b", "pass")]


def test_a_tally_that_a_sessions_run_adds_to_is_of_the_same_revision():
    before = tallied([made("a")], (), {}, run="trace")
    (added,) = tallied([made("b", "fail")], before, {}, run="session")
    (revised,) = tallied([made("a", "fail", revision=2)], before, {}, run="trace")
    assert (added.tally.same_revision, revised.tally.same_revision) == (True, False)


def test_a_later_tally_names_the_one_before_it_and_what_failed_in_it():
    before = tallied([made("a", "fail")], (), {}, run="trace")
    (again,) = tallied([made("a", revision=2)], before, {}, run="trace")
    assert (again.tally.supersedes, again.tally.label_before) == (before[0].tally_uid, "fail")


def test_each_subject_has_a_tally_of_its_own():
    found = tallied([made("a", subject="t1"), made("a", subject="t2")], (), {}, run="trace")
    assert [(x.subject_id, x.rank, len(x.tally.results)) for x in found] == [
        ("t1", 0, 1),
        ("t2", 0, 1),
    ]


def test_a_metric_of_a_trace_that_a_session_measures_counts_and_is_news_where_it_failed():
    before = tallied([made("a")], (), {}, run="trace")
    session = made("reliability", scope="session", subject="s")
    for how, names in (("pass", ["a", "loops"]), ("fail", ["loops", "a"])):
        found = tallied([made("loops", how), session], before, {}, run="session")
        tally = next(x for x in found if x.scope == "trace").tally
        assert ([x.metric for x in tally.results], tally.is_news) == (names, how == "fail")


def test_a_tally_takes_the_place_of_the_last_that_was_news():
    before = tallied([made("a")], (), {}, run="trace")
    added = tallied([made("loops")], before, {}, run="session")
    (again,) = tallied([made("a", "fail", revision=2)], [*before, *added], {}, run="trace")
    assert again.tally.supersedes == before[0].tally_uid


def test_a_tally_has_the_reason_of_the_first_that_failed_also_of_one_scored_before():
    before = tallied([made("a", "fail", reason="no flight"), made("b")], (), {}, run="trace")
    (again,) = tallied([made("b", "fail", reason="late", revision=2)], before, {}, run="trace")
    assert (before[0].tally.reason, again.tally.reason) == ("no flight", "no flight")


def test_a_session_that_rests_on_no_signal_is_no_verdict():
    (found,) = tallied(
        [made("a", "groundless", scope="session", subject="s")], (), {}, run="session"
    )
    assert found.tally is None
