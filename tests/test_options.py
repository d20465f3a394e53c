import pytest
from pydantic import Field, TypeAdapter, ValidationError

from spanscore.model.options import Options


class Pause(Options):
    """How long to wait."""

    seconds: int = 1
    """How many seconds."""

    kind: str = Field(default="short", alias="type")
    """What kind of pause
    it is."""

    unit: str = Field(default="s", description="The unit.")
    """A docstring beside a description."""

    silent: bool = False


class LongPause(Pause):
    seconds: int = 60

    reason: str = ""
    """Why it is long."""


class Retry(Options):
    first: Pause = Pause()
    """How long to wait."""

    later: Pause = Pause()
    """The pause before each further try."""


def described(model):
    return {
        name: x.get("description")
        for name, x in TypeAdapter(model).json_schema()["properties"].items()
    }


def test_the_docstring_below_an_option_describes_it_by_the_name_that_is_written():
    assert described(Pause) == {
        "seconds": "How many seconds.",
        "type": "What kind of pause it is.",
        "unit": "The unit.",
        "silent": None,
    }


def test_an_option_has_the_docstring_of_the_class_that_it_was_inherited_from():
    assert described(LongPause)["seconds"] == "How many seconds."
    assert described(LongPause)["reason"] == "Why it is long."


def test_the_description_of_a_nested_model_is_not_repeated():
    assert described(Retry) == {"first": None, "later": "The pause before each further try."}


def test_options_that_are_not_known_are_refused():
    with pytest.raises(ValidationError, match="Extra inputs"):
        Pause(second=1)
