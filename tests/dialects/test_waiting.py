"""Runs that halt until a person approves a call or answers: how each framework says so, and what
then is no fact.
"""

import json
from dataclasses import replace

import pytest
from one_span import read, span

from spanscore import dialects
from spanscore.model.span import Event

LLAMA_INDEX = "openinference.instrumentation.llama_index"
CALL = {"tool_name": "pay", "args": "{}", "tool_call_id": "c1", "part_kind": "tool-call"}


def pydantic_ai(final):
    return read(
        {"agent_name": "clerk", "final_result": final},
        scope="pydantic-ai",
        name="invoke_agent clerk",
    )


@pytest.mark.parametrize("deferred", ["calls", "approvals"])
def test_pydantic_ais_deferred_calls_are_no_answer(deferred):
    final = {"calls": [], "approvals": [], "metadata": {}} | {deferred: [CALL]}
    assert pydantic_ai(json.dumps(final)).output_text is None


@pytest.mark.parametrize(
    "final", ['{"approvals": ["tool_call_id"], "calls": []}', '{"approvals": [], "calls": []}']
)
def test_an_answer_of_that_name_is_one(final):
    assert pydantic_ai(final).output_text == final


def test_strands_interrupts_are_no_answer():
    chosen = {"message": "[{'id': 'v1', 'name': 'sure?'}]", "finish_reason": "interrupt"}
    event = Event("gen_ai.choice", 2, chosen)
    step = read(
        {"gen_ai.operation.name": "invoke_agent"}, scope="strands.telemetry.tracer", events=(event,)
    )
    assert (step.output, step.output_text) == (None, None)


def test_a_tool_of_adk_that_waits_for_confirmation_returned_nothing():
    said = '{"error": "This tool call requires confirmation, please approve or reject."}'
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay"}
    step = read({**attributes, "gcp.vertex.agent.tool_response": said}, scope="gcp.vertex.agent")
    assert (step.result, step.has_result) == (None, False)


@pytest.mark.parametrize(("output", "has_result"), [(None, False), ("paid", True)])
def test_a_tool_of_openais_agents_that_waits_returned_nothing_under_mlflow(output, has_result):
    returned = {
        "tool": {"name": "pay"},
        "output": output,
        "run_item": {"type": "tool_approval_item"},
    }
    attributes = {
        "mlflow.spanType": '"TOOL"',
        "mlflow.spanInputs": "{}",
        "mlflow.spanOutputs": json.dumps(returned),
    }
    assert read(attributes, name="pay").has_result is has_result


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("WaitingForEvent: Waiting for event <class 'events.HumanResponseEvent'>", "other"),
        ("ValueError: Waiting for nobody", "tool"),
    ],
)
def test_a_tool_of_llama_index_that_waits_for_an_event_has_not_failed(message, kind):
    failed = span(
        {"openinference.span.kind": "TOOL", "tool.name": "pay"}, scope=LLAMA_INDEX, status=2
    )
    (step,) = dialects.read([replace(failed, status_message=message)]).steps
    assert step.kind == kind


def test_a_workflows_context_is_no_argument_of_a_tool():
    given = (
        '{"kwargs": {"to": "Bo", "ctx": "<workflows.context.context.Context object at'
        ' 0x7f402b3f4410>"}}'
    )
    attributes = {"openinference.span.kind": "TOOL", "tool.name": "pay", "input.value": given}
    step = read({**attributes, "input.mime_type": "application/json"}, scope=LLAMA_INDEX)
    assert step.arguments == {"to": "Bo"}


def test_what_agno_says_while_it_waits_is_no_answer():
    said = "I have tools to execute, but I need confirmation."
    attributes = {
        "openinference.span.kind": "AGENT",
        "graph.node.name": "clerk",
        "output.value": said,
    }
    assert read(attributes, scope="openinference.instrumentation.agno").output_text is None
