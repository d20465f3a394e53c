"""Answers before a judge that is litellm in front of a scripted server: what it is sent, and what
its errors become.
"""

import contextlib
import json
import re

import pytest
from judge_harness import KEY
from scripted_server import ScriptedServer, answer, refusal

from spanscore import config, run_suite
from spanscore.model.trace import ToolCall


@pytest.fixture
def judged():
    """A scripted server, and the settings under which it judges, without patience."""
    with contextlib.ExitStack() as stack:

        def make(*script):
            server = stack.enter_context(ScriptedServer(*script))
            given = {
                "model": "openai/scripted",
                "api_base": server.url,
                "api_key": KEY,
                "max_retries": 0,
            }
            judge = config.Judge.model_validate(given)
            return server, config.default({}).model_copy(update={"judge": judge})

        yield make


def verdict(score, reason="because"):
    return answer({"score": score, "reason": reason})


def question(request):
    return request["messages"][1]["content"]


@pytest.mark.parametrize(("score", "status"), [(0.7, "pass"), (0.69, "fail")])
def test_an_answer_is_right_from_the_threshold_on(suite, said, run_of, judged, score, status):
    _server, settings = judged(verdict(score))
    assert run_of(suite("a"), [said(1, case="a")], settings).cases[0].status == status


def test_the_judge_sees_question_answer_and_expected_answer_inside_a_fence(
    suite, said, run_of, judged
):
    server, settings = judged(verdict(1.0))
    run_of(suite("a"), [said(1, "How is Rome?", "It is fine", case="a")], settings)
    fenced = question(server.calls[0]).partition("</untrusted-data")[0]
    assert all(
        x in fenced
        for x in (
            "User input:\n  How is Rome?",
            "agent:\n  It is fine",
            "Expected answer:\n  sunny",
        )
    )


def test_braces_and_dollars_in_what_is_compared_stay_as_they_are(suite, said, run_of, judged):
    server, settings = judged(verdict(1.0))
    run_of(suite("a"), [said(1, "{x} $transcript", "${answer} {0}", case="a")], settings)
    assert "{x} $transcript" in question(server.calls[0])
    assert "${answer} {0}" in question(server.calls[0])


def test_what_is_redacted_can_still_be_compared(suite, said, run_of, judged):
    server, settings = judged(verdict(1.0))
    case = {"id": "a", "expected_answer": "Write to ada@example.org"}
    run_of(
        suite(case),
        [said(1, answer="ada@example.org it is, not bob@example.org", case="a")],
        settings,
    )
    text = question(server.calls[0])
    word = re.search(r"<untrusted-data (\w+)>", text)[1]
    first, second = (f"[REDACTED:email{x} at example.org #{word}]" for x in ("", ":2"))
    assert f"{first} it is, not {second}" in text
    assert f"Write to {first}" in text


def test_no_interaction_sees_anything_of_another(suite, said, run_of, judged):
    server, settings = judged(verdict(0.9), verdict(0.9))
    turns = [
        {"input": "First?", "expected_answer": "one"},
        {"input": "Second?", "expected_answer": "two"},
    ]
    traces = [
        said(1, "First?", session_id="s", case="a"),
        said(2, "Second?", session_id="s", case="a"),
    ]
    run_of(suite({"id": "a", "turns": turns}), traces, settings)
    sent = [json.dumps(x["messages"]) for x in server.calls]
    assert ["First?" in x for x in sent] == [True, False]
    assert [len(x["messages"]) for x in server.calls] == [2, 2]


def test_a_judge_that_fails_makes_the_conversation_an_error(suite, said, run_of, judged):
    _server, settings = judged(verdict(1.0), refusal(400))
    turns = [
        {"input": "First?", "expected_answer": "one"},
        {"input": "Second?", "expected_answer": "two"},
    ]
    traces = [
        said(1, "First?", session_id="s", case="a"),
        said(2, "Second?", session_id="s", case="a"),
    ]
    [result] = run_of(suite({"id": "a", "turns": turns}), traces, settings).cases
    [evaluation] = result.trials[0].evaluations
    assert (result.status, result.n, evaluation.status, evaluation.value) == (
        "error",
        0,
        "failed",
        None,
    )


def test_an_answer_that_stays_invalid_is_an_error_and_no_zero(suite, said, run_of, judged):
    _server, settings = judged(answer("no idea"), answer("still no idea"))
    [result] = run_of(suite("a"), [said(1, case="a")], settings).cases
    assert result.reasons[0].startswith("trial 1: JudgeAnswerError: interaction 0: ")


def test_the_score_says_which_model_judged_with_which_prompt(suite, said, run_of, judged):
    _server, settings = judged(verdict(1.0))
    [evaluation] = run_of(suite("a"), [said(1, case="a")], settings).evaluations
    evaluator = evaluation.evaluator
    assert (evaluator.kind, evaluator.model, len(evaluator.prompt_hash)) == (
        "LLM",
        "openai/scripted",
        16,
    )
    assert (evaluation.usage.calls, evaluation.usage.input_tokens) == (1, 100)


def test_another_model_is_asked_without_the_key_of_the_configured_one(
    suite, said, judged, monkeypatch
):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "its-own-key-0123456789")
    server, settings = judged(verdict(1.0))
    monkeypatch.setenv("ANTHROPIC_API_BASE", server.url.removesuffix("/v1"))
    run_suite(suite("a"), [said(1, case="a")], settings=settings, model="anthropic/claude-x")
    assert server.calls
    assert not any(KEY in str(x) for x in server.headers)


def test_without_a_model_an_expected_answer_is_an_error_that_says_how_to_get_one(
    suite, said, run_of
):
    [result] = run_of(suite("a"), [said(1, case="a")], config.default({})).cases
    assert result.status == "error"
    assert "set judge.model or SPANSCORE_JUDGE_MODEL" in result.reasons[0]


def test_without_a_model_expected_tools_are_held_against_the_calls(suite, said, run_of):
    cases = [{"id": x, "expected_tools": [{"tool_name": x}]} for x in ("look_up", "book")]
    traces = [
        said(n, case=x, tool_calls=(ToolCall("1", "book", {}, 7),))
        for n, x in enumerate(("look_up", "book"), 1)
    ]
    run = run_of(suite(*cases, tools=["look_up"]), traces, config.default({}))
    assert [x.status for x in run.cases] == ["fail", "pass"]


def test_a_model_that_is_named_judges_where_none_is_configured(suite, said, judged):
    server, settings = judged(verdict(1.0))
    judge = settings.judge.model_copy(update={"model": None})
    run = run_suite(
        suite("a"),
        [said(1, case="a")],
        settings=settings.model_copy(update={"judge": judge}),
        model="openai/other",
    )
    assert [x["model"] for x in server.calls] == ["other"]
    assert run.evaluations[0].evaluator.model == "openai/other"
