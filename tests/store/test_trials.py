"""The test that a turn was recorded for is kept with its trace and with its scores."""

from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.model.trace import Trial
from spanscore.store.records import decode_evaluations, decode_trace, encode

TRIAL = Trial("suite", "run", "case", "pass")


def test_a_trace_keeps_it(make_trace):
    trace = make_trace(trial=TRIAL)
    assert decode_trace(encode(trace)).trial == TRIAL


def test_a_score_keeps_it(make_trace):
    evaluation = Evaluation(
        scope="trace",
        subject_id="x",
        metric="agentic",
        outcome=Score(1.0, ""),
        threshold=0.7,
        scale=(0.0, 1.0),
        evaluator=Evaluator("CODE", "rules", "1"),
        target=make_trace().target,
        session_id=None,
        trial=TRIAL,
    )
    assert decode_evaluations([encode(evaluation)])[0].trial == TRIAL
