"""Schemas as providers enforce them, and answers as models write them."""

import json
from typing import Any, Literal

import jsonschema
import pytest
from hypothesis import given, strategies as st
from judge_harness import GOOD, Verdict
from pydantic import BaseModel, Field

from spanscore.judge.answer import UnusableAnswerError, read, read_parts, response_format
from spanscore.metrics import Judgement

LENIENT = "{'reason': 'half done', // so far\n 'score': 0.5,}"


class Item(BaseModel):
    title: str = Field(description="a property called title")
    verdict: Literal["yes", "no"]


class Nested(BaseModel):
    items: list[Item] = Field(min_length=1)
    note: str | None = None


class FreeForm(BaseModel):
    facts: dict[str, Any]


def shown(answer):
    return response_format(answer)["json_schema"]


def test_every_object_of_a_strict_schema_requires_all_it_has():
    schema = shown(Nested)["schema"]

    assert (schema["required"], schema["$defs"]["Item"]["required"]) == (
        ["items", "note"],
        ["title", "verdict"],
    )


def test_every_object_of_a_strict_schema_allows_nothing_else():
    schema = shown(Nested)["schema"]

    assert (schema["additionalProperties"], schema["$defs"]["Item"]["additionalProperties"]) == (
        False,
        False,
    )


def test_bounds_are_left_to_our_own_validation():
    assert shown(Verdict)["schema"]["properties"]["score"] == {"type": "number"}


def test_a_property_may_bear_the_name_of_a_keyword():
    assert shown(Nested)["schema"]["$defs"]["Item"]["properties"]["title"]["type"] == "string"


def test_a_schema_with_free_form_objects_is_a_guide_only():
    assert shown(FreeForm)["strict"] is False


@pytest.mark.parametrize("answer", [Verdict, Nested, FreeForm])
def test_what_is_sent_is_a_valid_json_schema(answer):
    jsonschema.Draft202012Validator.check_schema(shown(answer)["schema"])


@given(st.text(alphabet='{}[]":,ab1 \\', max_size=200))
def test_reading_anything_gives_an_answer_or_the_reason_why_not(text):
    with pytest.raises(UnusableAnswerError):
        read(text, Verdict)


def test_deep_nesting_is_no_answer():
    with pytest.raises(UnusableAnswerError):
        read('{"a":' * 100_000, Verdict)


def test_the_reason_names_each_field_that_is_wrong():
    with pytest.raises(UnusableAnswerError, match=r"score: .*; reason: Field required"):
        read('{"score": "high"}', Verdict)


@pytest.mark.parametrize(
    "score", ["true", '"0.8"', "NaN", "Infinity", "-Infinity", "1.2", "-0.1", "null", "[0.5]"]
)
def test_what_is_no_number_on_the_scale_is_no_judgement(score):
    with pytest.raises(UnusableAnswerError, match="score"):
        read(f'{{"reason": "fine", "score": {score}}}', Judgement)


@pytest.mark.parametrize("score", ["0", "1", "0.8", "1e-1"])
def test_a_number_on_the_scale_is_one(score):
    assert read(f'{{"reason": "fine", "score": {score}}}', Judgement).score == float(score)


class FreeFormList(BaseModel):
    """Some free-form objects, at least two."""

    found: list[dict[str, int]] = Field(min_length=2)


def test_a_guide_has_no_bounds_which_some_providers_refuse():
    assert "minItems" not in json.dumps(shown(FreeFormList))


def test_a_list_that_is_too_short_is_no_answer():
    with pytest.raises(UnusableAnswerError):
        read('{"found": [{"a": 1}]}', FreeFormList)


@pytest.mark.parametrize(
    "text",
    [
        '{"score": 0.5, "reason": "half done",}',
        '{"score": 0.5, // as it is\n"reason": "half done"}',
        '{"score": 0.5, /* as it is */ "reason": "half done"}',
        "{'score': 0.5, 'reason': 'half done'}",
        json.dumps(json.dumps(GOOD)),
        f"The answer: {json.dumps(json.dumps(GOOD))}.",
        json.dumps({"result": GOOD}),
        json.dumps({"result": json.dumps(GOOD)}),
        '{"result": {"score": 0.5, "reason": "half done"},}',
        f"{json.dumps(GOOD)} To repeat it: {json.dumps(GOOD)}",
        f"Of the set {{a, b}} this: {json.dumps(GOOD)}",
    ],
)
def test_what_is_nearly_json_is_read(text):
    assert read(text, Verdict).model_dump() == GOOD


def test_a_line_break_may_stand_in_a_string():
    assert read('{"score": 0.5, "reason": "half\ndone"}', Verdict).reason == "half\ndone"


@pytest.mark.parametrize(
    "text",
    [
        '{"score": 0.8, "reason": "a"} {"score": 0.2, "reason": "a"}',
        '{"score": 0.8, "reason": "a"} No: {"score": 0.2, "reason": "a",}',
        '{"score": 0.8, "reason": "a"} {"result": {"score": 0.1, "reason": "b"}}',
        '{"score": 0, "reason": "none yet"}\n```json\n{"score": 0.8, "reason": "a"}\n```',
    ],
)
def test_two_valid_objects_that_differ_are_no_answer(text):
    with pytest.raises(UnusableAnswerError, match="differ"):
        read(text, Verdict)


@given(st.integers(min_value=0, max_value=len(LENIENT) - 1))
def test_nearly_json_that_is_cut_off_is_no_answer(end):
    with pytest.raises(UnusableAnswerError):
        read(LENIENT[:end], Verdict)


def test_a_part_on_which_two_objects_differ_is_not_taken():
    schemas = {"a": Item, "b": Verdict}
    one, other = ({"title": "x", "verdict": x, **GOOD} for x in ("yes", "no"))

    parts = read_parts(json.dumps(one) + json.dumps(other), schemas)

    assert (type(parts["a"]), parts["b"].score) == (UnusableAnswerError, 0.5)
