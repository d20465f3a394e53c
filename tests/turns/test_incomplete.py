"""A turn that is not all there waits for the rest longer than a whole one: its first verdict would
not hold.
"""

import time
from collections import defaultdict

import pytest

from spanscore import dialects, turns
from spanscore.cli import demo
from spanscore.otlp import codec


def recorded_turns():
    """The spans of each turn of the demo's recording, in order."""
    by_trace = defaultdict(list)
    for request in demo.recorded_requests(demo.recordings() / "pydantic-ai", time.time_ns()):
        for span in codec.spans(request):
            by_trace[span.trace_id].append(span)
    return [sorted(spans, key=lambda x: x.start_ns) for spans in by_trace.values()]


def waits(spans):
    """Whether what these spans give is taken for a part of a turn, which waits for
    `assemble.stitch_window`.
    """
    reading = dialects.read(spans)
    found = turns.Stitching().fragment_of(reading, turns.build(reading))
    return found is not None and found.is_fragment


@pytest.mark.parametrize("spans", recorded_turns(), ids=lambda _: "turn")
def test_a_whole_turn_does_not_wait(spans):
    assert not waits(spans)


@pytest.mark.parametrize("spans", recorded_turns(), ids=lambda _: "turn")
def test_a_turn_whose_answer_is_missing_waits(spans):
    last = max((x for x in spans if x.name.startswith("chat")), key=lambda x: x.start_ns)
    assert waits([x for x in spans if x is not last and x.parent_span_id])


@pytest.mark.parametrize("spans", recorded_turns(), ids=lambda _: "turn")
def test_a_turn_whose_tool_call_has_no_result_yet_waits(spans):
    first = min((x for x in spans if x.name.startswith("chat")), key=lambda x: x.start_ns)
    assert waits([first])
