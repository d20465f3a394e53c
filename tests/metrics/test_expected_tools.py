"""Tool calls held against those expected: the four aspects, the pairing of repeated calls, the
tolerance of floats.
"""

import pytest
from hypothesis import given, strategies as st

from spanscore.metrics.expected import (
    EQUAL_WEIGHTS,
    ExpectedCall,
    ToolCorrectness,
    ToolWeights,
    UsedCall,
    best_pairs,
    likeness,
    measure_tools,
    same,
    selection,
)


def calls(*given):
    """Calls that each have a model answer of their own; one is a name, or a name with
    parameters.
    """
    named = [(x, {}) if isinstance(x, str) else x for x in given]
    return [UsedCall(name, parameters, place) for place, (name, parameters) in enumerate(named)]


def measured(expected, used, **options):
    given = {
        "sequence_matters": True,
        "results_used": True,
        "weights": EQUAL_WEIGHTS,
        "threshold": 1.0,
        **options,
    }
    return measure_tools(expected, used, **given)


@pytest.mark.parametrize(
    ("expected", "used", "value"),
    [
        ("ab", "ab", 1),
        ("ab", "a", 1 / 2),
        ("a", "abc", 1 / 3),
        ("ab", "bc", 1 / 3),
        ("a", "b", 0),
        ("abc", "cde", 1 / 5),
    ],
)
def test_selection_compares_the_sets_of_names(expected, used, value):
    assert selection(set(expected), set(used)) == pytest.approx(value)


@pytest.mark.parametrize(
    ("expected", "given", "value"),
    [
        ({"a": 1}, {"a": 1}, 1),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, 1 / 2),
        ({"a": 1}, {"a": 1, "b": 2}, 1 / 2),
        ({"a": 1}, {"b": 1}, 0),
        ({"a": 1}, "a", 0),
        ({}, {}, 1),
        ({}, {"a": 1}, 0),
        (None, {"a": 1}, 1),
    ],
)
def test_parameters_count_matching_keys_of_all_keys(expected, given, value):
    assert likeness(expected, given) == value


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (5, 5.0, True),
        (1, True, False),
        ([1, {"a": None}], [1, {"a": None}], True),
        ("1", 1, False),
        ([1], [1, 2], False),
    ],
)
def test_values_are_equal_as_json_values_are(one, other, equal):
    assert same(one, other) is equal


def test_a_missing_tool_has_no_parameters_right():
    found = measured([ExpectedCall("a", {}), ExpectedCall("b", {})], calls("a"))
    assert (found.selection, found.parameters, found.sequence) == (0.5, 0.5, 0.5)


def test_repeated_calls_are_paired_by_best_match():
    expected = [ExpectedCall("look_up", {"city": x}) for x in ("Rome", "Oslo")]
    used = calls(("look_up", {"city": "Oslo"}), ("look_up", {"city": "Rome"}))
    assert measured(expected, used, sequence_matters=False).overall == 1.0


def test_a_call_is_paired_once_however_often_it_is_expected():
    expected = [ExpectedCall("look_up", {"city": "Rome"})] * 2
    assert measured(expected, calls(("look_up", {"city": "Rome"}))).parameters == 0.5


def test_of_equal_matches_the_one_at_its_step_is_taken():
    expected = [ExpectedCall("a", {}, 2), ExpectedCall("a", {}, 1)]
    assert measured(expected, calls("a", "a")).sequence == 1.0


@pytest.mark.parametrize(("matters", "value"), [(True, 0.0), (False, 1.0)])
def test_the_order_counts_where_it_matters(matters, value):
    expected = [ExpectedCall("a"), ExpectedCall("b")]
    assert measured(expected, calls("b", "a"), sequence_matters=matters).sequence == value


def test_steps_may_count_from_0():
    assert (
        measured([ExpectedCall("a", None, 0), ExpectedCall("b", None, 1)], calls("a", "b")).sequence
        == 1.0
    )


def test_calls_that_are_asked_for_together_are_one_step_where_steps_are_shared():
    expected = [ExpectedCall("a", None, 1), ExpectedCall("b", None, 1), ExpectedCall("c", None, 2)]
    used = [UsedCall("a", {}, 0), UsedCall("b", {}, 0), UsedCall("c", {}, 1)]
    assert measured(expected, used).sequence == 1.0


@pytest.mark.parametrize(("expected", "used"), [([], ["a"]), ([ExpectedCall("a")], [])])
def test_nothing_used_or_nothing_expected_gives_none(expected, used):
    assert measured(expected, calls(*used)) is None


def test_weights_that_add_up_in_floats_reach_one():
    weights = ToolWeights(0.7, 0.1, 0.1, 0.1)
    assert measured([ExpectedCall("a")], calls("a"), weights=weights).is_correct


def test_weights_count_each_aspect():
    found = measured(
        [ExpectedCall("a")], calls("a"), results_used=False, weights=ToolWeights(0.5, 0.2, 0.2, 0.1)
    )
    assert (round(found.overall, 9), found.is_correct) == (0.9, False)


def test_what_is_wrong_is_told():
    expected = [ExpectedCall("a", {"x": 1, "y": 2}), ExpectedCall("b")]
    found = measured(expected, calls("c", ("a", {"x": 3, "z": 4})), results_used=False)
    assert found.faults == (
        "called, and not expected: c",
        "a: x is 3, expected 1; y is not given, expected 2; z is 4, not expected",
        "a was called at step 2, expected at 1",
        "b was not called",
        "nothing that the tools returned is in the answer",
    )


def test_deep_parameters_do_not_exhaust_the_stack():
    deep = []
    for _ in range(5000):
        deep = [deep]
    assert measured([ExpectedCall("a", {"x": deep})], calls(("a", {"x": deep}))).parameters < 1


@pytest.mark.slow
@given(
    st.lists(
        st.lists(st.sampled_from([0, 0.25, 0.5, 1]), min_size=4, max_size=4), min_size=1, max_size=7
    )
)
def test_no_pairing_is_worth_more(worth):
    from scipy.optimize import linear_sum_assignment

    pairs = best_pairs(worth)
    columns = [x for x in pairs if x is not None]
    rows, best = linear_sum_assignment(worth, maximize=True)
    assert len(columns) == len(set(columns)) == min(len(worth), 4)
    assert sum(worth[x][y] for x, y in enumerate(pairs) if y is not None) == pytest.approx(
        sum(worth[x][y] for x, y in zip(rows, best, strict=True))
    )


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=6),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=6),
)
def test_every_aspect_is_a_share(expected, used):
    found = measured([ExpectedCall(x) for x in expected], calls(*used))
    assert all(
        0 <= getattr(found, x) <= 1
        for x in ("selection", "parameters", "sequence", "utilisation", "overall")
    )


@pytest.mark.parametrize(
    ("overall", "reading"),
    [
        (1.0, "as expected"),
        (0.75, "minor deviations"),
        (0.5, "partly as expected"),
        (0.25, "mostly not as expected"),
        (0.2, "other tools than expected"),
    ],
)
def test_the_weighted_sum_is_read_in_words(overall, reading):
    found = ToolCorrectness(1.0, 1.0, 1.0, 1.0, overall=overall, is_correct=False)
    assert (found.reading, found.to_json()["reading"]) == (reading, reading)
