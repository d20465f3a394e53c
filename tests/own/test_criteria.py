"""A criterion in plain words: what the judge is asked, which answers it may give, and what becomes
of them.
"""

import asyncio
import json

import pytest
from pydantic import ValidationError

import spanscore
from spanscore.errors import InputError
from spanscore.evaluation import Config, Engine
from spanscore.judge.answer import UnusableAnswerError, read
from spanscore.judge.config import Config as JudgeConfig
from spanscore.judge.port import Answer
from spanscore.metrics import available
from spanscore.model.score import JudgeUsage
from spanscore.model.trace import Session


class Judge:
    """Gives every criterion one score; keeps what it was asked."""

    def __init__(self, score=1.0):
        self.score = score
        self.asked = []

    async def ask(self, prompt, schema, *, models=()):
        self.asked.append((prompt, schema, models))
        said = {"reason": "because", "score": self.score}
        alone = "score" in schema.model_fields
        value = read(
            json.dumps(said if alone else dict.fromkeys(schema.model_fields, said)), schema
        )
        return Answer(value, models[0] if models else "scripted", JudgeUsage(1, 100, 10, 0.01))


def asked_about(criterion):
    return criterion.stages[0][0]


def answer(criterion, score):
    return read(
        json.dumps({"reason": "because", "score": score}), asked_about(criterion).answer
    ).score


def test_a_criterion_is_among_the_metrics():
    spanscore.criterion("kind", "Is the answer kind?")
    assert (available()["kind"].summary, available()["kind"].method) == (
        "Is the answer kind?",
        "judge",
    )


def test_a_judge_scores_it(measured):
    spanscore.criterion("kind", "Is the answer kind?")
    found = measured("kind", judge=Judge(0.75))
    assert (found.value, found.reason, found.label, found.evaluator.kind) == (
        0.75,
        "because",
        "pass",
        "LLM",
    )


def test_what_is_asked_stands_after_the_fenced_transcript(measured):
    spanscore.criterion("kind", "Is the answer kind to $name?", anchors={0: "rude", 10: "kind"})
    judge = Judge(5)
    measured("kind", judge=judge)
    [(prompt, _, _)] = judge.asked
    assert prompt.question.startswith(
        "Is the answer kind to $name?\nscore: a whole number from 0 to 10."
    )
    assert "- 10: kind\n- 0: rude" in prompt.question
    assert "The weather in Rome is sunny" in prompt.transcript


def test_a_question_without_anchors_has_a_guide():
    assert "Guide: 1 is a full yes" in asked_about(spanscore.criterion("kind", "Is it kind?")).text


def test_it_shares_a_call_with_the_metrics_of_a_fused_plan(make_trace):
    spanscore.criterion("kind", "Is it kind?")
    spanscore.criterion("task", "Is it a task?")  # which is a question's key elsewhere
    judge = Judge(0.5)
    config = Config(default_metrics=False, metrics={"kind": {}, "task": {}, "confidence": {}})
    engine = Engine(config, judge, None, judge_config=JudgeConfig(plan="fused"))
    found = asyncio.run(engine.evaluate_trace(make_trace()))
    assert (len(judge.asked), [x.value for x in found]) == (1, [0.5, 0.5, 0.5])


def test_a_criterion_of_sessions_is_judged_of_the_whole(measured, make_trace):
    spanscore.criterion("kind", "Was the agent kind throughout?", scope="session")
    judge = Judge(0.5)
    session = Session(
        "s", tuple(make_trace(n, session_id="s", final_output=f"answer {n}") for n in (1, 2))
    )
    found = measured("kind", session, judge=judge)
    assert (found.scope, found.value) == ("session", 0.5)
    assert all(text in judge.asked[0][0].transcript for text in ("answer 1", "answer 2"))


def test_without_a_judge_it_is_skipped(measured):
    spanscore.criterion("kind", "Is it kind?")
    assert measured("kind").outcome.cause == "no_judge"


def test_a_fact_that_it_needs_and_was_not_recorded_is_a_skip(measured, make_trace):
    spanscore.criterion("kind", "Is it kind?", needs=["system_instructions"])
    found = measured("kind", make_trace(system_instructions=None), judge=Judge())
    assert found.reason == "The trace did not record system_instructions."


def test_the_judge_may_say_that_it_does_not_apply(measured):
    spanscore.criterion(
        "sorry", "Did it say sorry?", not_applicable="the user had nothing to complain of"
    )
    judge = Judge("not_applicable")
    assert measured("sorry", judge=judge).outcome.cause == "not_applicable"
    assert "it does not apply: the user had nothing to complain of" in judge.asked[0][0].question


@pytest.mark.parametrize("score", [True, "0.5", 1.5, None, "not_applicable"])
def test_an_answer_off_the_scale_is_refused(score):
    with pytest.raises(UnusableAnswerError):
        answer(spanscore.criterion("kind", "Is it kind?"), score)


def test_a_long_scale_is_answered_in_whole_numbers():
    criterion = spanscore.criterion("kind", "How kind is it?", scale=(1, 5))
    assert answer(criterion, 4) == 4
    with pytest.raises(UnusableAnswerError):
        answer(criterion, 4.5)


@pytest.mark.parametrize(
    "given",
    [{"scale": "yes/no"}, {"anchors": {True: "kind", False: "rude"}}, {"anchors": {"yes": "kind"}}],
)
def test_yes_or_no_is_answered_with_true_or_false(measured, given):
    criterion = spanscore.criterion("kind", "Is it kind?", **given)
    assert answer(criterion, score=True) is True
    assert measured("kind", judge=Judge(score=True)).value == 1.0
    assert measured("kind", judge=Judge(score=False)).label == "fail"
    with pytest.raises(UnusableAnswerError):
        answer(criterion, 1)


def test_the_scale_reaches_from_the_lowest_to_the_highest_anchor(measured):
    spanscore.criterion("kind", "How kind?", anchors={1: "rude", 3: "polite", 5: "kind"})
    found = measured("kind", judge=Judge(3))
    assert (found.scale, found.threshold, found.label) == ((1.0, 5.0), 3.0, "pass")


def test_its_own_model_judges_it(measured):
    spanscore.criterion("kind", "Is it kind?", model="openai/own")
    judge = Judge()
    assert measured("kind", judge=judge).evaluator.model == "openai/own"


def test_other_words_have_another_hash(measured):
    hashes = set()
    for ask in ("Is it kind?", "Is it very kind?"):
        spanscore.criterion("kind", ask)
        hashes.add(measured("kind", judge=Judge()).evaluator.prompt_hash)
    assert len(hashes) == 2


@pytest.mark.parametrize(
    ("name", "ask", "settings", "what"),
    [
        ("kind", "", {}, "ask: write a text"),
        ("kind", None, {}, "ask: write a text"),
        ("kind", "x" * 5000, {}, "longer than 4000 characters"),
        ("Kind", "Is it?", {}, "snake_case"),
        ("coherence", "Is it?", {}, "of its own"),
        ("kind", "Is it?", {"scale": (5, 1)}, "the lower one first"),
        ("kind", "Is it?", {"scale": "1-5"}, "give its two ends"),
        ("kind", "Is it?", {"anchors": {"good": "kind"}}, "not all numbers"),
        ("kind", "Is it?", {"anchors": {7: "kind"}}, "anchors: 7 is not on the scale"),
        ("kind", "Is it?", {"anchors": {1: "kind"}, "scale": "yes/no"}, "neither yes nor no"),
        ("kind", "Is it?", {"anchors": {1: ""}}, "the anchor 1: write a text"),
        ("kind", "Is it?", {"threshold": 7}, "not on the scale"),
        ("kind", "Is it?", {"needs": ["answer"]}, "a trace has no fact 'answer'"),
        ("kind", "Is it?", {"scope": "span"}, "neither 'trace' nor 'session'"),
    ],
)
def test_what_cannot_be_asked_is_refused(name, ask, settings, what):
    with pytest.raises(InputError, match=what):
        spanscore.criterion(name, ask, **settings)


def test_a_criterion_of_the_configuration_runs(measured):
    config = Config(default_metrics=False, criteria={"kind": {"ask": "Is it kind?"}})
    assert [x.name for x in config.build()] == ["kind"]
    assert measured("kind", judge=Judge()).value == 1.0


def test_a_configuration_may_give_options_to_its_own_criterion():
    config = Config(
        default_metrics=False, criteria={"kind": {"ask": "?"}}, metrics={"kind": {"threshold": 0.9}}
    )
    assert [x.threshold for x in config.build()] == [0.9]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"ask": ""}, "ask: write a text"),
        ({"ask": "?", "scale": True}, "True is no scale"),
        ({"ask": "?", "scale": [1]}, "give its two ends"),
        ({"ask": "?", "needs": ["answer"]}, "a trace has no fact 'answer'"),
        ({"ask": "?", "anchors": {"good": "kind"}}, "not all numbers"),
        ({"ask": "?", "scope": "span"}, "Input should be 'trace' or 'session'"),
        ({"ask": "?", "asks": "?"}, "Extra inputs"),
        ({}, "Field required"),
    ],
)
def test_a_criterion_of_the_configuration_that_cannot_be_asked_is_refused(given, what):
    with pytest.raises(ValidationError, match=what):
        Config(criteria={"kind": given})
