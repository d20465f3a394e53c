"""What a run's scores add up to, without keeping them."""

import random
from dataclasses import replace

import pytest

from spanscore.calibration import Verdict, estimated, pass_rates
from spanscore.model.score import Evaluation, Evaluator, Failure, JudgeUsage, Score, Skip
from spanscore.model.trace import Target
from spanscore.offline.summary import RunSummary, summaries


def evaluation(number, outcome, **facts):
    made = Evaluation(
        scope="trace",
        subject_id=str(number),
        metric="confidence",
        outcome=outcome,
        threshold=0.5,
        scale=(0, 1),
        evaluator=Evaluator("CODE", "confidence", "1"),
        target=Target(f"{number:032x}", f"{number:016x}", 0, 1),
        session_id=None,
    )
    return replace(made, **facts)


def drawn(kind, count=60):
    """Scores of a run: sessions of several turns, unequal shares, or pass and fail alone."""
    random_ = random.Random(kind)
    for number in range(count):
        value = random_.random() if kind != "verdicts" else float(random_.random() < 0.7)
        yield evaluation(
            number,
            Score(value, ""),
            session_id=f"s{number // 3}" if kind == "sessions" else None,
            sampling=random_.choice([0.1, 0.5]) if kind == "weighted" else 1.0,
        )


@pytest.mark.parametrize("kind", ["values", "sessions", "weighted", "verdicts"])
def test_figures_are_those_of_all_scores_at_once(kind):
    evaluations = [*drawn(kind), evaluation(90, Skip("none")), evaluation(91, Failure("E", "no"))]
    [found] = summaries(evaluations)
    verdicts = [verdict for x in evaluations if (verdict := Verdict.of(x)) is not None]
    mean = estimated([x.value for x in verdicts], verdicts, 0.95, (0, 1))
    [rate] = pass_rates(verdicts, ())
    for ours, theirs in ((found.mean, mean), (found.pass_rate, rate.judged)):
        assert (ours.n, ours.method) == (theirs.n, theirs.method)
        limits = [[x.value, x.interval.low, x.interval.high, x.effective_n] for x in (ours, theirs)]
        assert limits[0] == pytest.approx(limits[1])
    passed = sum(x.passed is True for x in verdicts)
    assert (found.scored, found.passed, found.failing) == (60, passed, 60 - passed)
    assert (found.skipped, found.failed) == (1, 1)


def test_a_session_that_makes_an_interval_wide_is_named():
    turns = [0] * 20 + [x // 2 for x in range(2, 42)]
    found = RunSummary.of(
        evaluation(n, Score(n % 4 / 4, ""), session_id=f"s{x}") for n, x in enumerate(turns)
    )
    assert found.mean("confidence").note == "session s0 has 33.3 % of the scores"


def test_a_metric_without_a_score_has_no_mean():
    found = RunSummary.of([evaluation(1, Skip("none"))])
    assert (found.mean("confidence"), found.pass_rate("confidence")) == (None, None)


def test_a_metric_that_nobody_measured_has_no_mean():
    assert RunSummary().mean("confidence") is None


def test_what_was_not_scored_for_the_same_reason_is_one():
    found = RunSummary.of([evaluation(x, Skip("none", "no_judge")) for x in range(1000)])
    assert [x.count for x in found.outcomes] == [1000]


@pytest.mark.slow
def test_of_many_different_failures_some_are_told_apart():
    found = RunSummary.of([evaluation(x, Failure("E", str(x))) for x in range(11_000)])
    assert (len(found.outcomes), sum(x.count for x in found.outcomes)) == (10_001, 11_000)


def test_the_usage_of_all_is_added_up():
    usage = JudgeUsage(calls=1, input_tokens=10)
    found = RunSummary.of([evaluation(x, Score(0.5, ""), usage=usage) for x in range(3)])
    assert (found.usage.calls, found.usage.input_tokens) == (3, 30)


def test_verdicts_come_back_as_they_were():
    evaluations = list(drawn("sessions"))
    [first, *rest] = RunSummary.of(evaluations).verdicts({"confidence"})
    assert (first.session_id, first.aliases, first.value) == ("s0", ("0",), evaluations[0].value)
    assert len(rest) == 59
