"""Records of which every trace has many: copied with other values in some fields."""

from dataclasses import replace

from hypothesis import given, strategies as st

from spanscore.model.score import Evaluator, Result
from spanscore.model.span import changed

RESULT = st.builds(
    Result, metric=st.text(), value=st.none() | st.floats(0, 1), label=st.none() | st.text()
)


@given(RESULT, st.text())
def test_a_changed_record_is_what_replacing_its_fields_gives(result, label):
    assert changed(result, label=label) == replace(result, label=label)


def test_the_record_that_is_changed_stays_as_it_is():
    evaluator = Evaluator("LLM", "judge", "1")
    assert changed(evaluator, version="2").version == "2"
    assert evaluator.version == "1"
