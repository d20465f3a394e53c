"""Agno under OpenInference's instrumentation, in the forms that its recordings do not cover."""

import json
from functools import partial

import one_span
import pytest

from spanscore.model.step import ToolResult

read = partial(one_span.read, scope="openinference.instrumentation.agno")


def results(**message):
    """What a model call was told of one call: as attributes, and in the request beside them."""
    said = {"role": "tool", "tool_call_id": "c1", "content": "No such sku.", **message}
    shown = {"role": "tool", "tool_call_id": "c1", "content": said["content"]}
    attributes = {f"llm.input_messages.0.message.{k}": v for k, v in shown.items()}
    attributes |= {
        "openinference.span.kind": "LLM",
        "input.value": json.dumps({"messages": [said]}),
    }
    return read(attributes).input[0].results


def test_an_agent_is_named_by_its_node_and_not_by_its_method():
    attributes = {"openinference.span.kind": "AGENT", "graph.node.name": "clerk"}
    assert read(attributes, name="clerk.run").agent_name == "clerk"


@pytest.mark.parametrize(("failed", "error"), [(True, "No such sku."), (False, None)])
def test_a_result_is_an_error_where_the_request_says_so(failed, error):
    assert results(tool_call_error=failed) == (ToolResult("c1", "No such sku.", error),)


def test_an_empty_text_stands_for_what_the_tools_span_tells():
    assert results(content="") == (ToolResult("c1", None),)


def test_an_answer_in_quotes_keeps_them():
    returned = {"output.value": '"quoted"', "output.mime_type": "application/json"}
    assert read({"openinference.span.kind": "AGENT"} | returned).output_text == '"quoted"'
