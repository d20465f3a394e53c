"""spanscore in the path, a collector before it and behind it: all leaves, once, and the agents'
spans with scores.
"""

from collections import Counter

import pytest

pytestmark = pytest.mark.collector

TURNS = 6
AGENT, OUTER = "invoke_agent weather", "invoke_agent concierge"
SCORE = "spanscore.coherence.score"


@pytest.fixture
def line(pipeline):
    """Call it with spanscore's settings to get the pipeline."""
    return lambda **settings: pipeline(
        "examples/collector/inline.yaml", mode="inline", **settings
    ).start()


def own(span):
    """A span as its agent sent it: without what spanscore wrote on it."""
    kept = type(span)()
    kept.CopyFrom(span)
    del kept.attributes[:]
    kept.attributes.extend(
        x for x in span.attributes if not x.key.startswith(("spanscore.", "evaluations."))
    )
    return kept.SerializeToString(deterministic=True)


def keys(span):
    return {x.key for x in span.attributes}


def passed_on(line):
    return line.backend_spans()[0]


def assert_all_is_there_once(line):
    line.wait_for_spans()
    line.spanscore.wait_until_finished(0)
    assert Counter(map(own, passed_on(line))) == Counter(map(own, line.sent_spans()))


def assert_scored(line, name=AGENT):
    agents = [x for x in passed_on(line) if x.name == name]
    assert len(agents) == TURNS
    assert all(SCORE in keys(x) for x in agents)


def test_every_span_leaves_once_as_it_came_and_the_agents_with_their_scores(line):
    running = line()
    running.spanscore.stop_clock().start()
    running.run_agent_whole(TURNS)
    assert_all_is_there_once(running)
    assert_scored(running)


def test_only_the_outermost_agent_waits(line, until):
    running = line()
    running.spanscore.stop_clock().start()
    running.run_agent(TURNS, "--nested")
    outer = {x.span_id for x in running.sent_spans() if x.name == OUTER}
    until(
        lambda: (
            {x.span_id for x in passed_on(running)}
            == {x.span_id for x in running.sent_spans()} - outer
        )
    )


def test_the_outermost_agent_has_the_scores(line):
    running = line()
    running.spanscore.stop_clock().start()
    running.run_agent_whole(TURNS, "--nested")
    assert_all_is_there_once(running)
    assert_scored(running, OUTER)


def test_logs_and_metrics_pass_untouched(line, until):
    running = line()
    running.spanscore.start()
    running.run_agent(TURNS, "--metrics")
    until(lambda: sum(len(list(records(x))) for x in running.at_backend("logs")) >= TURNS)
    until(lambda: "turns" in metric_names(running))


def metric_names(line):
    return {
        metric.name
        for request in line.at_backend("metrics")
        for group in request.resource_metrics
        for scoped in group.scope_metrics
        for metric in scoped.metrics
    }


def records(request):
    for group in request.resource_logs:
        for scoped in group.scope_logs:
            yield from scoped.log_records


def test_spanscore_is_killed_while_agents_wait_for_their_scores(line, until):
    running = line()
    running.spanscore.stop_clock().start()
    running.run_agent(TURNS)
    until(lambda: len(passed_on(running)) == 4 * TURNS)  # all but the agents' own
    for _ in range(2):
        running.spanscore.kill()
        running.spanscore.start()
    running.spanscore.run_clock()
    assert_all_is_there_once(running)
    assert_scored(running)


def test_an_agent_that_left_at_its_limit_does_not_leave_again_after_a_kill(line, until):
    running = line(inline={"max_delay": "0"})
    running.spanscore.stop_clock().start()
    running.run_agent(TURNS)
    until(lambda: len(passed_on(running)) == 5 * TURNS)
    running.spanscore.kill()
    running.spanscore.run_clock()
    running.spanscore.start()
    running.wait_for_scores(TURNS)
    assert_all_is_there_once(running)


def test_a_span_that_an_sdk_sends_twice_leaves_once_if_it_is_an_agents(line):
    running = line()
    running.spanscore.stop_clock().start()
    running.run_agent_whole(TURNS, "--twice")
    running.wait_for_spans()
    running.spanscore.wait_until_finished(0)
    assert_scored(running)


def test_the_collectors_may_be_killed_too(line):
    running = line()
    running.spanscore.stop_clock().start()
    running.run_agent(TURNS)
    running.collector.kill()
    running.collector.start()
    running.spanscore.run_clock()
    running.wait_for_spans()
    assert {own(x) for x in passed_on(running)} == {own(x) for x in running.sent_spans()}
