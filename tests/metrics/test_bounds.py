"""What is left out of a trace that is larger than any should be, so that it holds up nobody
else.
"""

from spanscore.metrics import Evidence
from spanscore.metrics.check._check import MAX_CALLS, MAX_CALLS_CHARS, plain
from spanscore.model.trace import ToolCall


def many(count, result="sunny", error=None):
    return tuple(
        ToolCall(None, "get_weather", {"city": f"Rome {i}"}, result, error) for i in range(count)
    )


def test_only_so_many_calls_are_looked_at(make_trace):
    assert len(Evidence(make_trace(tool_calls=many(MAX_CALLS + 1))).calls) == MAX_CALLS


def test_only_so_much_of_what_calls_hold_is_read(make_trace):
    evidence = Evidence(make_trace(tool_calls=many(MAX_CALLS, "word " * 400)))
    assert sum(len(x.strip()) for x in evidence.results) <= MAX_CALLS_CHARS


def test_the_first_call_is_looked_at_however_much_it_holds(make_trace):
    assert len(Evidence(make_trace(tool_calls=many(1, ["word"] * MAX_CALLS_CHARS))).calls) == 1


def test_ascii_is_made_plain_like_any_other_text():
    every = "".join(map(chr, range(128)))
    assert plain(every + "\u00e9") == plain(every)[:-1] + "\u00e9 "
