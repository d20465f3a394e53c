"""Requests to models that no instrumentation records."""

import asyncio

import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

import spanscore

CHAT = {
    "id": "r-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-4o-mini-2024",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "book", "arguments": '{"flight": "LH1"}'},
                    }
                ],
            },
        }
    ],
    "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
}
RESPONSES = {
    "id": "r-2",
    "object": "response",
    "created_at": 1,
    "model": "gpt-4o-mini-2024",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [
        {
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "I book it.", "annotations": []}],
        },
        {
            "id": "f1",
            "type": "function_call",
            "call_id": "c1",
            "name": "book",
            "arguments": '{"flight": "LH1"}',
        },
    ],
    "usage": {
        "input_tokens": 12,
        "output_tokens": 3,
        "total_tokens": 15,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    },
}
ANTHROPIC = {
    "id": "r-3",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "stop_reason": "tool_use",
    "content": [
        {"type": "text", "text": "I book it."},
        {"type": "tool_use", "id": "c1", "name": "book", "input": {"flight": "LH1"}},
    ],
    "usage": {"input_tokens": 2, "cache_read_input_tokens": 10, "output_tokens": 3},
}


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (ChatCompletion.model_validate(CHAT), None),
        (CHAT, None),
        (Response.model_validate(RESPONSES), "I book it."),
        (ANTHROPIC, "I book it."),
    ],
    ids=["openai", "openai as json", "openai's responses", "anthropic"],
)
def test_a_providers_response_tells_the_answer_its_calls_and_tokens(recorded, response, text):
    with (
        spanscore.turn("Fly to Rome?"),
        spanscore.model_call("gpt-4o-mini", "Fly to Rome?") as call,
    ):
        assert call.answer(response) is response
    [found] = recorded.turn().model_calls
    assert (found.text, found.input_tokens, found.output_tokens) == (text, 12, 3)
    assert [(x.call_id, x.name, x.arguments) for x in found.tool_calls] == [
        ("c1", "book", {"flight": "LH1"})
    ]


def test_a_text_is_an_answer_too(recorded):
    with spanscore.turn("Hi"), spanscore.model_call("llama", "Hi", provider="ollama") as call:
        call.answer("Hello.", input_tokens=5, output_tokens=2)
    turn = recorded.turn()
    assert (turn.final_output, turn.usage.input_tokens, turn.usage.output_tokens) == (
        "Hello.",
        5,
        2,
    )
    assert recorded.span("chat llama").attributes["gen_ai.provider.name"] == "ollama"


def test_a_whole_loop_is_one_turn_each_call_once(recorded):
    @spanscore.tool
    def book(flight):
        return {"booked": flight}

    messages = [{"role": "user", "content": "Fly to Rome?"}]
    with spanscore.turn("Fly to Rome?", tools=[book]) as turn:
        with spanscore.model_call("gpt-4o-mini", messages, tools=[book]) as call:
            asked = call.answer(CHAT)["choices"][0]["message"]
        messages += [
            asked,
            {"role": "tool", "tool_call_id": "c1", "content": str(book(flight="LH1"))},
        ]
        with spanscore.model_call("gpt-4o-mini", messages, tools=[book]) as call:
            turn.answer(call.answer("Booked."))
    found = recorded.turn()
    assert [(x.call_id, x.arguments, x.result) for x in found.tool_calls] == [
        ("c1", {"flight": "LH1"}, {"booked": "LH1"})
    ]
    assert (
        found.final_output,
        len(found.model_calls),
        [x.name for x in found.available_tools],
    ) == ("Booked.", 2, ["book"])


def test_a_call_that_fails_says_why(recorded):
    async def asking():
        async with spanscore.model_call("gpt-4o-mini", "Hi"):
            raise TimeoutError("too slow")

    with pytest.raises(TimeoutError):
        asyncio.run(asking())
    assert recorded.span("chat gpt-4o-mini").attributes["error.type"] == "TimeoutError"
