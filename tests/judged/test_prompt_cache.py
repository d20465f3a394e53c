"""What providers' prompt caches are told: Claude's keeps what a request marks, the others find it
by themselves.
"""

import json

import pytest
from judged_harness import STAGEWISE, engine_for, evaluate, recorded
from obliging_model import ObligingModel
from scripted_server import Reply, ScriptedServer

from spanscore.judge.litellm import _content
from spanscore.judge.provider import Message
from spanscore.lazy_imports import load_litellm

CLAUDE = "anthropic/claude-3-5-haiku-20241022"


class ClaudeLike:
    """Speaks Anthropic's Messages API, with the answers of an obliging model."""

    def __init__(self):
        self._model = ObligingModel()

    def __call__(self, request):
        asked = {
            "messages": [
                {},
                {"content": "".join(x["text"] for x in request["messages"][0]["content"])},
            ]
        }
        text = json.loads(self._model(asked).body)["choices"][0]["message"]["content"]
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 100, "output_tokens": 20},
        }
        return Reply(json.dumps(message))


def marked(request):
    """The texts of a request's user message that end in a mark for the cache."""
    return [x["text"] for x in request["messages"][0]["content"] if "cache_control" in x]


def asked_of_claude(metrics=None, **judge):
    with ScriptedServer(ClaudeLike()) as server:
        judge = {
            "model": CLAUDE,
            "api_base": server.url.removesuffix("/v1"),
            "json_schema": "never",
            **judge,
        }
        found = evaluate(engine_for(server, metrics=metrics, **judge), recorded()[0])
    assert {x.status for x in found.values()} == {"scored"}
    return server.calls


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"plan": "staged"}, {"plan": "fused", **STAGEWISE}])
def test_claude_is_told_to_keep_the_transcript_which_all_calls_begin_with(settings):
    calls = asked_of_claude(**settings)

    assert len(calls) > 1
    assert len({text for call in calls for text in marked(call)}) == 1
    assert all(marked(call)[0].startswith("<untrusted-data") for call in calls)


def test_what_is_asked_in_one_call_is_not_kept():
    assert [marked(x) for x in asked_of_claude(plan="fused")] == [[]]


@pytest.mark.parametrize(
    ("model", "is_marked"),
    [
        ("anthropic/claude-3-5-haiku-20241022", True),
        ("openrouter/anthropic/claude-3.5-sonnet", True),
        ("bedrock/us.anthropic.claude-sonnet-4-20250514-v1:0", True),
        ("bedrock/anthropic.claude-3-sonnet-20240229-v1:0", False),
        ("replicate/anthropic/claude-3.5-sonnet", False),
        ("openai/claude-3-5-sonnet", False),
        ("openai/gpt-4o-mini", False),
    ],
)
def test_only_providers_that_take_the_mark_get_it(model, is_marked):
    content = _content(load_litellm(), model, Message("user", "transcript and question", 10))

    assert isinstance(content, list) == is_marked


def test_other_models_get_the_prompt_as_one_text():
    with ScriptedServer(ObligingModel()) as server:
        evaluate(engine_for(server, "fused"), recorded()[0])

    assert {type(message["content"]) for call in server.calls for message in call["messages"]} == {
        str
    }
