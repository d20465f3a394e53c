"""The rubric through litellm: one call, repaired once, whatever the session holds."""

import asyncio
import json
from dataclasses import replace

import pytest
from judge_harness import World, config_for
from judged_harness import graded, recorded
from obliging_model import question_of
from rubric_model import said
from scripted_server import ScriptedServer, answer, refusal

from spanscore.embed import Config as EmbedConfig, open_embedder
from spanscore.evaluation import Config, Engine
from spanscore.judge import ModelJudge
from spanscore.judge.cache import MemoryCache
from spanscore.judge.litellm import LiteLLM
from spanscore.judge.transcript import estimate_tokens
from spanscore.model.score import Failure, Score
from spanscore.model.trace import Session

FINE = {"justification": "x", "turns": [], "failure_code": None, "score": 3}
OFF_SCALE = {**FINE, "score": 9}


def content(reply):
    return json.loads(reply.body)["choices"][0]["message"]["content"]


def wrong(**fields):
    fine = {"justification": "x", "turns": [], "failure_code": None, "score": 4}
    return lambda request: said(request, tool_routing=fine | fields)


def test_one_request_scores_a_whole_session():
    with ScriptedServer(said) as server:
        found = graded(server)
    assert len(server.calls) == 1
    assert found["overall"].value == pytest.approx(80.0)


@pytest.mark.parametrize("json_schema", ["always", "never"])
def test_the_form_of_the_answer_is_told_either_way(json_schema):
    with ScriptedServer(said) as server:
        found = graded(server, json_schema=json_schema)
    assert all(isinstance(x.outcome, Score) for x in found.values())


def test_a_strict_schema_names_every_criterion_as_required():
    with ScriptedServer(said) as server:
        graded(server, json_schema="always")
    shown = server.calls[0]["response_format"]["json_schema"]
    assert shown["strict"]
    assert shown["schema"]["required"] == list(shown["schema"]["properties"])


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"turns": [4]}, "less than 4"),
        ({"turns": [True]}, "not true or false"),
        ({"turns": ["1"]}, "integer"),
        ({"score": 9}, "5"),
        ({"score": True}, "not true or false"),
        ({"score": 1}, "a fault needs a name"),
    ],
)
def test_an_answer_that_cannot_be_is_repaired_once_with_the_objection(fields, problem):
    with ScriptedServer(wrong(**fields), said) as server:
        found = graded(server)
    assert problem in server.calls[1]["messages"][-1]["content"]
    assert isinstance(found["tool_routing"].outcome, Score)


def test_what_is_wrong_twice_is_a_failure_of_that_criterion_and_of_the_whole():
    with ScriptedServer(wrong(turns=[4])) as server:
        found = graded(server)
    assert len(server.calls) == 2
    assert {name for name, x in found.items() if isinstance(x.outcome, Failure)} == {
        "tool_routing",
        "overall",
    }
    assert (
        "no valid answer on tool_routing, not even after one repair: tool_routing.turns.0: "
        in found["overall"].reason
    )


def test_what_is_valid_of_a_partly_invalid_answer_is_a_score_that_says_so():
    with ScriptedServer(wrong(score=9)) as server:
        found = graded(server)["response_delivery"]
    assert (found.value, found.outcome.metadata["answer_in_part"]) == (4.0, True)


def test_a_criterion_that_is_missing_twice_is_a_failure_by_itself():
    with ScriptedServer(lambda request: said(request, tool_routing=None)) as server:
        found = graded(server, rubric={"metrics": ["tool_routing", "response_delivery"]})
    assert [type(x.outcome) for x in found.values()] == [Failure, Score, Failure]


def test_outcomes_that_are_not_answered_twice_leave_the_whole_a_failure():
    case = {"expected_outcomes": ["A table is booked."]}
    with ScriptedServer(lambda request: said(request, expected_outcomes=[])) as server:
        found = graded(server, case=case)
    assert {name for name, x in found.items() if isinstance(x.outcome, Failure)} == {"overall"}
    assert "no valid answer on expected_outcomes" in found["overall"].reason


@pytest.mark.parametrize("text", ["no JSON at all", "{}", '{"tool_routing": {"score": 4}}'])
def test_an_answer_without_a_valid_criterion_is_a_failure_of_all(text):
    with ScriptedServer(answer(text)) as server:
        found = graded(server)
    assert {type(x.outcome) for x in found.values()} == {Failure}


def test_what_an_answer_drafted_is_not_mixed_with_what_it_concluded():
    def thinking(request):
        draft = said(request, tool_routing=FINE, response_delivery=OFF_SCALE)
        final = said(request, tool_routing=OFF_SCALE)
        return answer(f"First {content(draft)} but then {content(final)}")

    with ScriptedServer(thinking) as server:
        found = graded(server)
    assert (type(found["tool_routing"].outcome), found["response_delivery"].value) == (Failure, 4.0)


def test_part_of_an_answer_is_not_kept_for_the_next_time():
    with ScriptedServer(wrong(score=9)) as server:
        config = config_for(server)
        asking = ModelJudge(config, LiteLLM(config), MemoryCache(16), World().timing())
        engine = Engine(
            Config(default_metrics=False, rubric={}), asking, open_embedder(EmbedConfig())
        )
        session = Session("s", tuple(recorded()))

        async def twice():
            return [await engine.evaluate_rubric(session) for _ in range(2)]

        asyncio.run(twice())
    assert len(server.calls) == 4


def test_expected_outcomes_and_the_override_are_in_the_one_request():
    case = {
        "expected_outcomes": ["A table is booked."],
        "evaluation_criteria_override": "The time matters.",
    }
    with ScriptedServer(said) as server:
        found = graded(server, case=case)
    assert "1. A table is booked." in question_of(server.calls[0])
    assert question_of(server.calls[0]).index("untrusted-data") < question_of(
        server.calls[0]
    ).index("The time matters.")
    assert found["overall"].outcome.metadata["decided_by"] == "expected_outcomes"


def test_a_session_is_cut_to_the_budget_and_the_scores_say_so():
    with ScriptedServer(said) as server:
        found = graded(server, max_transcript_tokens=500)
    assert (
        len(server.calls[0]["messages"][1]["content"].split("</untrusted-data")[0].encode()) < 1600
    )
    assert found["tool_routing"].outcome.metadata["transcript_elided"]


def limited(context_tokens):
    """A model that refuses prompts beyond its context."""

    def reply(request):
        tokens = sum(estimate_tokens(message["content"]) for message in request["messages"])
        return (
            said(request)
            if tokens <= context_tokens
            else refusal(400, "too long", "context_length_exceeded")
        )

    return reply


@pytest.mark.slow
def test_a_session_too_long_for_the_model_is_shortened():
    with ScriptedServer(limited(12_000)) as server:
        long = [replace(x, final_output="Paris is warmer. " * 2000) for x in recorded()]
        found = graded(server, traces=long)

    assert {x.status for x in found.values()} == {"scored"}
    assert found["tool_routing"].outcome.metadata["transcript_elided"] is True
    assert sum(x.usage.calls for x in found.values()) == len(server.calls) > 1


def test_a_model_that_can_read_no_session_is_a_failure_that_says_so():
    with ScriptedServer(limited(100)) as server:
        found = graded(server)

    assert {x.outcome.type for x in found.values()} == {"JudgeTooLongError"}
    assert len(server.calls) < 10


def test_what_is_personal_does_not_leave():
    told = [replace(x, user_input="I am anna@example.com") for x in recorded()]
    with ScriptedServer(said) as server:
        graded(server, traces=told)
    assert "anna@example.com" not in question_of(server.calls[0])


def test_the_same_session_is_not_paid_for_twice():
    with ScriptedServer(said) as server:
        config = config_for(server)
        asking = ModelJudge(config, LiteLLM(config), MemoryCache(16), World().timing())
        engine = Engine(
            Config(default_metrics=False, rubric={}), asking, open_embedder(EmbedConfig())
        )
        session = Session("s", tuple(recorded()))

        async def twice():
            return [await engine.evaluate_rubric(session) for _ in range(2)]

        first, second = asyncio.run(twice())
    assert len(server.calls) == 1
    assert [x.outcome for x in first] == [x.outcome for x in second]
