"""Of an answer of several parts each stands by itself, also where the answer breaks off."""

import json

import pytest
from hypothesis import given, strategies as st
from judge_harness import Verdict
from pydantic import BaseModel

from spanscore.judge.answer import (
    Invalid,
    UnusableAnswerError,
    kept_text,
    parts_of,
    read,
    was_cut_off,
)


class Each(BaseModel):
    """About one thing of a list."""

    call: int
    reason: str


SCHEMA = parts_of({"task": str, "verdict": Verdict, "each": Each}, ("each",))
TASK, VERDICT = "to know", {"score": 0.5, "reason": "half done"}
EACH = [{"call": 1, "reason": "a"}, {"call": 2, "reason": "b"}, {"call": 3, "reason": "c"}]
WHOLE = {"task": TASK, "verdict": VERDICT, "each": EACH}


def answered(**changes):
    return read(json.dumps({**WHOLE, **changes}), SCHEMA)


def test_a_whole_answer_is_valid_in_all_parts():
    answer = answered()

    assert (answer.task, answer.verdict.score, [x.call for x in answer.each]) == (
        TASK,
        0.5,
        [1, 2, 3],
    )


@pytest.mark.parametrize("wrong", [7, None, ["to know"]])
def test_a_part_that_is_wrong_leaves_the_others(wrong):
    answer = answered(task=wrong)

    assert isinstance(answer.task, Invalid)
    assert answer.verdict.score == 0.5


def test_a_part_that_is_missing_leaves_the_others():
    answer = read(json.dumps({"task": TASK}), SCHEMA)

    assert (answer.task, answer.verdict, answer.each) == (
        TASK,
        Invalid("It is missing."),
        Invalid("It is missing."),
    )


def test_an_element_that_is_wrong_leaves_the_others():
    answer = answered(each=[{"call": "1", "reason": "a"}, *EACH[1:]])

    assert [isinstance(x, Invalid) for x in answer.each] == [True, False, False]


def test_what_is_wrong_with_a_part_is_told():
    assert (
        "less than or equal to 1"
        in answered(verdict={"score": 7, "reason": "much"}).verdict.problem
    )


def test_an_answer_without_any_valid_part_is_of_no_use():
    with pytest.raises(UnusableAnswerError):
        read(json.dumps({"task": 1, "verdict": {}, "each": {}}), SCHEMA)


def test_two_answers_in_part_that_differ_are_of_no_use():
    drafts = [json.dumps({"task": task, "each": EACH}) for task in ("to know", "to go")]

    with pytest.raises(UnusableAnswerError, match="differ"):
        read(" ".join(drafts), SCHEMA)


def test_an_answer_that_breaks_off_in_a_list_has_the_elements_before():
    answer = read(json.dumps(WHOLE)[:-12], SCHEMA)

    assert ([x.call for x in answer.each], was_cut_off(answer)) == ([1, 2], True)


def test_a_number_that_may_have_lost_its_end_is_not_taken():
    answer = read('{"task": "to know", "verdict": {"reason": "half done", "score": 0.1', SCHEMA)

    assert (answer.task, answer.verdict.cut_off) == (TASK, True)


@pytest.mark.parametrize("end", ['["look', '["look it up", "rep', "[", '["look it up"]'])
def test_a_part_that_is_a_list_is_missing_where_it_breaks_off(end):
    schema = parts_of({"task": str, "plan": list[str], "each": Each}, ("each",))

    answer = read('{"task": "to know", "plan": ' + end, schema)

    assert (answer.task, answer.plan.cut_off) == (TASK, True)


def test_an_answer_that_breaks_off_inside_a_fence_is_read():
    assert read("Here it is:\n```json\n" + json.dumps(WHOLE)[:-30], SCHEMA).task == TASK


@given(st.integers(min_value=0, max_value=len(json.dumps(WHOLE)) - 1))
def test_whatever_an_answer_breaks_off_at_nothing_wrong_is_taken(end):
    try:
        answer = read(json.dumps(WHOLE)[:end], SCHEMA)
    except UnusableAnswerError:
        return
    taken = {"task": answer.task, "verdict": answer.verdict}
    right = {"task": TASK, "verdict": Verdict(**VERDICT)}
    assert all(isinstance(x, Invalid) or x == right[name] for name, x in taken.items())
    assert isinstance(answer.each, Invalid) or list(answer.each) == [
        Each(**x) for x in EACH[: len(answer.each)]
    ]


@pytest.mark.parametrize(
    "text", [json.dumps(WHOLE), json.dumps({**WHOLE, "task": 7}), json.dumps(WHOLE)[:-12]]
)
def test_an_answer_that_was_kept_is_read_as_it_was(text):
    answer = read(text, SCHEMA)

    assert read(kept_text(answer), SCHEMA) == answer
    assert was_cut_off(read(kept_text(answer), SCHEMA)) == was_cut_off(answer)
