"""What an author states on spans of any dialect: a plan, and what a turn should come to."""

import json

import pytest

from spanscore.model.span import Resource, Scope, Span
from spanscore.model.trace import AgentTrace, Expected, ExpectedTool
from spanscore.rebuild import rebuild_all


def span(number, attributes, parent=0, scope="my.agent"):
    return Span(
        trace_id="1" * 32,
        span_id=f"{number:016x}",
        parent_span_id=f"{parent:016x}" if parent else "",
        name="work",
        kind=1,
        start_ns=number * 1000,
        end_ns=100_000 - number,
        status_code=0,
        status_message="",
        attributes=attributes,
        resource=Resource(),
        scope=Scope(scope),
    )


AGENT = {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.input.messages": "Fly to Rome?",
    "gen_ai.output.messages": "Booked.",
}


def rebuilt(*spans):
    [found] = rebuild_all(list(spans), [])
    return found


def expected(**attributes):
    return rebuilt(
        span(1, AGENT | {f"spanscore.expected.{key}": x for key, x in attributes.items()})
    )


def test_a_plan_on_the_agents_span_wins_over_what_its_model_said():
    said = "1. Look up the flights.\n2. Book the cheapest one."
    model = {
        "gen_ai.operation.name": "chat",
        "gen_ai.output.messages": json.dumps(
            [
                {
                    "role": "assistant",
                    "content": said,
                    "tool_calls": [{"id": "c", "function": {"name": "f"}}],
                }
            ]
        ),
    }
    assert rebuilt(span(1, AGENT), span(2, model, parent=1)).plan == said
    assert (
        rebuilt(span(1, AGENT | {"spanscore.plan": "look up"}), span(2, model, parent=1)).plan
        == "look up"
    )


def test_a_plan_may_be_an_array_of_steps():
    assert (
        rebuilt(span(1, AGENT | {"spanscore.plan": ["look up", "book"]})).plan
        == "1. look up\n2. book"
    )


def test_a_plan_that_was_cut_is_damaged():
    found = rebuilt(span(1, AGENT | {"spanscore.plan": "look up, then [truncated]"}))
    assert (found.plan, found.damaged) == (None, ("plan",))


@pytest.mark.parametrize(
    "scope", ["spanscore.sdk", "openinference.instrumentation.langchain", "my.agent", ""]
)
def test_what_is_stated_is_read_whatever_wrote_the_span(scope):
    found = rebuilt(span(1, AGENT | {"spanscore.expected.answer": "booked"}, scope=scope))
    assert found.expected.answer == "booked"


def test_what_is_stated_around_the_agent_is_read():
    found = rebuilt(
        span(1, {"http.route": "/chat", "spanscore.expected.answer": "booked"}),
        span(2, AGENT, parent=1),
    )
    assert found.expected.answer == "booked"


def test_what_a_sub_agent_should_come_to_is_not_what_the_turn_should():
    inner = AGENT | {"spanscore.expected.answer": "found"}
    assert rebuilt(span(1, AGENT), span(2, inner, parent=1)).expected is None


@pytest.mark.parametrize(
    ("value", "tools"),
    [
        ('["find", "book"]', (ExpectedTool("find"), ExpectedTool("book"))),
        (["find", "book"], (ExpectedTool("find"), ExpectedTool("book"))),
        (
            '[{"name": "book", "arguments": {"flight": "LH1"}}]',
            (ExpectedTool("book", {"flight": "LH1"}),),
        ),
        (['{"name": "book", "arguments": "{}"}'], (ExpectedTool("book", {}),)),
        (
            '[{"tool_name": "book", "parameters": {"n": 1}, "step": 2}]',
            (ExpectedTool("book", {"n": 1}, 2),),
        ),
        ("book", (ExpectedTool("book"),)),
        ("[]", ()),
    ],
)
def test_expected_tools_are_names_or_objects(value, tools):
    assert expected(tools=value).expected == Expected(tools=tools)


@pytest.mark.parametrize(
    ("value", "outcomes"),
    [
        (["paid", "booked"], ("paid", "booked")),
        ('["paid"]', ("paid",)),
        ("paid and booked", ("paid and booked",)),
    ],
)
def test_expected_outcomes_are_statements(value, outcomes):
    assert expected(outcomes=value).expected == Expected(outcomes=outcomes)


@pytest.mark.parametrize(
    "attributes",
    [
        {"tools": '[{"name": "book", "argum'},
        {"tools": '[{"arguments": {}}]'},
        {"tools": [7]},
        {"tools": json.dumps(["f"] * 101)},
        {"outcomes": ["x"] * 51},
        {"outcomes": [True]},
        {"answer": "[REDACTED]"},
    ],
)
def test_an_expectation_that_cannot_be_read_whole_is_damaged_and_not_half_held(attributes):
    found = expected(**attributes)
    assert (found.expected, found.damaged) == (None, ("expected",))


def test_nothing_is_expected_where_nothing_is_stated():
    assert expected(tool_sequence_matters=False).expected is None


def test_an_expectation_survives_json():
    found = expected(
        answer="booked", tools=["find"], outcomes=["paid"], tool_sequence_matters=False
    )
    assert AgentTrace.from_json(json.loads(json.dumps(found.to_json()))) == found
