"""What `eval` keeps of scores for its summary: little, however many there are."""

from spanscore.cli.score_stream import Kept
from spanscore.model.record import changed
from spanscore.model.score import Evaluation, Evaluator, Failure, JudgeUsage, Score, Skip


def evaluation(make_trace, number, outcome, **fields):
    trace = make_trace(number)
    given = {
        "scope": "trace",
        "subject_id": trace.id,
        "metric": "coherence",
        "outcome": outcome,
        "threshold": 0.5,
        "scale": (0.0, 1.0),
        "evaluator": Evaluator("CODE", "coherence", "1"),
        "target": trace.target,
        "session_id": None,
    }
    return Evaluation(**(given | fields))


def kept(evaluations):
    made = Kept()
    made.add(evaluations)
    return made.evaluations


def objects(evaluations):
    return len({id(x) for x in kept(evaluations)})


def test_what_was_skipped_for_one_cause_is_kept_once_and_counted_each_time(make_trace):
    skipped = [evaluation(make_trace, x, Skip(f"trace {x}")) for x in range(100)]
    assert len(kept(skipped)) == len(skipped)
    assert objects(skipped) == 1


def test_failures_are_kept_once_for_each_reason(make_trace):
    failed = [evaluation(make_trace, x, Failure("OSError", f"{x % 3}")) for x in range(100)]
    assert sorted({x.reason for x in kept(failed)}) == sorted({x.reason for x in failed})
    assert objects(failed) == 3


def test_failures_that_all_have_another_reason_are_bounded(make_trace):
    first = evaluation(make_trace, 1, Failure("OSError", ""))
    failed = [changed(first, outcome=Failure("OSError", f"{x}")) for x in range(10_100)]
    assert objects(failed) == 10_001


def test_what_asking_for_unscored_things_cost_is_kept(make_trace):
    asked = [
        evaluation(make_trace, x, Skip("unsure"), usage=JudgeUsage(calls=x % 2)) for x in range(10)
    ]
    assert sum(x.usage.calls for x in kept(asked)) == 5


def test_a_score_is_kept_without_its_texts(make_trace):
    score = Score(0.7, "a long reason", {"evidence": "a long text"}, "good")
    [found] = kept([evaluation(make_trace, 1, score)])
    assert found.outcome == Score(0.7, "", {}, "good")
