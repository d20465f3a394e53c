"""Words and names as they are compared: texts made plain, verbs of tools, steps of a plan."""

from spanscore.metrics._evidence import reads
from spanscore.metrics._plans import steps_in
from spanscore.metrics._words import plain


def test_ascii_is_made_plain_like_any_other_text():
    every = "".join(map(chr, range(128)))
    assert plain(every + "\u00e9") == plain(every)[:-1] + "\u00e9 "


def test_a_plan_of_many_steps_is_bounded():
    assert len(steps_in("\n".join(f"{x % 90}. step {x}" for x in range(200)))) == 20


def test_a_tool_that_looks_up_is_known_by_its_verb():
    assert [reads(x) for x in ("get_weather", "searchFlights", "book_flight")] == [True, True, False]
