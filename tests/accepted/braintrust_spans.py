"""Spans of Braintrust's SDKs: models, tools and tasks, with the provider's requests and answers.

Which attributes they have is in the specification of these SDKs and in their tests
(braintrustdata/braintrust-spec: test/llm_span; braintrust-sdk-java, braintrust-sdk-go,
braintrust-sdk-ruby, braintrust-sdk-dotnet); the values are made up here.
"""

from accepted import ABSENT, Form, span
from langfuse_forms import BOTH, CHAT, RAN
from message_form import (
    ANSWER,
    ASK,
    ASSISTANT,
    DEFINITION,
    GIVEN,
    OFFERED,
    OPENAI_CALL,
    QUESTION,
    RESULT,
    RULES,
    SAID,
    TOOL,
)

SYSTEM = {"role": "system", "content": RULES}
COUNTED = {"tokens": 10, "prompt_tokens": 7, "completion_tokens": 3}
TOKENS = {"tokens": (7, 3)}


def typed(kind, given=None, returned=None, *, metadata=None, metrics=None, beside=(), **more):
    """A span of a type, with what it was given and what came out."""
    recorded = {
        "braintrust.span_attributes": {"type": kind},
        "braintrust.input_json": given,
        "braintrust.output_json": returned,
        "braintrust.metadata": metadata,
        "braintrust.metrics": metrics,
        **dict(beside),
    }
    attributes = {key: value for key, value in recorded.items() if value is not None}
    return span(attributes, **{"scope": "braintrust", "name": "Chat Completion", **more})


def model(given, returned, **more):
    return [typed("llm", given, returned, metadata={"model": "m-1"}, metrics=COUNTED, **more)]


def tool(given, returned, *, kind="tool", **more):
    inner = {"name": "stock", "parent": "s1", "at": 2, **more}
    return [typed("task", [ASK], ANSWER), typed(kind, given, returned, **inner)]


def choice(message, reason="stop"):
    return [{"index": 0, "finish_reason": reason, "message": message}]


TOLD = BOTH | TOKENS | {"model": "m-1"}
BLOCKS = [{"type": "text", "text": QUESTION}]
FORMS = [
    Form("a chat completion", model([SYSTEM, ASK], choice(SAID)), TOLD | {"system": RULES}),
    Form(
        "a message of Anthropic, its instructions last",
        model([ASK, SYSTEM], {"role": "assistant", "content": [{"type": "text", "text": ANSWER}]}),
        TOLD | {"system": RULES},
    ),
    Form(
        "a request of Gemini",
        model(
            {"model": "m-1", "contents": [{"role": "user", "parts": [{"text": QUESTION}]}]},
            {"candidates": [{"content": {"role": "model", "parts": [{"text": ANSWER}]}}]},
        ),
        TOLD,
    ),
    Form(
        "a call of Bedrock",
        model(
            [{"role": "user", "content": BLOCKS}],
            [{"role": "assistant", "content": [{"type": "text", "text": ANSWER}]}],
        ),
        TOLD,
    ),
    Form(
        "items of OpenAI's Responses",
        model(
            [ASK],
            [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Count."}]},
                {
                    "type": "message",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": ANSWER}],
                },
            ],
        ),
        TOLD | {"reasoning": "Count."},
    ),
    Form(
        "a call that a model requested, and the tools on offer",
        [
            typed(
                "llm",
                [ASK],
                choice({"role": "assistant", "tool_calls": [OPENAI_CALL]}, "tool_calls"),
                metadata={"model": "m-1", "tools": [{"type": "function", "function": DEFINITION}]},
            )
        ],
        OFFERED | {"calls": ["stock"], "ids": ["c1"], "arguments": [GIVEN], "input": QUESTION},
    ),
    Form(
        "a call and its result in the next request",
        model([ASK, ASSISTANT, TOOL], choice(SAID)),
        RAN | TOLD | {"ids": ["c1"]},
    ),
    Form("prompts as texts", model([QUESTION], choice(SAID)), BOTH),
    Form(
        "messages without a type",
        [
            span(
                {"braintrust.input_json": [ASK], "braintrust.output_json": [SAID]},
                name="vision.analyze_image",
            )
        ],
        BOTH,
    ),
    Form("a tool", tool(GIVEN, RESULT), RAN | BOTH),
    Form("a function", tool(GIVEN, RESULT, kind="function"), RAN),
    Form(
        "a tool of Ruby's",
        tool(
            {"name": "stock", "arguments": GIVEN},
            RESULT,
            name="ruby_llm.tool.stock",
            beside={"tool.name": "stock", "tool.call_id": "c1"},
        ),
        RAN | {"ids": ["c1"]},
    ),
    Form(
        "a tool of .NET's with the conventions' attributes",
        tool(
            None,
            None,
            kind="function",
            name="function: stock",
            beside={
                "gen_ai.tool.call.id": "c1",
                "gen_ai.tool.call.arguments": GIVEN,
                "gen_ai.tool.call.result": RESULT,
            },
        ),
        RAN | {"ids": ["c1"]},
    ),
    Form(
        "a tool that failed",
        tool(GIVEN, None, status=2, message="The list is locked."),
        {"errors": ["The list is locked."], "arguments": [GIVEN], "results": [ABSENT]},
    ),
    Form(
        "a task with its calls",
        [
            typed("task", [ASK], ANSWER, metrics={"prompt_tokens": 70, "completion_tokens": 30}),
            typed("llm", [ASK], choice(SAID), metrics=COUNTED, parent="s1", at=2),
        ],
        BOTH | TOKENS | {"turns": 1},
    ),
    Form(
        "a task alone",
        [typed("task", QUESTION, ANSWER, metrics=COUNTED)],
        BOTH | TOKENS | {"turns": 1},
    ),
    Form(
        "whose turn it is",
        [typed("task", QUESTION, ANSWER, metadata={"session_id": "s-1", "user_id": "u-1", "n": 1})],
        {"session": "s-1", "user": "u-1"},
    ),
    Form(
        "a scorer beside the task",
        [
            typed("eval", {"input": QUESTION}, {"output": ANSWER}),
            typed("task", QUESTION, ANSWER, parent="s1", at=2),
            typed("score", {"output": ANSWER}, 0.5, parent="s1", at=3),
        ],
        BOTH | {"turns": 1},
    ),
    Form(
        "a span of the conventions on its way to Braintrust",
        [span(CHAT | {"braintrust.parent": "project_name:desk"})],
        BOTH,
    ),
]
