"""LangChain4j under OpenInference, written by hand after its source: it could not be installed for
a recording.
"""

import json

from spanscore import dialects
from spanscore.model.span import Resource, Scope, Span
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall
from spanscore.rebuild import rebuild


def span(kind, attributes, *, span_id="1", parent="", start_ns=1):
    told = {"openinference.span.kind": kind, **attributes}
    scope = Scope("com.arize.langchain4j")
    return Span(
        "t", span_id, parent, "AiService.start", 3, start_ns, 99, 1, "", told, Resource(), scope
    )


def messages(side, *said):
    roles = {f"llm.{side}_messages.{at}.message.role": role for at, (role, _) in enumerate(said)}
    return roles | {
        f"llm.{side}_messages.{at}.message.content": text for at, (_, text) in enumerate(said)
    }


def test_how_far_a_service_is_is_neither_question_nor_answer():
    service = span(
        "AGENT", {"input.value": "Execution Started", "output.value": "Execution Completed"}
    )
    said = messages("input", ("user", "Where?")) | messages("output", ("assistant", "There."))
    (trace,) = rebuild([service, span("LLM", said, span_id="2", parent="1", start_ns=2)])
    assert (trace.agent_name, trace.user_input, trace.final_output) == (None, "Where?", "There.")


def test_messages_that_java_printed_are_read_from_the_list_beside_them():
    printed = messages(
        "input",
        (
            "user",
            (
                'UserMessage { name = null, contents = [TextContent { text = "Where?" }],'
                " attributes = {} }"
            ),
        ),
        ("assistant", "AiMessage { text = null, toolExecutionRequests = [...] }"),
        ("tool", 'ToolExecutionResultMessage { id = "c1" toolName = "look" text = "0" }'),
    )
    listed = [
        {"role": "user", "content": "Where?"},
        {
            "role": "assistant",
            "content": {
                "tool_calls": [
                    {"id": "c1", "function": {"name": "look", "arguments": '{"x": "00042"}'}}
                ]
            },
        },
        {"role": "tool", "content": "0", "message.tool_call_id": "c1"},
    ]
    (step,) = dialects.read([span("LLM", printed | {"input.value": json.dumps(listed)})]).steps
    assert step.input == (
        Message("user", "Where?"),
        Message("assistant", calls=(RequestedCall("c1", "look", {"x": "00042"}),)),
        Message("tool", results=(ToolResult("c1", 0),)),
    )


def test_messages_that_java_printed_without_a_list_are_nobodys():
    (step,) = dialects.read(
        [span("LLM", messages("input", ("user", "UserMessage { name = null }")))]
    ).steps
    assert step.input is None
