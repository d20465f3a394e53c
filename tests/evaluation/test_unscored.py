"""Why a stored trace has no score."""

import pytest

from spanscore.evaluation import Config, Unscored
from spanscore.model.score import Evaluation, Evaluator, Failure, Score, Skip
from spanscore.testing.traces import agent_trace


def _score(trace, outcome, metric="task_completion"):
    return Evaluation(
        scope="trace",
        subject_id=trace.id,
        metric=metric,
        outcome=outcome,
        threshold=0.5,
        scale=(0.0, 1.0),
        evaluator=Evaluator("CODE", metric, "1"),
        target=trace.target,
        session_id=trace.session_id,
    )


def _why(trace, *outcomes, **config):
    scores = [_score(trace, x, f"metric_{n}") for n, x in enumerate(outcomes)]
    return Unscored(Config.model_validate(config)).why(trace, scores)


@pytest.mark.parametrize("outcome", [Score(0.5, "because"), Failure("TimeoutError", "")])
def test_a_trace_with_a_score_or_a_failure_needs_no_cause(outcome):
    assert _why(agent_trace(), Skip("no model"), outcome) == ""


def test_what_was_skipped_for_one_reason_is_named_together():
    found = _why(agent_trace(user_input="hello"), Skip("no model"), Skip("no model"), Skip("cut"))
    assert found == "metric_0, metric_1 skipped: no model; metric_2 skipped: cut"


def test_spans_that_record_no_content_are_said_to():
    empty = agent_trace(user_input=None, final_output=None, plan=None, tool_calls=None)
    assert _why(empty, Skip("no question")).startswith("its spans record no questions")


def test_a_rule_that_leaves_a_trace_out_is_named_with_its_share():
    rules = [{"name": "shop", "when": {"service": "shop"}, "sampling": 0}]
    found = _why(agent_trace(service_name="shop"), rules=rules)
    assert found == "left out of the sample: the rule shop has 0 of the traces evaluated"


def test_the_share_of_what_no_rule_takes_is_named_by_its_setting():
    assert "evaluation.sampling has 0 of" in _why(agent_trace(), sampling=0)


def test_a_rule_that_measures_nothing_is_named():
    rules = [{"name": "bots", "metrics": "none"}]
    assert _why(agent_trace(), rules=rules) == "the rule bots has nothing measured (metrics: none)"


def test_a_trace_of_which_only_the_session_is_measured_waits_for_it():
    config = {"default_metrics": False, "metrics": {"conversation_completion": {}}}
    assert _why(agent_trace(session_id="s"), **config).startswith("it waits for its session")
    assert _why(agent_trace(session_id=None), **config).endswith("it belongs to none")


def test_a_trace_that_came_by_an_import_is_said_to_be_unmeasured():
    assert "imported" in _why(agent_trace())
