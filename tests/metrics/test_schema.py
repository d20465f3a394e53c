"""The small validator against jsonschema, which is the oracle for what it claims to know."""

import jsonschema
import pytest
from hypothesis import given, strategies as st

from spanscore.metrics._schema import (
    MAX_SCHEMA_VALUES,
    MAX_STEPS,
    MAX_VIOLATIONS,
    TooLargeError,
    violations,
)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(-5, 5)
    | st.sampled_from(["", "a", "red", "long text"]),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.sampled_from("abc"), x, max_size=3),
    max_leaves=8,
)
types = st.sampled_from(["string", "integer", "number", "boolean", "object", "array", "null"])
leaves = st.fixed_dictionaries(
    {},
    optional={
        "type": types | st.lists(types, min_size=1, max_size=2, unique=True),
        "minimum": st.integers(-3, 3),
        "maximum": st.integers(-3, 3),
        "exclusiveMinimum": st.integers(-3, 3),
        "minLength": st.integers(0, 4),
        "maxItems": st.integers(0, 3),
        "description": st.just("text"),
    },
)
schemas = st.recursive(
    leaves,
    lambda x: st.fixed_dictionaries(
        {},
        optional={
            "type": types,
            "properties": st.dictionaries(st.sampled_from("abc"), x, max_size=3),
            "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
            "additionalProperties": st.booleans() | x,
            "items": x,
            "anyOf": st.lists(x, min_size=1, max_size=2),
            "allOf": st.lists(x, min_size=1, max_size=2),
        },
    ),
    max_leaves=6,
)


@pytest.mark.slow
@given(values, schemas)
def test_it_agrees_with_jsonschema(value, schema):
    assert (not violations(value, schema)) == jsonschema.Draft202012Validator(schema).is_valid(
        value
    )


@pytest.mark.parametrize(
    "schema", [None, "text", 7, [], {"type": 3}, {"properties": 1, "required": 2}, {"anyOf": 5}]
)
def test_what_is_no_schema_forbids_nothing(schema):
    assert violations({"a": 1}, schema) == []


def test_a_local_reference_is_followed():
    schema = {"properties": {"a": {"$ref": "#/$defs/day"}}, "$defs": {"day": {"type": "integer"}}}
    assert violations({"a": "x"}, schema) == ["'a' must be of type integer and is 'x'"]


@pytest.mark.parametrize("reference", ["#/$defs/a~1b~0c", "#/$defs/a%7E1b~0c", "#/anyOf/1"])
def test_a_reference_is_read_as_a_json_pointer(reference):
    day = {"type": "integer"}
    schema = {"properties": {"a": {"$ref": reference}}, "$defs": {"a/b~c": day}, "anyOf": [{}, day]}
    assert violations({"a": "x"}, schema) == ["'a' must be of type integer and is 'x'"]


def test_a_reference_to_the_whole_schema_is_followed():
    schema = {"properties": {"next": {"$ref": "#"}, "beds": {"type": "integer"}}}
    assert violations({"next": {"beds": "x"}}, schema) == [
        "'next.beds' must be of type integer and is 'x'"
    ]


def test_types_may_be_in_capitals():
    schema = {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}}
    assert violations({"a": "x"}, schema) == ["'a' must be of type INTEGER and is 'x'"]


def test_a_reference_to_itself_ends():
    assert violations({"a": 1}, {"$ref": "#/", "anyOf": [{"$ref": "#/x"}] * 9}) == []


def test_a_schema_made_to_stall_is_too_large():
    nested = {"type": "null"}
    for _ in range(14):
        nested = {"allOf": [nested] * 50}
    with pytest.raises(TooLargeError):
        violations(None, nested)


def test_what_was_found_before_the_steps_ran_out_is_kept():
    schema = {"required": ["day"], "allOf": [{"enum": [0] * MAX_STEPS * 16}]}
    assert violations({}, schema) == ["'day' is missing"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (-1, {"enum": list(range(1000))}),
        ("x", {"type": ["integer"] * 1000}),
        ({}, {"required": [7] * 20_000}),
        ([0] * 1000, {"enum": [[0] * 999 + [1]]}),
        ("x" * 64_000, {"const": "x" * 63_999 + "y"}),
        (1, {f"x-{x}": 0 for x in range(20_000)}),
        (1, {"$ref": "#/" + "/" * 20_000}),
    ],
    ids=["enum", "type", "required", "large value", "long text", "keywords", "reference"],
)
def test_each_comparison_costs_some_of_the_one_budget(value, schema):
    values, referring = [value] * (MAX_STEPS // 50), {"items": {"anyOf": [schema, {}]}}
    with pytest.raises(TooLargeError):
        violations(values, referring)


def test_of_a_large_value_only_the_beginning_is_quoted():
    (found,) = violations(
        7, {"enum": [["a"] * 5, *({"name": "b" * 9} for _ in range(MAX_SCHEMA_VALUES))]}
    )
    assert (
        found
        == "the whole must be one of [['a', 'a', 'a', 'a', 'a'], {'name': 'bbbbbbbbb'}, {'name':"
        " ... and is 7"
    )


def test_of_a_long_name_only_the_beginning_is_quoted():
    (found,) = violations({"a" * 100_000: 7}, {"additionalProperties": {"type": "string"}})
    assert len(found) < 300


def test_no_more_than_a_few_violations_are_told():
    assert len(violations({}, {"required": [str(x) for x in range(100)]})) == MAX_VIOLATIONS
