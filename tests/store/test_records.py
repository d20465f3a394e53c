"""What the store keeps of traces and scores reads back as what went in."""

import json

import pytest
from hypothesis import given, strategies as st

from spanscore.model.score import Evaluation, Evaluator, Failure, JudgeUsage, Score, Skip
from spanscore.model.trace import (
    AgentTrace,
    ModelCall,
    PastMessage,
    RequestedCall,
    Retrieval,
    Target,
    Tool,
    ToolCall,
    Usage,
)
from spanscore.store import records

TEXT = st.text(max_size=8)
MAYBE = st.none() | TEXT
NUMBER = st.integers(0, 2**63 - 1)
FLOAT = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOAT | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OTEL_VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | FLOAT
    | TEXT
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
REQUESTED = st.builds(RequestedCall, MAYBE, TEXT, JSON)


def many(item):
    return st.lists(item, max_size=2).map(tuple)


TARGET = st.builds(
    Target,
    TEXT,
    TEXT,
    NUMBER,
    NUMBER,
    st.dictionaries(TEXT, OTEL_VALUE, max_size=3),
    st.none() | TEXT,
)
TRACE = st.builds(
    AgentTrace,
    trace_ids=many(TEXT),
    root_span_id=MAYBE,
    target=TARGET,
    opening_span_id=TEXT,
    started_ns=NUMBER,
    ended_ns=NUMBER,
    session_id=MAYBE,
    user_input=MAYBE,
    available_tools=st.none() | many(st.builds(Tool, TEXT, MAYBE, JSON)),
    tool_calls=st.none() | many(st.builds(ToolCall, MAYBE, TEXT, JSON, JSON, MAYBE)),
    model_calls=many(st.builds(ModelCall, TEXT, MAYBE, MAYBE, MAYBE, many(REQUESTED))),
    history=st.none() | many(st.builds(PastMessage, TEXT, MAYBE, many(REQUESTED))),
    retrieved=many(st.builds(Retrieval, TEXT, MAYBE, many(JSON))),
    usage=st.builds(Usage, st.none() | NUMBER, st.none() | NUMBER),
    damaged=many(TEXT),
)
OUTCOME = (
    st.builds(Score, FLOAT, TEXT, st.dictionaries(TEXT, JSON, max_size=3), MAYBE)
    | st.builds(Skip, TEXT)
    | st.builds(Failure, TEXT, TEXT)
)
EVALUATION = st.builds(
    Evaluation,
    scope=st.sampled_from(["trace", "session"]),
    subject_id=TEXT,
    metric=TEXT,
    outcome=OUTCOME,
    threshold=st.none() | FLOAT,
    scale=st.tuples(FLOAT, FLOAT),
    evaluator=st.builds(
        Evaluator, st.sampled_from(["LLM", "CODE"]), TEXT, TEXT, MAYBE, MAYBE, MAYBE
    ),
    target=TARGET,
    session_id=MAYBE,
    usage=st.builds(JudgeUsage, NUMBER, NUMBER, NUMBER, st.none() | FLOAT, NUMBER),
    revision=st.integers(1, 100),
    supersedes=MAYBE,
    evaluated_at_ns=NUMBER,
    inline=st.booleans(),
)


def unsealed(record):
    return record.rstrip("0123456789")


@pytest.mark.slow
@given(TRACE)
def test_a_trace_reads_back_as_it_was(trace):
    assert records.decode_trace(records.encode(trace)) == trace


@pytest.mark.slow
@given(EVALUATION)
def test_an_evaluation_reads_back_as_it_was(evaluation):
    assert records.decode_evaluations([records.encode(evaluation)]) == [evaluation]


@pytest.mark.slow
@given(st.lists(EVALUATION, max_size=4))
def test_evaluations_read_together_are_each_as_they_were(evaluations):
    twice = [evaluation for evaluation in evaluations for _ in range(2)]
    assert records.decode_evaluations(records.encode(x) for x in twice) == twice


@pytest.mark.slow
@given(st.lists(EVALUATION, max_size=4))
def test_evaluations_printed_together_are_each_printed_as_by_themselves(evaluations):
    twice = [evaluation for evaluation in evaluations for _ in range(2)]
    assert records.encode_evaluations(twice) == [records.encode(x) for x in twice]


def test_the_record_of_a_score_has_no_field_that_only_has_its_default(make):
    fields = json.loads(unsealed(records.encode(make.score(make.trace()))))
    assert {"usage", "tally", "revision", "run"}.isdisjoint(fields)
    assert None not in fields["evaluator"].values()


def test_evaluations_of_one_trace_share_their_target(make):
    trace = make.trace()
    first, second = records.decode_evaluations(
        records.encode(make.score(trace, metric)) for metric in "ab"
    )
    assert first.target is second.target


@pytest.mark.parametrize("number", [2**63, 2**64, 2**70, -(2**63) - 1, -(2**70)])
def test_an_integer_beyond_64_bits_reads_back_as_it_was(make, number):
    trace = make.trace(tool_calls=(ToolCall("1", "factorial", {"n": number}, [number]),))
    assert records.decode_trace(records.encode(trace)) == trace


def test_lone_surrogates_read_back_as_they_were(make):
    trace = make.trace(user_input="\ud800")
    assert records.decode_trace(records.encode(trace)).user_input == "\ud800"


def test_arguments_nested_without_end_are_cut_and_not_an_error(make):
    arguments = []
    for _ in range(5000):
        arguments = [arguments]
    trace = make.trace(tool_calls=(ToolCall("1", "search", arguments),))
    assert records.decode_trace(records.encode(trace)).tool_calls[0].name == "search"


def test_a_tuple_in_metadata_reads_back_as_a_list(make):
    evaluation = make.score(make.trace(), outcome=Score(1.0, "", {"pair": (1, 2)}))
    assert records.decode_evaluations([records.encode(evaluation)])[0].outcome.metadata == {
        "pair": [1, 2]
    }


def test_many_scores_of_a_trace_read_back_in_their_order(make):
    trace = make.trace()
    scores = [make.score(trace, f"metric-{number}") for number in range(150)]
    assert records.decode_evaluations(map(records.encode, scores)) == scores


@pytest.mark.parametrize(
    "resource",
    [{"metric": 5}, {"a": 1, "metric": {"b": '"metric":'}}, {"a": {"metric": [{"metric": None}]}}],
)
@pytest.mark.parametrize("scope", ["trace", "session"])
def test_a_resource_may_have_attributes_named_like_the_fields_of_a_score(make, resource, scope):
    target = Target("a" * 32, "b" * 16, 1, 2, resource)
    scores = [make.score(make.trace(), metric, scope=scope, target=target) for metric in "ab"]
    assert records.decode_evaluations(records.encode_evaluations(scores)) == scores


@pytest.mark.parametrize("name", ['"metric":', '{"metric":"a"}', "\\"])
def test_an_id_may_look_like_a_part_of_a_record(make, name):
    scores = [make.score(make.trace(), x, subject_id=name, session_id=name) for x in "ab"]
    assert records.decode_evaluations(records.encode_evaluations(scores)) == scores


def test_values_of_resources_that_are_equal_keep_their_types(make):
    scores = [
        make.score(make.trace(), target=Target("a" * 32, "b" * 16, 1, 2, {"flag": value}))
        for value in (1, True, 1.0)
    ]
    found = records.decode_evaluations(records.encode_evaluations(scores))
    assert [repr(x.target.resource["flag"]) for x in found] == ["1", "True", "1.0"]


def test_a_record_of_an_earlier_version_whose_metric_comes_first_reads_back(make):
    scores = [
        make.score(make.trace(), metric, outcome=Skip("No model.", "no_judge")) for metric in "ab"
    ]
    printed = [json.loads(unsealed(x)) for x in records.encode_evaluations(scores)]
    earlier = [json.dumps({"scope": x["scope"], "metric": x["metric"], **x}) for x in printed]
    assert records.decode_evaluations(earlier) == scores


def test_a_record_of_two_scores_is_damaged_and_costs_no_other(make):
    one = records.encode(make.score(make.trace()))
    assert [len(found) for found in records.undamaged_evaluations([one, f"{one},{one}", one])] == [
        1,
        0,
        1,
    ]


def test_a_letter_that_changed_is_damage_though_the_record_is_json_still(make):
    sound = records.encode(make.score(make.trace()))
    changed = sound.replace("because", "becausd")
    assert [len(x) for x in records.undamaged_evaluations([sound, changed])] == [1, 0]
    trace = records.seal(records.encode(make.trace(user_input="a question")))
    assert records.undamaged(records.decode_trace, trace)
    assert not records.undamaged(records.decode_trace, trace.replace("question", "questiom"))


@pytest.mark.parametrize("flipped", [None, b'{"scope":"trace"}'])
def test_a_record_that_a_flipped_bit_made_another_type_is_damage(make, flipped):
    sound = records.encode(make.score(make.trace()))
    assert [len(x) for x in records.undamaged_evaluations([sound, flipped])] == [1, 0]
    assert not records.is_whole(flipped)
    assert records.name_of(flipped) == "score (its ids cannot be read)"
