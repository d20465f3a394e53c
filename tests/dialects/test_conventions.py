"""What today's GenAI conventions have beside messages, tools and tokens."""

import json
from dataclasses import replace

import pytest
from one_span import read, span

from spanscore.rebuild import rebuild, rebuild_all

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}


def said(*messages):
    return json.dumps(
        [
            {"role": role, "parts": [{"type": kind, "content": text}]}
            for role, kind, text in messages
        ]
    )


QUESTION = ("user", "text", "And where is it now?")


@pytest.mark.parametrize(
    ("before", "damaged"),
    [
        ([], ("history",)),
        ([("assistant", "text", "It is on its way.")], ("history",)),
        ([("assistant", "compaction", "Earlier: the order is 7.")], ()),
    ],
)
@pytest.mark.parametrize("has_agent", [True, False])
def test_a_compacted_history_is_whole_only_with_the_text_of_its_summary(before, damaged, has_agent):
    chat = CHAT | {
        "gen_ai.conversation.compacted": True,
        "gen_ai.input.messages": said(*before, QUESTION),
        "gen_ai.output.messages": said(("assistant", "text", "In Bern.")),
    }
    agent = AGENT | {"gen_ai.input.messages": said(QUESTION)}
    spans = [span(agent), span(chat, parent="1", span_id="2")] if has_agent else [span(chat)]
    (trace,) = rebuild(spans)
    assert trace.damaged == damaged
    if before:
        assert [x.text for x in trace.history] == [before[0][2]]


def test_a_search_in_memory_is_a_retrieval():
    records = [{"id": "r1", "content": "The usual order is 7.", "score": 0.9}]
    step = read(
        {
            "gen_ai.operation.name": "search_memory",
            "gen_ai.memory.query.text": "usual order",
            "gen_ai.memory.records": json.dumps(records),
        }
    )
    assert (step.kind, step.query, list(step.documents)) == ("retrieval", "usual order", records)


def test_what_is_stored_in_memory_was_not_retrieved():
    stored = {"gen_ai.operation.name": "create_memory", "gen_ai.memory.records": "[]"}
    assert read(stored).kind == "other"


def test_a_decision_is_neither_a_turn_nor_an_answer():
    decided = {"openinference.span.kind": "DECISION", "input.value": "s", "output.value": "0.9"}
    assert read(decided).kind == "other"
    assert not rebuild([span(decided)])


def test_facts_of_which_only_the_address_is_recorded_are_damaged():
    named = ("input.messages", "output.messages", "system_instructions", "tool.definitions")
    addresses = {f"gen_ai.{x}_ref": "gs://bucket/content/x.json" for x in named}
    assert read(CHAT | addresses).damaged == {"input", "output", "system", "tools"}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"}
    assert read(tool | {"gen_ai.tool.call.result_ref": "s3://b/x"}).damaged == {"result"}


def test_what_is_on_the_span_and_uploaded_too_is_whole():
    both = {"gen_ai.input.messages": said(QUESTION), "gen_ai.input.messages_ref": "s3://b/x"}
    step = read(CHAT | both)
    assert (step.damaged, step.input[0].text) == (frozenset(), QUESTION[2])


@pytest.mark.parametrize(
    "attributes",
    [
        CHAT
        | {
            "gen_ai.usage.input_tokens": 10,
            "gen_ai.usage.cache_read.input_tokens": 6,
            "gen_ai.usage.cache_creation.input_tokens": 2,
            "gen_ai.usage.reasoning.output_tokens": 3,
        },
        {
            "openinference.span.kind": "LLM",
            "llm.token_count.prompt": 10,
            "llm.token_count.prompt_details.cache_read": 6,
            "llm.token_count.prompt_details.cache_write": 2,
            "llm.token_count.completion_details.reasoning": 3,
        },
    ],
)
def test_cached_and_reasoning_tokens_are_counted(attributes):
    (trace,) = rebuild([span(attributes), span(attributes, span_id="2", start_ns=5)])
    (call, _), usage = trace.to_json()["model_calls"], trace.to_json()["usage"]
    names = ("cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    assert [call[x] for x in names] == [6, 2, 3]
    assert [usage[x] for x in names] == [12, 4, 6]


def test_tokens_that_nobody_counted_are_not_printed():
    (trace,) = rebuild([span(CHAT | {"gen_ai.usage.input_tokens": 10})])
    assert trace.to_json()["usage"] == {"input_tokens": 10, "output_tokens": None}


def turn(trace_id, start_ns, response, previous=None, **more):
    named = CHAT | {
        "gen_ai.response.id": response,
        "gen_ai.request.previous_response.id": previous,
        "gen_ai.input.messages": said(QUESTION),
        "gen_ai.output.messages": said(("assistant", "text", "In Bern.")),
    }
    named |= {key.replace("__", "."): value for key, value in more.items()}
    return replace(span(named, start_ns=start_ns, span_id=response), trace_id=trace_id)


def test_turns_that_go_on_from_a_response_are_one_session():
    spans = [turn("a", 1, "r1"), turn("b", 5, "r2", "r1"), turn("c", 9, "r3", "r2")]
    assert [x.session_id for x in rebuild_all(spans)] == ["r1"] * 3
    assert [x.history for x in rebuild_all(spans)] == [(), None, None]


def test_a_turn_goes_on_in_the_session_that_the_one_before_names():
    spans = [turn("a", 1, "r1", gen_ai__conversation__id="chat"), turn("b", 5, "r2", "r1")]
    assert [x.session_id for x in rebuild_all(spans)] == ["chat"] * 2


def test_a_response_that_is_unknown_or_of_two_turns_ties_nothing():
    alike = [turn("a", 1, "r1"), turn("b", 5, "r1")]
    assert [x.session_id for x in rebuild_all([*alike, turn("c", 9, "r3", "r1")])] == [None] * 3
    assert [x.session_id for x in rebuild_all([turn("c", 9, "r3", "r1")])] == [None]
