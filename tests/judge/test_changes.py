"""What a rule changes of the judge."""

import pytest

from spanscore.judge import open_judge
from spanscore.judge.config import Budget, Cascade, Changes, Config

JUDGE = Config(
    model="openai/gpt-4o-mini",
    api_key="a-key",
    fallback_models=("openai/gpt-4o",),
    max_transcript_tokens=9000,
    extra={"reasoning_effort": "low"},
)


def test_what_is_not_set_stays_as_configured():
    assert Changes().applied(JUDGE) == JUDGE


def test_parameters_are_changed_one_by_one():
    changed = Changes(samples=3, max_output_tokens=100).applied(JUDGE)
    assert (changed.samples, changed.max_output_tokens, changed.max_transcript_tokens) == (
        3,
        100,
        9000,
    )


def test_a_temperature_can_be_set_to_the_models_own():
    assert Changes(temperature=None).applied(JUDGE).temperature is None


def test_further_parameters_are_added_to_the_configured_ones():
    assert Changes(extra={"top_p": 0.5}).applied(JUDGE).extra == {
        "reasoning_effort": "low",
        "top_p": 0.5,
    }


def test_a_model_of_the_same_provider_keeps_key_and_fallbacks():
    changed = Changes(model="openai/gpt-4o").applied(JUDGE)
    assert (changed.models, changed.api_key) == (("openai/gpt-4o", "openai/gpt-4o"), JUDGE.api_key)


def test_a_model_of_another_provider_gets_neither():
    changed = Changes(model="anthropic/claude-sonnet-4-5").applied(JUDGE)
    assert (changed.models, changed.api_key) == (("anthropic/claude-sonnet-4-5",), None)


def test_another_model_is_asked_without_a_cascade():
    cascade = Cascade(model="openai/gpt-4o-mini", unsure={"confidence": (0.4, 0.6)})
    judge = JUDGE.model_copy(update={"cascade": cascade})
    assert Changes(model="openai/gpt-4o").applied(judge).cascade is None
    assert Changes(samples=2).applied(judge).cascade == cascade


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": ""}, "at least 1 character"),
        ({"extra": {"model": "x"}}, "model cannot be set here"),
        ({"modle": "x"}, "Extra inputs are not permitted"),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Changes.model_validate(changes)


def test_samples_that_would_be_alike_are_refused():
    with pytest.raises(ValueError, match="asks for the same answer 3 times"):
        Changes(samples=3, temperature=0).applied(JUDGE)


def test_the_judge_of_a_rule_pays_from_the_same_budget():
    pytest.importorskip("litellm")
    usual = open_judge(JUDGE.model_copy(update={"budget": Budget(max_tokens=1000)}))
    other = open_judge(Changes(model="openai/gpt-4o").applied(JUDGE), beside=usual)
    assert other.purse is usual.purse
