"""What a model thought before it answered is told as its reasoning, and never as a part of what it
said.
"""

import json

import pytest
from one_span import read

from spanscore.dialects.forms.messages import messages
from spanscore.model.step import Message

OPENAI, LANGCHAIN = (
    "openinference.instrumentation.openai",
    "openinference.instrumentation.langchain",
)
FLAT = "llm.output_messages.0.message."
THOUGHT, SAID = "Twelve is more.", "Take the red one."


def completion(message):
    return json.dumps(
        {"id": "chatcmpl-1", "choices": [{"message": {"role": "assistant", **message}}]}
    )


def openinference(response, *, scope=OPENAI, **flat):
    told = {FLAT + key: value for key, value in flat.items()}
    return read(
        {"openinference.span.kind": "LLM", "output.value": response, **told}, scope=scope
    ).output


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_thoughts_that_flattened_messages_leave_out_are_in_the_response(key):
    response = completion({"content": SAID, key: THOUGHT})
    assert openinference(response, role="assistant", content=SAID) == (
        Message("assistant", SAID, THOUGHT),
    )


def test_a_response_of_another_text_tells_no_thoughts():
    response = completion({"content": "Something else.", "reasoning_content": THOUGHT})
    assert openinference(response, role="assistant", content=SAID) == (Message("assistant", SAID),)


def test_what_only_reads_like_thoughts_is_none():
    response = completion({"content": SAID, "usage": {"reasoning_tokens": 3}, "reasoning": None})
    assert openinference(response, role="assistant", content=SAID) == (Message("assistant", SAID),)


@pytest.mark.parametrize(
    "beside",
    [
        {"reasoning_content": THOUGHT},
        {
            "reasoning": {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": THOUGHT}],
            }
        },
    ],
)
def test_thoughts_that_langchain_keeps_beside_a_message_are_its_reasoning(beside):
    kwargs = {"content": SAID, "type": "ai", "additional_kwargs": beside}
    message = {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "AIMessage"],
        "kwargs": kwargs,
    }
    response = json.dumps({"generations": [[{"text": SAID, "message": message}]]})
    assert openinference(response, scope=LANGCHAIN) == (Message("assistant", SAID, THOUGHT),)


def test_thoughts_that_langchain_does_not_tell_as_text_are_left_out():
    message = {
        "type": "ai",
        "content": SAID,
        "additional_kwargs": {"reasoning_content": 7, "reasoning": ["?"]},
    }
    response = json.dumps({"generations": [[{"text": SAID, "message": message}]]})
    assert openinference(response, scope=LANGCHAIN) == (Message("assistant", SAID),)


def test_thoughts_that_traceloop_tells_like_a_message_are_no_answer():
    told = {"0.role": "thinking", "0.content": THOUGHT, "1.role": "assistant", "1.content": SAID}
    step = read(
        {f"gen_ai.completion.{x}": y for x, y in told.items()},
        scope="opentelemetry.instrumentation.anthropic",
    )
    assert step.output == (Message("assistant", reasoning=THOUGHT), Message("assistant", SAID))


def test_a_message_of_a_server_that_calls_thoughts_reasoning_has_them():
    told = messages([{"role": "assistant", "content": SAID, "reasoning": THOUGHT}]).messages
    assert told == (Message("assistant", SAID, THOUGHT),)
