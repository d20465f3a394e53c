"""A metric that rests on what arrived cut or redacted is skipped, and no number is made up."""

import pytest

from spanscore.metrics import available
from spanscore.model.score import Skip
from spanscore.model.trace import AgentTrace, Target

_NEEDED = [(name, fact) for name, x in sorted(available().items()) if x.scope == "trace" for fact in x.needs]
_PLANNED = [(name, "plan") for name in ("plan_adherence", "plan_quality")]


@pytest.mark.parametrize(("name", "fact"), [*_NEEDED, *_PLANNED])
def test_a_metric_that_needs_a_damaged_fact_is_skipped(name, fact):
    trace = AgentTrace(
        trace_ids=("a" * 32,),
        root_span_id="b" * 16,
        target=Target("a" * 32, "b" * 16, 0, 1),
        opening_span_id="b" * 16,
        started_ns=0,
        ended_ns=1,
        user_input="Paris?",
        final_output="15C.",
        tool_calls=(),
        available_tools=(),
        plan="1. look",
        damaged=(fact,),
    )
    assert isinstance(available()[name]().unmeasurable(trace), Skip)
