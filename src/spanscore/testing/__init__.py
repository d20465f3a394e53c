"""Test helpers for authors of metrics and dialects.

>>> from spanscore import testing
>>> trace = testing.agent_trace(user_input="Where is my order?", final_output="It arrives today.")
>>> testing.measure("check.answer_present", trace).value
1.0
"""

from spanscore.model.trace import Tool, ToolCall
from spanscore.testing.dialects import check_dialect
from spanscore.testing.judges import FailingJudge, HangingJudge, ScriptedJudge
from spanscore.testing.metrics import check_metric, measure
from spanscore.testing.traces import agent_trace, sample_sessions, sample_traces, session, tool_call

__all__ = [
    "FailingJudge",
    "HangingJudge",
    "ScriptedJudge",
    "Tool",
    "ToolCall",
    "agent_trace",
    "check_dialect",
    "check_metric",
    "measure",
    "sample_sessions",
    "sample_traces",
    "session",
    "tool_call",
]
