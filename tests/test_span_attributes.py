"""The attributes of spans that rules read, kept with the agent traces."""

import json
from dataclasses import replace

import pytest

from spanscore.model.span import STATUS_ERROR, STATUS_OK, Resource, Scope, Span
from spanscore.model.trace import MAX_TAGS, MAX_TEXT_CHARS, AgentTrace, tags_of
from spanscore.rebuild import rebuild_all
from spanscore.store import records
from spanscore.watches import MAX_VALUES, SpanAttributes

TRACE = "a" * 32


def span(number, parent=0, *, status=0, start=None, **attributes):
    return Span(
        TRACE,
        f"{number:016x}",
        f"{parent:016x}" if parent else "",
        f"span {number}",
        1,
        (start or number) * 10**9,
        (start or number) * 10**9 + 10**8,
        status,
        "",
        {name.replace("__", "."): value for name, value in attributes.items()},
        Resource({"service.name": "shop"}),
        Scope("test"),
    )


def agent(number, parent=0, **more):
    named = {"gen_ai__operation__name": "invoke_agent", "gen_ai__agent__name": "helper"}
    return span(number, parent, **named, **more)


def kept(names, *spans):
    noting = SpanAttributes(names)
    return [x.attributes for x in noting.added_to(rebuild_all(spans, watch=noting))]


REQUEST = span(1, http__route="/chat")
AGENT = agent(2, 1, plan="gold")
QUERY = span(3, 2, db__system="sqlite")
BESIDE = span(4, 1, cache="miss")


@pytest.mark.parametrize(
    ("name", "value"),
    [("plan", "gold"), ("http.route", "/chat"), ("db.system", "sqlite"), ("cache", "miss")],
)
def test_spans_of_the_turn_below_it_around_it_and_beside_it_count(name, value):
    assert kept([name], REQUEST, AGENT, QUERY, BESIDE) == [{name: (value,)}]


def test_no_other_attribute_is_kept():
    assert kept(["nothing.such"], REQUEST, AGENT, QUERY) == [{}]


def test_each_value_is_kept_once():
    assert kept(["k"], agent(1, k="a"), span(2, 1, k="b"), span(3, 1, k="a")) == [{"k": ("a", "b")}]


def test_the_order_in_which_spans_come_changes_nothing():
    spans = [agent(1, k="a"), *(span(x, 1, k=f"v{x}") for x in range(2, 40))]
    assert kept(["k"], *spans) == kept(["k"], *reversed(spans))


def test_few_values_of_many_are_kept():
    [found] = kept(["k"], agent(1), *(span(x, 1, k=x) for x in range(2, 200)))
    assert len(found["k"]) == MAX_VALUES


def test_a_long_text_is_cut():
    [found] = kept(["k"], agent(1, k="x" * 10**6))
    assert len(found["k"][0]) == 1000


def test_the_items_of_a_list_are_values():
    assert kept(["k"], agent(1, k=["a", 2, None, ["b"], float("nan")])) == [{"k": ("a", 2)}]


LONG_TAGS = [f"a tag of a somewhat greater length {number:02}" for number in range(30)]


def tags_kept(name, value):
    [trace] = rebuild_all([agent(1)])
    [found] = kept([name], agent(1, **{name: value}))
    return tags_of(replace(trace, attributes=found))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("langfuse.trace.tags", LONG_TAGS),
        ("braintrust.tags", json.dumps(LONG_TAGS)),
        ("langfuse.trace.tags", [json.dumps(LONG_TAGS)]),
        ("langsmith.span.tags", ", ".join(LONG_TAGS)),
        ("langsmith.span.tags", json.dumps(LONG_TAGS)),
    ],
)
def test_thirty_tags_are_kept_in_whatever_form_they_come(name, value):
    assert tags_kept(name, value) == LONG_TAGS


def test_of_more_tags_the_first_are_kept():
    many = [f"{name}, in full" for name in LONG_TAGS] + LONG_TAGS
    assert tags_kept("opik.tags", many) == many[:MAX_TAGS]
    assert tags_kept("opik.tags", json.dumps(many)) == many[:MAX_TAGS]
    assert tags_kept("langsmith.span.tags", json.dumps(many)) == many[:MAX_TAGS]


def test_a_tag_that_is_cut_off_is_none():
    long = "x" * (MAX_TEXT_CHARS - 10)
    assert tags_kept("langsmith.span.tags", f"a, {long}, cut off at the end") == ["a", "x" * 1000]
    assert tags_kept("opik.tags", json.dumps(LONG_TAGS)[:1100]) == []
    assert tags_kept("opik.tags", json.dumps(["a", "x" * MAX_TEXT_CHARS])) == []


def test_a_long_tag_is_cut():
    assert tags_kept("opik.tags", "x" * MAX_TEXT_CHARS) == ["x" * 1000]
    assert tags_kept("opik.tags", json.dumps(["x" * 2000, "[y"])) == ["x" * 1000, "[y"]


def test_the_status_of_spans_stands_under_the_name_that_opentelemetry_gives_it():
    assert kept(
        ["otel.status_code"], agent(1, status=STATUS_OK), span(2, 1, status=STATUS_ERROR)
    ) == [{"otel.status_code": ("OK", "ERROR")}]


def test_turns_of_one_trace_have_their_own_values_and_share_those_around_them():
    root = span(1, where="here")
    turns = [agent(x, 1, start=10 * x, input=f"question {x}") for x in (2, 3)]
    turns = [
        replace(
            x,
            attributes={
                **x.attributes,
                "gen_ai.input.messages": (
                    f'[{{"role":"user","parts":[{{"type":"text","content":"{x.span_id}"}}]}}]'
                ),
                "gen_ai.output.messages": (
                    '[{"role":"assistant","parts":[{"type":"text","content":"yes"}]}]'
                ),
            },
        )
        for x in turns
    ]
    below = [span(10 * x, x, start=10 * x + 1, which=x) for x in (2, 3)]
    assert kept(["where", "which"], root, *turns, *below) == [
        {"where": ("here",), "which": (2,)},
        {"where": ("here",), "which": (3,)},
    ]


def test_a_cycle_of_spans_is_no_trouble():
    assert kept(["k"], agent(9), span(1, 2, k="a"), span(2, 1, k="b")) == [{"k": ("a", "b")}]


def test_they_are_in_the_json_form_and_come_back():
    [trace] = rebuild_all([AGENT])
    trace = replace(trace, attributes={"plan": ("gold", 3, True)})
    assert AgentTrace.from_json(trace.to_json()) == trace


def test_a_trace_without_any_has_no_such_key():
    [trace] = rebuild_all([AGENT])
    assert "attributes" not in trace.to_json()


def test_they_come_back_from_the_store():
    [trace] = rebuild_all([AGENT])
    trace = replace(trace, attributes={"plan": ("gold", 3)})
    assert records.decode_trace(records.encode(trace)) == trace
