"""The drop-in configuration, run by a real collector: agents notice nothing, and every score comes
back once.
"""

from collections import Counter

import pytest
from obliging_model import ObligingModel
from scripted_server import ScriptedServer

pytestmark = pytest.mark.collector

TURNS = 6


@pytest.fixture
def model():
    with ScriptedServer(ObligingModel()) as running:
        yield running


@pytest.fixture
def line(pipeline, model):
    """Call it to get the drop-in's pipeline before a spanscore whose judge is `model`."""
    judge = {
        "model": "openai/gpt-4o-mini",
        "api_base": model.url,
        "api_key": "a-key",
        "plan": "fused",
    }
    judge["try_at_start"] = False
    judge["timeout"] = "5m"  # the first call imports its provider's library
    return lambda **options: pipeline(judge=judge, **options)


def assert_all_is_there(line):
    """Every span the agents sent is at the backend as they sent it, and of each score one span and
    one event.
    """
    line.wait_for_spans()
    line.wait_for_scores(TURNS)
    spans, scores = line.backend_spans()
    assert {x.SerializeToString(deterministic=True) for x in spans} == {
        x.SerializeToString(deterministic=True) for x in line.sent_spans()
    }
    assert Counter(x.span_id.hex() for x in scores) == dict.fromkeys(line.committed(), 1)
    assert line.events() == dict.fromkeys(line.committed(), 1)


def assert_asked_once(model):
    """No question was put to the judge twice."""
    questions = [str(x["messages"]) for x in model.calls]
    assert questions
    assert len(set(questions)) == len(questions)


def test_all_that_was_sent_arrives_and_each_score_once(line, model):
    running = line().start()
    running.spanscore.start()
    running.run_agent(TURNS)
    assert_all_is_there(running)
    assert_asked_once(model)


def test_spanscore_may_start_after_the_traces(line, model):
    running = line().start()
    running.run_agent(TURNS)
    running.wait_for_spans()
    running.spanscore.start()
    assert_all_is_there(running)
    assert_asked_once(model)


def test_spanscore_may_be_killed_and_started_again(line, model, until):
    running = line().start()
    running.spanscore.start()
    running.run_agent(TURNS)
    until(lambda: model.calls)  # it dies while it asks
    running.spanscore.kill()
    running.spanscore.start()
    assert_all_is_there(running)


def test_spanscore_may_refuse_for_a_while(line, model):
    running = line(gated=True).start()
    running.spanscore.start()
    running.pass_on("refuse")
    running.run_agent(TURNS)
    running.wait_for_spans()
    running.pass_on("pass")
    assert_all_is_there(running)
    assert_asked_once(model)


def test_a_spanscore_that_never_answers_delays_no_span(line, model):
    running = line(gated=True).start()
    running.spanscore.start()
    running.pass_on("hold")
    running.run_agent(TURNS)
    running.wait_for_spans()
    running.pass_on("pass")
    assert_all_is_there(running)
    assert_asked_once(model)


def test_spanscore_may_be_slow(line, model):
    running = line(gated=True).start()
    running.spanscore.start()
    running.pass_on("slow")
    running.run_agent(TURNS)
    assert_all_is_there(running)
    assert_asked_once(model)


def test_answers_may_come_too_late_for_the_collector(line, model, until):
    running = line(gated=True).start()
    running.spanscore.start()
    running.pass_on("late")
    running.run_agent(TURNS)
    # it sends all again
    until(lambda: "DeadlineExceeded" in running.collectors_log(), running.collectors_log)
    running.pass_on("pass")
    assert_all_is_there(running)
    assert_asked_once(model)


def test_spanscore_may_be_down_for_a_while(line, model):
    running = line().start()
    running.spanscore.start()
    running.run_agent(TURNS // 2)
    running.spanscore.kill()
    running.run_agent(TURNS - TURNS // 2)
    running.wait_for_spans()
    running.spanscore.start()
    assert_all_is_there(running)


def test_the_collector_may_be_killed_and_started_again(line, model):
    running = line(gated=True).start()
    running.spanscore.start()
    running.pass_on("hold")  # so that the branch still waits in the collector's queue when it dies
    running.run_agent(TURNS)
    running.collector.kill()
    running.pass_on("pass")
    running.collector.start()
    assert_all_is_there(running)
    assert_asked_once(model)


def test_what_an_sdk_sends_twice_is_scored_once(line, model):
    running = line().start()
    running.spanscore.start()
    running.run_agent(TURNS, "--twice")
    assert_all_is_there(running)
    assert_asked_once(model)


def test_scores_sent_to_the_agents_port_do_not_come_back(line, model):
    running = line(loop=True).start()
    running.spanscore.start()
    running.run_agent(TURNS)
    assert_all_is_there(running)
    assert_asked_once(model)
    assert running.scored_traces() <= {x.trace_id.hex() for x in running.sent_spans()}
