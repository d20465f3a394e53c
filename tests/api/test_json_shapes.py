"""A request in JSON has the shape that the OpenAPI document gives it, or is refused with its
fields.
"""

import json

import pytest

from spanscore.api.json_shapes import check_shape
from spanscore.api.v1 import (
    agent_trace_pb2,
    analytics_service_pb2,
    annotation_service_pb2,
    monitor_service_pb2,
    run_service_pb2,
    score_service_pb2,
    trace_service_pb2,
)
from spanscore.errors import FieldError, InputError

CREATE, ESTIMATE = "RunService/CreateRun", "RunService/EstimateRun"
BATCH = "ScoreService/BatchCreateScores"
UPDATE_MONITOR = "MonitorService/UpdateMonitor"


MESSAGES = {
    f"spanscore.v1.{name}": message
    for module in (
        agent_trace_pb2,
        analytics_service_pb2,
        annotation_service_pb2,
        monitor_service_pb2,
        run_service_pb2,
        score_service_pb2,
        trace_service_pb2,
    )
    for name, message in module.DESCRIPTOR.message_types_by_name.items()
}


def request_of(method):
    return MESSAGES[f"spanscore.v1.{method.partition('/')[2]}Request"]


def refused(method, body):
    """The fields that are refused, each with its problem."""
    with pytest.raises(FieldError) as caught:
        check_shape(json.dumps(body).encode(), request_of(method))
    return [(x.field, x.problem) for x in (caught.value, *caught.value.others)]


@pytest.mark.parametrize(
    ("method", "body", "place"),
    [
        (CREATE, {"run": {"target": {"traceIds": None}}}, "run.target.trace_ids"),
        (CREATE, {"run": {"measure": {"thresholds": None}}}, "run.measure.thresholds"),
        (CREATE, {"run": {"measure": {"options": None}}}, "run.measure.options"),
        ("TraceService/ImportTraces", {"traces": [{}, {"trace_ids": None}]}, "traces[1].trace_ids"),
        ("ScoreService/BatchCreateScores", {"requests": None}, "requests"),
    ],
)
def test_null_in_place_of_a_list_or_a_map_is_refused_with_the_field(method, body, place):
    ((found, problem),) = refused(method, body)
    assert (found, problem.startswith("null is no ")) == (place, True)


def test_null_where_a_single_value_can_be_left_out_is_taken():
    options = {"run": {"name": None, "measure": {"options": {"coherence": {"words": None}}}}}
    check_shape(json.dumps(options).encode(), request_of(CREATE))


@pytest.mark.parametrize("given", [[], "", 0, True])
def test_what_is_no_object_is_no_message(given):
    ((field, problem),) = refused(ESTIMATE, {"run": given})
    assert (field, "is no object" in problem) == ("run", True)


@pytest.mark.parametrize(
    ("run", "field"),
    [
        ({"createdNs": "1_0"}, "run.created_ns"),
        ({"createdNs": "+1"}, "run.created_ns"),
        ({"createdNs": 1.5}, "run.created_ns"),
        ({"createdNs": True}, "run.created_ns"),
        ({"createdNs": 2**63}, "run.created_ns"),
        ({"createdNs": str(-(2**63) - 1)}, "run.created_ns"),
        ({"target": {"idCount": "1"}}, "run.target.id_count"),
        ({"target": {"idCount": -1}}, "run.target.id_count"),
        ({"target": {"scope": 1}}, "run.target.scope"),
        ({"target": {"scope": "TRACE"}}, "run.target.scope"),
        ({"target": {"traceIds": "a"}}, "run.target.trace_ids"),
        ({"target": {"traceIds": [None]}}, "run.target.trace_ids[0]"),
        ({"target": {"traceIds": ["\ud800"]}}, "run.target.trace_ids[0]"),
        ({"target": {"filter": {"resource": {"a": 1}}}}, "run.target.filter.resource.a"),
        ({"measure": {"thresholds": {"m": "0.5"}}}, "run.measure.thresholds.m"),
        ({"budget": {"maxUsd": True}}, "run.budget.max_usd"),
        ({"budget": {"maxUsd": 10**400}}, "run.budget.max_usd"),
        ({"export": "true"}, "run.export"),
        ({"exports": True}, "run.exports"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_field(run, field):
    assert [x for x, _ in refused(CREATE, {"run": run})] == [field]


@pytest.mark.parametrize(
    "run",
    [
        {"createdNs": "1"},
        {"createdNs": 1},
        {"createdNs": 1.0},
        {"createdNs": str(2**63 - 1)},
        {"created_ns": 1},
        {"budget": {"maxUsd": 1}},
        {"target": {"scope": "SCOPE_TRACE", "traceIds": ["é"]}},
        {"measure": {"options": {"coherence": {"a": [1, None]}}}},
    ],
)
def test_what_the_document_allows_is_taken(run):
    check_shape(json.dumps({"run": run}).encode(), request_of(CREATE))


def test_all_wrong_fields_are_named():
    found = refused(CREATE, {"run": {"export": 1, "budget": {"maxUsd": "1"}}, "request": ""})
    assert [x for x, _ in found] == ["run.export", "run.budget.max_usd", "request"]


def test_two_fields_of_which_one_can_be_there_are_refused_with_their_names():
    body = {"traceId": "0" * 32, "sessionId": "s1"}
    problem = "is there beside trace_id: give one of the two"
    assert refused("ScoreService/ListScores", body) == [("session_id", problem)]
    check_shape(
        json.dumps(body | {"traceId": None}).encode(), request_of("ScoreService/ListScores")
    )


def test_a_field_under_both_its_names_is_refused():
    ((field, problem),) = refused(CREATE, {"requestId": "a", "request_id": "b"})
    assert (field, "twice" in problem) == ("request_id", True)


@pytest.mark.parametrize("body", [b"[]", b"null", b"", b'"{}"'])
def test_a_body_that_is_no_object_is_refused(body):
    with pytest.raises(InputError, match="no JSON object"):
        check_shape(body, request_of(CREATE))


def test_a_list_longer_than_the_document_allows_is_refused_before_its_values():
    problem = "has 1,001 values: give 1,000 at most"
    assert refused(BATCH, {"requests": [1] * 1001}) == [("requests", problem)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("TraceService/ImportTraces", {"traces": [{"trace_ids": [""] * 1000}] * 201}),
        (CREATE, {"run": {"measure": {"thresholds": dict.fromkeys(map(str, range(200_001)), 1)}}}),
        (CREATE, {"run": {"measure": {"options": {"m": {"a": [[[]] * 200_000]}}}}}),
        (CREATE, {"run": {"measure": {"options": {"m": dict.fromkeys(map(str, range(10**5)))}}}}),
    ],
)
def test_a_request_of_too_many_values_is_refused(method, body):
    with pytest.raises(InputError, match="more than 200,000 values"):
        check_shape(json.dumps(body).encode(), request_of(method))


@pytest.mark.slow
@pytest.mark.parametrize("many", [b"{}," * 200_001, b"[" * 200_001, b'{"[":"\\"{"},' * 200_001])
def test_a_request_of_too_many_objects_and_lists_is_refused_before_it_is_parsed(many):
    with pytest.raises(InputError, match="more than 200,000 values"):
        check_shape(b'{"requests": [' + many, request_of(BATCH))


@pytest.mark.parametrize("text", ["{" * 200_001, '"[' * 100_001, '\\"' * 200_001])
def test_brackets_in_texts_are_no_values(text):
    check_shape(json.dumps({"requestId": text}).encode(), request_of(BATCH))


@pytest.mark.parametrize(("given", "shown"), [([], "a list"), ({}, "an object")])
def test_what_is_no_single_value_is_shown_as_what_it_is(given, shown):
    assert refused(CREATE, {"requestId": given}) == [
        ("request_id", f"{shown} is no text: write it in quotes")
    ]


def test_a_value_nested_deeply_is_refused_with_its_field():
    body = b'{"pageSize": ' + b"[" * 1000 + b"]" * 1000 + b"}"
    with pytest.raises(FieldError) as caught:
        check_shape(body, request_of("RunService/ListRuns"))
    assert caught.value.field == "page_size"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"\ud800": 1}, "?"),
        ({"run": {"measure": {"thresholds": {"\ud800": 1}}}}, "run.measure.thresholds.?"),
        ({"run": {"measure": {"options": {"m": {"a": ["\ud800"]}}}}}, "run.measure.options.m"),
        ({"run": {"measure": {"options": {"m": {"\ud800": 1}}}}}, "run.measure.options.m"),
    ],
)
def test_half_a_surrogate_pair_is_refused_with_its_field(body, field):
    ((found, _),) = refused(CREATE, body)
    assert found == field


def test_options_that_are_no_object_are_refused_with_their_field():
    ((field, problem),) = refused(CREATE, {"run": {"measure": {"options": {"m": 1}}}})
    assert (field, problem) == ("run.measure.options.m", "1 is no object: write its fields as {…}")


@pytest.mark.parametrize(
    "body",
    [
        {"n" * 10**6: 1},
        {"monitor": {"watch": {"labels": {"n" * 10**6: 1}}}},
        {"requestId": ["n"] * 9},
    ],
)
def test_an_error_is_short_whatever_the_request(body):
    assert all(len(x) + len(y) < 400 for x, y in refused("MonitorService/CreateMonitor", body))


def test_a_mask_in_snake_case_is_refused_with_what_to_write():
    ((field, problem),) = refused(UPDATE_MONITOR, {"updateMask": "display_name,schedule.every_s"})
    assert (field, problem.endswith("write displayName,schedule.everyS")) == ("update_mask", True)


@pytest.mark.parametrize("given", [1, ["schedule"]])
def test_a_mask_that_is_no_text_is_refused(given):
    ((field, problem),) = refused(UPDATE_MONITOR, {"updateMask": given})
    assert (field, "is no text" in problem) == ("update_mask", True)


@pytest.mark.parametrize("given", ["schedule.everyS,displayName", "", "*", None])
def test_a_mask_in_camel_case_is_taken(given):
    check_shape(json.dumps({"updateMask": given}).encode(), request_of(UPDATE_MONITOR))
