"""What a model does not take in a request is left out, once it has said so."""

import asyncio

import pytest
from judge_harness import GOOD, PROMPT, Verdict, ask, judge_for
from scripted_server import ScriptedServer, answer, refusal

from spanscore.errors import JudgeUnavailableError
from spanscore.judge import Prompt, litellm
from spanscore.judge.trial import advice

TEMPERATURE = "Unsupported value: 'temperature' does not support 0 with this model."
RENAMED = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use"
    " 'max_completion_tokens' instead."
)


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch):
    monkeypatch.setattr(litellm, "_UNTAKEN", {})  # else a server on the same port inherits it


def model_without(name, message, status=400):
    """A model that refuses every request with a parameter."""
    return lambda request: refusal(status, message) if name in request else answer(GOOD)


def no_system(message):
    """A model that refuses a system message."""

    def reply(request):
        is_refused = request["messages"][0]["role"] == "system"
        return refusal(400, message) if is_refused else answer(GOOD)

    return reply


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("temperature", TEMPERATURE),
        ("max_tokens", "Unrecognized request argument supplied: max_tokens"),
        ("max_tokens", RENAMED),
        ("response_format", "'response_format.type' must be 'text'"),
    ],
)
def test_what_is_refused_by_name_is_left_out(name, message, status):
    with ScriptedServer(model_without(name, message, status)) as server:
        given = ask(server, json_schema="always")

    assert (given.value.score, given.usage.calls, name in server.calls[1]) == (0.5, 2, False)


def test_the_limit_on_tokens_is_sent_by_the_name_that_the_model_wants():
    with ScriptedServer(model_without("max_tokens", RENAMED)) as server:
        ask(server, max_output_tokens=700)

    assert server.calls[1]["max_completion_tokens"] == 700


def test_a_schema_that_may_not_be_sent_stands_in_the_text():
    with ScriptedServer(model_without("response_format", "no response_format")) as server:
        ask(server, json_schema="always")

    assert '"reason"' in server.calls[1]["messages"][-1]["content"]


def test_a_listed_model_that_refused_a_schema_is_told_it_in_text_from_then_on():
    with ScriptedServer(model_without("response_format", "no response_format")) as server:
        ask(server, model="openai/gpt-4o-mini")
        ask(server, model="openai/gpt-4o-mini")

    assert (len(server.calls), '"minimum":0' in server.calls[2]["messages"][1]["content"]) == (
        3,
        True,
    )


@pytest.mark.parametrize(
    "message",
    [
        "System role not supported",
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        "Developer instruction is not enabled for models/gemma-3-27b-it",
        "Conversation roles must alternate user/assistant/user/assistant/...",
    ],
)
def test_without_a_system_role_the_users_message_begins_with_the_instructions(message):
    with ScriptedServer(no_system(message)) as server:
        ask(server)

    (sent,) = server.calls[1]["messages"]
    assert (sent["role"], sent["content"].startswith("You judge.\n\n<transcript>")) == (
        "user",
        True,
    )


def test_two_refusals_one_after_the_other_are_both_heeded():
    def reply(request):
        for name, message in (("temperature", TEMPERATURE), ("max_tokens", RENAMED)):
            if name in request:
                return refusal(400, message)
        return answer(GOOD)

    with ScriptedServer(reply) as server:
        assert ask(server).usage.calls == 3


def test_what_was_refused_is_not_sent_again_in_this_process():
    with ScriptedServer(model_without("temperature", TEMPERATURE)) as server:
        ask(server)
        ask(server)  # a judge of its own

    assert [("temperature" in x) for x in server.calls] == [True, False, False]


def test_another_model_is_still_sent_it():
    with ScriptedServer(model_without("temperature", TEMPERATURE)) as server:
        ask(server)
        ask(server, models=["openai/other"])

    assert "temperature" in server.calls[2]


def test_calls_that_are_refused_at_the_same_time_are_all_made_again():
    async def both(judge):
        return await asyncio.gather(
            judge.ask(PROMPT, Verdict), judge.ask(Prompt("s", "t", "q"), Verdict)
        )

    with ScriptedServer(model_without("temperature", TEMPERATURE)) as server:
        given = asyncio.run(both(judge_for(server)))

    assert [x.value.score for x in given] == [0.5, 0.5]


def test_a_refusal_for_what_was_not_sent_is_final():
    with ScriptedServer(refusal(400, TEMPERATURE)) as server:
        with pytest.raises(JudgeUnavailableError):
            ask(server)

        assert len(server.calls) == 2


def test_who_is_refused_otherwise_is_advised_about_the_request():
    with (
        ScriptedServer(refusal(400, "this is no chat model")) as server,
        pytest.raises(JudgeUnavailableError) as caught,
    ):
        ask(server)

    assert "key" not in advice(caught.value)
