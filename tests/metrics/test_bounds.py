"""What the rules judge leaves out of a trace that is larger than any should be, so that it holds up nobody else."""

import pytest

from spanscore.metrics import Evidence, Judged, available
from spanscore.metrics._evidence import MAX_CALLS, MAX_CALLS_CHARS
from spanscore.metrics._grounding import Said
from spanscore.metrics._vocabulary import Vocabulary
from spanscore.metrics._words import MAX_TEXT_CHARS, holds, plain
from spanscore.model.trace import ModelCall, ToolCall

JUDGED = [x for x in available().values() if issubclass(x, Judged)]


class Watched(str):
    """A text that counts how often somebody goes through it."""

    __slots__ = ("readings",)

    def __init__(self, text):
        self.readings = 0

    def split(self, *args):
        self.readings += 1
        return super().split(*args)

    def __contains__(self, part):
        self.readings += 1
        return super().__contains__(part)

    def find(self, *args):
        self.readings += 1
        return super().find(*args)


def many(count, result="sunny", error=None):
    return tuple(ToolCall(None, "get_weather", {"city": f"Rome {i}"}, result, error) for i in range(count))


def test_what_was_said_is_gone_through_once_however_many_values_are_sought():
    text = Watched(plain("the weather in Rome"))
    said = Said("", "", "")
    said.add("", text)
    assert not any(said.grounds(f"somewhere {x}") for x in range(2, 200))
    assert text.readings == 1


@pytest.mark.parametrize("word", ["flight", "booking", "2", "two", "5", "rome", "2024"])
def test_a_vocabulary_holds_what_the_text_holds(word):
    text = plain("Two flights booked to Rom, 12 seats, 2024-05-20")
    assert Vocabulary(text.split()).holds(word) == holds(text, word)


def test_only_so_many_calls_are_looked_at(make_trace):
    assert len(Evidence(make_trace(tool_calls=many(MAX_CALLS + 1))).calls) == MAX_CALLS


def test_only_so_much_of_what_calls_hold_is_read(make_trace):
    evidence = Evidence(make_trace(tool_calls=many(MAX_CALLS, "word " * 400)))
    assert sum(map(len, evidence.raw_results)) <= MAX_CALLS_CHARS


def test_the_first_call_is_looked_at_however_much_it_holds(make_trace):
    assert len(Evidence(make_trace(tool_calls=many(1, ["word"] * MAX_CALLS_CHARS))).calls) == 1


def test_only_so_much_of_what_models_wrote_is_read(make_trace):
    models = tuple(ModelCall(str(i), text=f"{i} " + "word " * 10_000) for i in range(100))
    assert len(Evidence(make_trace(model_calls=models)).written) < MAX_CALLS_CHARS + 2 * MAX_TEXT_CHARS


def test_calls_that_were_left_out_may_have_used_a_result(make_trace):
    assert Evidence(make_trace(tool_calls=many(MAX_CALLS + 1), final_output="no")).unused == []


def test_a_call_that_was_left_out_makes_good_a_failed_one(make_trace):
    calls = (*many(MAX_CALLS, None, "503"), *many(1))
    assert Evidence(make_trace(tool_calls=calls)).unrecovered == []


def test_dates_are_taken_for_said_where_too_many_places_would_have_to_be_looked_at():
    text = plain("5 " * 45_000)
    said = Said("", text, text)
    assert said.grounds("2024-12-31")
