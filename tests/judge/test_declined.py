"""A refusal, a content filter or a prompt that does not fit is named as such, and the next model is
asked.
"""

import pytest
from judge_harness import GOOD, KEY, ask
from scripted_server import ScriptedServer, answer, declined, refusal

from spanscore.errors import JudgeAnswerError, JudgeError, JudgeRefusedError, JudgeTooLongError

FILTERED = {
    "hate": {"filtered": True, "severity": "high"},
    "violence": {"filtered": False, "severity": "safe"},
}
TOO_LONG = (
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000"
    " tokens."
)


def failure_of(server, **settings):
    with pytest.raises(JudgeError) as caught:
        ask(server, **settings)
    return caught.value


def test_a_models_refusal_is_the_reason_of_the_failure():
    with ScriptedServer(declined("I cannot help with that.")) as server:
        error = failure_of(server)

    assert (type(error), str(error)) == (
        JudgeRefusedError,
        "openai/scripted gave no answer: the model declined: I cannot help with that.",
    )


def test_a_content_filter_is_named_with_what_it_found():
    with ScriptedServer(
        declined(finish_reason="content_filter", content_filter_results=FILTERED)
    ) as server:
        error = failure_of(server)

    assert (
        type(error),
        "content filter ended the answer" in str(error),
        "hate (high)" in str(error),
    ) == (JudgeRefusedError, True, True)


@pytest.mark.parametrize(
    "reply",
    [
        declined("No."),
        declined(finish_reason="content_filter"),
        declined(finish_reason="content_filter", text="{"),
    ],
)
def test_what_was_declined_is_not_asked_for_again(reply):
    with ScriptedServer(reply) as server:
        failure_of(server)

    assert len(server.calls) == 1


@pytest.mark.parametrize("code", ["content_policy_violation", "content_filter"])
def test_a_prompt_that_a_filter_rejects_is_a_refusal(code):
    with ScriptedServer(refusal(400, "rejected by our safety system", code)) as server:
        error = failure_of(server)

    assert (type(error), "safety system" in str(error), len(server.calls)) == (
        JudgeRefusedError,
        True,
        1,
    )


def test_the_next_model_is_asked_when_one_declines():
    with ScriptedServer(declined("No."), answer(GOOD)) as server:
        given = ask(server, fallback_models=["openai/second"])

    assert (given.model, given.usage.calls) == ("openai/second", 2)


def test_a_valid_answer_counts_whatever_ended_it():
    with ScriptedServer(
        declined(finish_reason="content_filter", text='{"score": 0.5, "reason": "x"}')
    ) as server:
        assert ask(server).value.score == 0.5


def test_a_refusal_quotes_no_secret():
    with ScriptedServer(declined(f"I will not use {KEY} nor write to a@x.com.")) as server:
        message = str(failure_of(server))

    assert (KEY in message, "a@x.com" in message) == (False, False)


def test_a_refusal_is_quoted_in_bounded_length():
    with ScriptedServer(declined("no " * 10_000)) as server:
        assert len(str(failure_of(server))) < 1000


def test_an_empty_answer_is_called_empty():
    with ScriptedServer(answer("")) as server:
        error = failure_of(server)

    assert (type(error), "The answer was empty (finish_reason: stop)" in str(error)) == (
        JudgeAnswerError,
        True,
    )


def test_an_answer_that_reasoning_used_up_says_so():
    with ScriptedServer(declined(finish_reason="length")) as server:
        assert "went into reasoning" in str(failure_of(server))


def test_an_answer_in_prose_is_quoted():
    with ScriptedServer(answer("I'm sorry, but I can't rate a@x.com.")) as server:
        message = str(failure_of(server))

    assert ("I'm sorry, but I can't rate" in message, "a@x.com" in message) == (True, False)


@pytest.mark.parametrize(
    "reply",
    [
        refusal(400, TOO_LONG, "context_length_exceeded"),
        refusal(400, "prompt is too long: 210000 tokens > 200000 maximum"),
        refusal(
            429,
            "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000",
        ),
    ],
    ids=["openai", "anthropic", "tokens_a_minute"],
)
def test_a_prompt_that_does_not_fit_is_told_apart_and_not_sent_again(reply):
    with ScriptedServer(reply) as server:
        error = failure_of(server)

    assert (type(error), len(server.calls)) == (JudgeTooLongError, 1)


def test_a_model_with_a_larger_window_is_asked_next():
    with ScriptedServer(refusal(400, TOO_LONG, "context_length_exceeded"), answer(GOOD)) as server:
        assert ask(server, fallback_models=["openai/second"]).model == "openai/second"


def test_an_answer_that_was_cut_off_says_that_a_shorter_one_would_do():
    with ScriptedServer(declined(finish_reason="length", text='{"score": 0.')) as server:
        assert failure_of(server).cut_off
