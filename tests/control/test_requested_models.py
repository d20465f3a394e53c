"""Which models a request may name, by the configuration."""

import pytest

from spanscore.config import Settings
from spanscore.control.measurer import RequestedModels
from spanscore.errors import FieldError
from spanscore.specs import MeasureSpec, RunSpec

CLOSED = {"tenancy": {"enabled": True}}


def field_refused(model, judge=None, **settings):
    """The field of which a request that names `model` is refused; None: it is not."""
    requested = RequestedModels(Settings.model_validate({"judge": judge or {}, **settings}))
    try:
        requested.require(model, "model")
    except FieldError as error:
        return error.field
    return None


@pytest.mark.parametrize(
    "model",
    [
        "oobabooga/http://127.0.0.1:9/x?y=",
        "a b",
        "a\nb",
        "m" * 201,
        "openai/../x",
        "openai/x?y",
        "é",
        "",
    ],
)
def test_a_name_that_contains_an_address_or_is_none_is_refused(model):
    assert field_refused(model, {"allowed_models": ["*"]}) == "model"


@pytest.mark.parametrize(
    "model",
    [
        None,
        "gpt-4o",
        "bedrock/arn:aws:bedrock:us-east-1:1:inference-profile/a.b",
        "cloudflare/@cf/meta/llama",
    ],
)
def test_without_tokens_and_tenants_any_other_model_may_be_named(model):
    assert field_refused(model) is None


def test_with_tenants_a_model_that_is_not_configured_is_refused():
    assert field_refused("gpt-4o", **CLOSED) == "model"


def test_with_tokens_a_model_that_is_not_configured_is_refused():
    closed = {
        "extensions": {"bearertokenauth": {"token": "secret"}},
        "api": {"auth": {"authenticator": "bearertokenauth"}},
    }
    assert field_refused("gpt-4o", **closed) == "model"


@pytest.mark.parametrize(
    "model", ["a/judge", "a/fallback", "a/cheap", "a/own", "a/http://localhost:1"]
)
def test_what_the_configuration_names_may_be_named(model):
    judge = {
        "model": "a/judge",
        "fallback_models": ["a/fallback", "a/http://localhost:1"],
        "cascade": {"model": "a/cheap", "unsure": {"task_completion": [0.1, 0.9]}},
    }
    own = {"metrics": {"task_completion": {"model": "a/own"}}}
    assert field_refused(model, judge, evaluation=own, **CLOSED) is None


@pytest.mark.parametrize(
    ("model", "field"), [("openai/x", None), ("one", None), ("one-more", "model"), ("b/x", "model")]
)
def test_what_is_allowed_may_be_named_and_nothing_else(model, field):
    assert field_refused(model, {"allowed_models": ["openai/*", "one"]}) == field


@pytest.mark.parametrize(
    ("measure", "field"),
    [
        ({"model": "gpt-4o"}, "measure.model"),
        (
            {"metrics": ["task_completion"], "options": {"task_completion": {"model": "gpt-4o"}}},
            "measure.options.task_completion.model",
        ),
    ],
)
def test_a_run_is_refused_by_the_path_of_the_field(measure, field):
    requested = RequestedModels(Settings.model_validate(CLOSED))
    with pytest.raises(FieldError, match="allowed_models") as refused:
        requested.require_all(MeasureSpec.model_validate(measure))
    assert refused.value.field == field


def test_a_run_whose_model_is_an_address_is_not_created(server):
    with pytest.raises(FieldError, match="no model's name"):
        server.do(
            server.runs.create(
                "", RunSpec(measure=MeasureSpec(model="oobabooga/http://127.0.0.1:1/"))
            )
        )
