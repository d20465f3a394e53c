"""What judges are asked: levels that can be told apart and agree with the threshold, in texts of
bounded length.
"""

import re

import pytest
from pydantic import ValidationError

from spanscore.judge.marks import NOTICE
from spanscore.judge.transcript import estimate_tokens
from spanscore.metrics import INSTRUCTIONS, Judged, available, criteria, rubric as criterial
from spanscore.metrics._base import CONDITIONS, DEFAULT_THRESHOLD, MET, UNKNOWN, Judgement
from spanscore.metrics.expected import AnswerCorrectness
from spanscore.metrics.session.conversation_completion import CONVERSATION_COMPLETION, Completion

BANDS = [(1.0, 1.0), (0.75, 0.99), (0.5, 0.74), (0.25, 0.49), (0.0, 0.24)]
BY_KEY = {
    question.key: question
    for metric in available().values()
    if issubclass(metric, Judged)
    for stage in metric.stages
    for question in stage
} | {CONVERSATION_COMPLETION.key: CONVERSATION_COMPLETION}
GUIDED = sorted(key for key, question in BY_KEY.items() if "Guide:" in question.text)
_RANGE = re.compile(r"(?:^|; )([01](?:\.\d+)?)(?: to (0\.\d+))? ")

every = pytest.mark.parametrize("key", sorted(BY_KEY))
every_guided = pytest.mark.parametrize("key", GUIDED)


def levels(text):
    """The levels of a question's guide: (lowest score, highest score, what it says)."""
    guide = text.partition("Guide: ")[2].partition("\n")[0]
    parts = _RANGE.split(guide)[1:]
    return [
        (float(low), float(high or low), said)
        for low, high, said in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]


def test_every_score_that_a_judge_gives_has_a_guide():
    judged = {x.name for x in available().values() if issubclass(x, Judged)} - {
        "argument_correctness"
    }
    assert judged | {"conversation_completion"} <= set(GUIDED)


@every_guided
def test_the_levels_of_a_guide_cover_the_scale(key):
    assert [(low, high) for low, high, _ in levels(BY_KEY[key].text)] == BANDS


@every_guided
def test_no_two_levels_of_a_guide_say_the_same(key):
    assert len({said.strip(" .;") for _, _, said in levels(BY_KEY[key].text)}) == len(BANDS)


@every_guided
def test_a_threshold_lies_between_two_levels(key):
    assert DEFAULT_THRESHOLD in {low for low, _, _ in levels(BY_KEY[key].text)}


def test_a_part_of_an_expected_answer_is_below_its_threshold():
    [[question]] = AnswerCorrectness.stages
    below = [high for _, high, said in levels(question.text) if "a part of what matters" in said]
    assert below[0] < AnswerCorrectness().threshold


@pytest.mark.parametrize("key", ["task_completion", "conversation_completion"])
def test_at_the_threshold_of_completion_stands_only_what_nobody_can_know(key):
    assert UNKNOWN in BY_KEY[key].text


@pytest.mark.parametrize("key", ["task_completion", "conversation_completion"])
def test_a_turn_and_a_conversation_are_complete_by_the_same_rules(key):
    assert MET in BY_KEY[key].text
    assert CONDITIONS in BY_KEY[key].text


@every
def test_a_question_has_a_bounded_length(key):
    assert estimate_tokens(BY_KEY[key].text) <= 1_400


def test_the_instructions_have_a_bounded_length():
    assert estimate_tokens(INSTRUCTIONS.replace(NOTICE, "")) <= 800


def test_the_default_rubric_has_a_bounded_length():
    chosen = [x.criterion for x in criteria().values() if x.criterion.in_defaults]
    assert estimate_tokens(criterial.question(chosen)) <= 3_200


@pytest.mark.parametrize("answer", [Judgement, Completion])
def test_a_judge_is_told_to_begin_with_what_counts_against_full_marks(answer):
    assert (
        "begin with what keeps it from 1.0"
        in answer.model_json_schema()["properties"]["reason"]["description"]
    )


@pytest.mark.parametrize("answer", [Judgement, Completion])
def test_a_judge_writes_the_score_last(answer):
    assert list(answer.model_fields)[-1] == "score"


def test_each_criterion_but_the_delivery_says_when_it_does_not_apply():
    always = [name for name, metric in criteria().items() if metric.criterion.no_occasion is None]
    assert always == ["response_delivery"]


@pytest.mark.parametrize("score", ["true", '"0.8"', "NaN", "Infinity", "1.2", "-0.1", "null"])
def test_what_is_no_number_on_the_scale_is_no_score_of_a_conversation(score):
    with pytest.raises(ValidationError):
        Completion.model_validate_json(
            f'{{"task": "t", "outcome": "o", "reason": "r", "score": {score}}}'
        )
