"""What is read on from an earlier input is what reading all of it tells, whatever both hold."""

import json

import pytest
from hypothesis import example, given, settings, strategies as st

from spanscore.dialects.forms.messages import MessageCache, messages

ITEMS = (
    {"role": "user", "content": "a"},
    {"role": "user", "parts": [{"type": "text", "content": "x"}]},
    {
        "role": "assistant",
        "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": "r"},
    {"text": "t"},
    {"x": 1},
    {},
    "b",
    "",
    ["c"],
    [],
    [{"role": "user", "content": "n"}],
    1,
    None,
)
items = st.lists(st.sampled_from(ITEMS), max_size=3)


@pytest.mark.slow
@settings(max_examples=300)
@given(items, items, st.sampled_from((None, 2)), st.sampled_from(("", "[", "x")))
@example(["x"], ["y"], None, "")
def test_an_input_that_goes_on_is_read_as_if_it_stood_alone(first, more, indent, behind):
    given_first, given_next = (json.dumps(x, indent=indent) for x in (first, first + more))
    histories = MessageCache()
    histories.messages(given_first)
    assert histories.messages(given_next + behind) == messages(given_next + behind)
