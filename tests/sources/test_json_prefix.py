import json

import pytest
from hypothesis import given, strategies as st

from spanscore.sources.http import whole_prefix

TEXTS = st.text(alphabet='ab"\\{}[],: \n', max_size=8)
SPANS = st.lists(
    st.dictionaries(TEXTS, TEXTS | st.lists(st.integers(), max_size=3), max_size=3), max_size=6
)


@pytest.mark.slow
@given(SPANS, st.integers(0, 400))
def test_the_beginning_of_a_list_is_its_first_elements_wherever_it_is_cut(spans, length):
    text = json.dumps({"data": [{"spans": spans}]}).encode()
    start = text.index(b"[", text.index(b"spans")) + 1
    cut = text[: start + length]
    kept = json.loads(whole_prefix(cut, 4))
    listed = kept["data"][0]["spans"] if kept.get("data") else []
    assert listed == spans[: len(listed)]


def test_only_what_is_not_whole_is_left_out():
    text = b'{"data": [{"spans": [{"a": "}"}, {"b": 2}, {"c": "'
    assert json.loads(whole_prefix(text, 4)) == {"data": [{"spans": [{"a": "}"}, {"b": 2}]}]}


def test_what_was_not_cut_stays_as_it_is():
    text = b'{"data": [{"spans": [{"a": 1}]}]}'
    assert json.loads(whole_prefix(text, 4)) == json.loads(text)
