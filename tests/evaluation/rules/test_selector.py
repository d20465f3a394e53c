"""Which traces a selector takes."""

import pytest

from spanscore.evaluation.rules import Selector, compiled
from spanscore.model.trace import Target, ToolCall, Usage
from spanscore.testing import agent_trace

TRACE = agent_trace(
    service_name="shop",
    agent_name="refunds",
    session_id="chat-7",
    user_id="ann",
    started_ns=10**9,
    ended_ns=61 * 10**9,
    usage=Usage(1000, 200),
    tool_calls=(ToolCall(None, "issue_refund"),),
    target=Target(
        "a" * 32,
        "b" * 16,
        1,
        2,
        {"deployment.environment.name": "production", "k8s.pods": [1, "two"]},
    ),
    attributes={
        "http.route": ("/chat",),
        "http.response.status_code": (200, 503),
        "tag.tags": ("vip", "beta"),
        "retries": ("3",),
        "cached": (True,),
        "otel.status_code": ("OK",),
    },
)


def takes(trace=TRACE, /, **when):
    return compiled(Selector.model_validate(when))(trace)


@pytest.mark.parametrize(
    "when",
    [
        {},
        {"service": "shop"},
        {"service": ["till", "shop"]},
        {"service": "s*"},
        {"agent": "re*nd*"},
        {"agent": {"exists": True}},
        {"session": "chat-*"},
        {"user": "ann"},
        {"environment": "production"},
        {"tags": "vip"},
        {"tool": "issue_*"},
        {"error": False},
        {"duration": {"at_least": "60s"}},
        {"duration": {"above": "59s", "at_most": "1m"}},
        {"tokens": {"total": {"at_least": 1200}}},
        {"tokens": {"input": {"above": 999}, "output": {"below": 201}}},
        {"resource": {"deployment.environment.name": "prod*"}},
        {"resource": {"k8s.pods": "two"}},
        {"resource": {"k8s.pods": 1}},
        {"attributes": {"http.route": "/chat"}},
        {"attributes": {"http.response.status_code": 503}},
        {"attributes": {"http.response.status_code": "503"}},
        {"attributes": {"http.response.status_code": {"at_least": 500}}},
        {"attributes": {"retries": 3}},
        {"attributes": {"retries": {"above": 2}}},
        {"attributes": {"cached": True}},
        {"attributes": {"nothing.such": {"exists": False}}},
        {"any": [{"service": "till"}, {"agent": "refunds"}]},
        {"not": {"service": "till"}},
        {"service": "shop", "not": {"user": "bob"}, "any": [{"error": True}, {"user": "ann"}]},
    ],
)
def test_it_takes_a_trace_that_meets_all_conditions(when):
    assert takes(**when)


@pytest.mark.parametrize(
    "when",
    [
        {"service": "Shop"},
        {"service": "sho"},
        {"agent": "re*x*nds"},
        {"agent": {"exists": False}},
        {"environment": "staging"},
        {"tags": "gold"},
        {"tool": "refund"},
        {"error": True},
        {"duration": {"above": "60s"}},
        {"tokens": {"total": {"below": 1200}}},
        {"attributes": {"http.route": "/c"}},
        {"attributes": {"cached": False}},
        {"attributes": {"nothing.such": "x"}},
        {"attributes": {"http.route": {"above": 0}}},
        {"attributes": {"cached": {"above": 0}}},
        {"any": [{"service": "till"}, {"agent": "sales"}]},
        {"not": {"service": "shop"}},
        {"service": "shop", "agent": "sales"},
    ],
)
def test_it_takes_no_trace_that_misses_one(when):
    assert not takes(**when)


@pytest.mark.parametrize(
    "when",
    [
        {"service": "*"},
        {"user": {"exists": True}},
        {"tags": "*"},
        {"tool": "*"},
        {"tokens": {"total": {"at_least": 0}}},
        {"duration": {"at_least": "0"}},
        {"attributes": {"a": "*"}},
        {"error": True},
    ],
)
def test_what_is_not_recorded_meets_no_condition(when):
    assert not takes(agent_trace(started_ns=0, ended_ns=0, tool_calls=None), **when)


def test_tokens_of_which_a_part_is_not_recorded_have_no_total():
    trace = agent_trace(usage=Usage(1000, None))
    assert not takes(trace, tokens={"total": {"at_least": 1000}})
    assert takes(trace, tokens={"input": {"at_least": 1000}})


def test_a_failed_tool_call_is_an_error():
    assert takes(agent_trace(tool_calls=(ToolCall(None, "find", error="not there"),)), error=True)


def test_a_span_with_the_status_error_is_an_error():
    assert takes(agent_trace(attributes={"otel.status_code": ("OK", "ERROR")}), error=True)


@pytest.mark.parametrize(
    "attributes",
    [
        {"langsmith.span.tags": ("beta, vip",)},
        {"langfuse.trace.tags": ('["beta", "vip"]',)},
        {"tag.tags": ("beta", "vip")},
    ],
)
def test_tags_are_read_in_each_form_in_which_they_are_written(attributes):
    assert takes(agent_trace(attributes=attributes), tags="vip")


def test_a_tag_with_a_comma_in_a_list_stays_one():
    assert not takes(agent_trace(attributes={"tag.tags": ("a, b",)}), tags="a")


def test_the_environment_of_langfuse_counts_where_the_resource_names_none():
    assert takes(
        agent_trace(attributes={"langfuse.environment": ("staging",)}), environment="staging"
    )


def test_a_number_in_the_configuration_is_an_id_too():
    assert takes(agent_trace(user_id="42"), user=42)


def test_a_pattern_takes_time_in_proportion_to_a_text(lines_run):
    def tried(size):
        return takes(agent_trace(user_id="a" * size), user="*a*a*a*a*b")

    assert lines_run(tried, 100_000) < 2 * lines_run(tried, 100)
