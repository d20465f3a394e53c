"""The quick way of reading a message of the conventions tells what the full one does, whatever is
in the message.
"""

import pytest
from hypothesis import given, settings, strategies as st

from spanscore.dialects.forms import messages

texts = st.sampled_from(
    (
        "",
        "Hi",
        "0",
        "null",
        "[]",
        '{"a": 1}',
        "[REDACTED]",
        "***",
        "It is...[truncated]",
        "[1,",
        "00042",
        '"q"',
        "Error: x",
    )
)
ids = st.sampled_from(("c1", "c2", "", "<not specified>", "[REDACTED]", None, 5))
values = st.one_of(
    texts,
    st.sampled_from(
        (
            None,
            0,
            False,
            [],
            {},
            {"q": "***"},
            {"result": 1},
            ["x"],
            [{"type": "text", "text": "y"}],
        )
    ),
)
more = st.dictionaries(
    st.sampled_from(("result", "is_error", "status", "function", "text")),
    values | st.sampled_from((True, "error")),
    max_size=1,
)
parts = st.one_of(
    st.builds(lambda x, y: {"type": "text", "content": x, **y}, values, more),
    st.builds(
        lambda x, n, a, y: {"type": "tool_call", "id": x, "name": n, "arguments": a, **y},
        ids,
        texts,
        values,
        more,
    ),
    st.builds(
        lambda x, r, y: {"type": "tool_call_response", "id": x, "response": r, **y},
        ids,
        values,
        more,
    ),
    st.builds(lambda x: {"type": "reasoning", "content": x}, texts),
)
beside = st.dictionaries(
    st.sampled_from(("content", "id", "tool_call_id", "reasoning_content", "is_error", "name")),
    values,
    max_size=1,
)
roles = st.sampled_from(("user", "assistant", "system", "tool", "model", "", None))


@pytest.mark.slow
@settings(max_examples=300)
@given(
    st.builds(
        lambda role, x, y: {"role": role, "parts": x, **y},
        roles,
        st.lists(parts, max_size=3),
        beside,
    )
)
def test_the_quick_way_tells_what_the_full_one_does(item):
    plain = messages.plain_message(item)
    assert plain in (None, messages.message(item, "user"))


def test_the_quick_way_reads_what_nearly_all_messages_are():
    call = {"type": "tool_call", "id": "c1", "name": "f", "arguments": {"q": 1}}
    result = {"type": "tool_call_response", "id": "c1", "response": "15C"}
    for role, part in (
        ("user", {"type": "text", "content": "Hi"}),
        ("assistant", call),
        ("tool", result),
    ):
        assert messages.plain_message({"role": role, "parts": [part]}) is not None
