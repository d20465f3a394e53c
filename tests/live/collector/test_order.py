"""In which order the backend sees traces and their scores: some file a whole trace by the first
span that they get.
"""

import pytest

pytestmark = pytest.mark.collector

TURNS = 4


def test_each_evaluation_span_is_at_the_backend_after_the_span_that_it_evaluates(pipeline):
    line = pipeline().start()
    line.spanscore.start()
    line.run_agent(TURNS)
    line.wait_for_spans()
    line.wait_for_scores(TURNS)
    there, early = set(), []
    for request in line.at_backend("traces"):
        spans = [
            x
            for group in request.resource_spans
            for scoped in group.scope_spans
            for x in scoped.spans
        ]
        there |= {(x.trace_id, x.span_id) for x in spans if not is_score(x)}
        early += [
            x.name for x in spans if is_score(x) and (x.trace_id, x.parent_span_id) not in there
        ]
    assert early == []


def is_score(span):
    return any(x.key == "spanscore.emitted" for x in span.attributes)
