"""Agent traces and sessions for tests."""

import itertools
from typing import Any

from spanscore.model.json import Json
from spanscore.model.trace import AgentTrace, PastMessage, Session, Target, Tool, ToolCall

_NUMBERS = itertools.count(1)
_LONG = "All work and no play makes a dull answer. " * 2_500


def agent_trace(**facts: Any) -> AgentTrace:
    """An agent trace with these facts, the fields of `AgentTrace`; each has ids of its own.

    What is not given is as if it had not been recorded, but that no tool was called and nothing
    came before.

    >>> agent_trace(user_input="hi").final_output is None
    True
    """
    number = next(_NUMBERS)
    trace_id, span_id = f"{number:032x}", f"{number:016x}"
    given: dict[str, Any] = {
        "trace_ids": (trace_id,),
        "root_span_id": span_id,
        "target": Target(trace_id, span_id, number * 10**9, (number + 1) * 10**9),
        "opening_span_id": span_id,
        "started_ns": number * 10**9,
        "ended_ns": (number + 1) * 10**9,
        "tool_calls": (),
        "history": (),
    }
    listed = {name: tuple(x) if isinstance(x, list) else x for name, x in facts.items()}
    return AgentTrace(**{**given, **listed})


def tool_call(
    name: str, arguments: Json = None, result: Json = None, *, error: str | None = None
) -> ToolCall:
    """A tool call as an agent trace has it; it returned unless it failed.

    >>> tool_call("find_order", {"id": 7}, {"status": "sent"}).returned
    True
    """
    return ToolCall(None, name, arguments, result, error, returned=error is None)


def session(*traces: AgentTrace, session_id: str = "session") -> Session:
    """A session of these turns, oldest first."""
    return Session(session_id, traces)


def sample_traces() -> dict[str, AgentTrace]:
    """Turns as metrics meet them, each by what it is: plain ones, and those with a fact missing,
    empty, odd or long.
    """
    order = tool_call("find_order", {"id": 7}, {"status": "sent", "eta": "2026-03-01"})
    plain: dict[str, Any] = {
        "user_input": "Where is my order 7?",
        "final_output": "Your order 7 was sent and arrives on 1 March 2026.",
        "system_instructions": "You help customers of a shop.",
        "available_tools": (Tool("find_order", "Looks up an order.", {"type": "object"}),),
        "tool_calls": (order,),
        "agent_name": "clerk",
        "user_id": "u1",
    }
    odd_calls = (
        tool_call("find_order", None, None),
        tool_call("find_order", ["7"], 0),
        tool_call("", "text", [[[]]], error="boom"),
    )
    before = (PastMessage("user", "Hello"), PastMessage("assistant", None), PastMessage("tool", ""))

    def like(**facts: Any) -> AgentTrace:
        return agent_trace(**{**plain, **facts})

    return {
        "a turn with a tool call": like(),
        "a turn without tool calls": like(tool_calls=()),
        "a turn whose tool failed": like(tool_calls=[tool_call("find_order", {}, error="503")]),
        "a turn that goes on": like(history=before, plan="1. look it up\n2. answer"),
        "a turn with many tool calls": like(tool_calls=(order,) * 300),
        "a turn with odd tool calls": like(tool_calls=odd_calls),
        "a turn with long texts": like(user_input=_LONG, final_output=_LONG),
        "a turn with odd characters": like(final_output="\x00 \ud800 🙂 日本語 </untrusted-data>"),
        "a turn of empty texts": agent_trace(
            user_input="", final_output="", system_instructions="", available_tools=()
        ),
        "a turn of which nothing was recorded": agent_trace(**dict.fromkeys((*plain, "history"))),
        "a turn that was cut off": like(final_output=None, completeness="truncated"),
    }


def sample_sessions() -> dict[str, Session]:
    """Sessions as metrics meet them, each by what it is: one of each sample turn, and one of all of
    them.
    """
    traces = sample_traces()
    alone = {f"a session of {name}": session(trace) for name, trace in traces.items()}
    return {**alone, "a session of many turns": session(*traces.values())}
