"""Questions and answers that are JSON are told from the messages and values that frameworks record
as JSON.
"""

import json

import pytest
from one_span import read, span

from spanscore import dialects
from spanscore.model.step import Message
from spanscore.rebuild import rebuild

OBJECT = '{"task": "count", "messages": [{"role": "user", "content": "hey"}]}'
TEXTS = [
    '["a"]',
    '{"role": "user", "content": "hey"}',
    '{"messages": [{"role": "user", "content": "hey"}]}',
    OBJECT,
]


def mastra(asked, told):
    run = span({"mastra.span.type": "agent_run", "mastra.agent_run.input": asked}, span_id="a")
    given = json.dumps(
        {"messages": [{"role": "user", "content": [{"type": "text", "text": told}]}]}
    )
    loop = {"mastra.span.type": "model_generation", "mastra.model_generation.input": given}
    return next(
        x
        for x in dialects.read([run, span(loop, span_id="b", parent="a")]).steps
        if x.kind == "agent"
    )


def langfuse(asked, said):
    kind, given, returned = (f"langfuse.observation.{x}" for x in ("type", "input", "output"))
    run = span({kind: "agent", given: asked, returned: said}, span_id="a", scope="langfuse-sdk")
    request = json.dumps({"messages": [{"role": "user", "content": asked}]})
    response = json.dumps({"role": "assistant", "content": said})
    call = span(
        {kind: "generation", given: request, returned: response},
        span_id="b",
        parent="a",
        scope="langfuse-sdk",
    )
    return [run, call]


@pytest.mark.parametrize("asked", TEXTS)
def test_what_mastra_told_its_model_word_for_word_is_the_question(asked):
    assert (mastra(asked, asked).input, mastra(asked, asked).input_text) == (None, asked)


def test_texts_that_mastra_told_its_model_one_by_one_are_messages():
    assert mastra('["a"]', "a").input == (Message("user", "a"),)


@pytest.mark.parametrize(
    "asked", ['["a"] and ["b"]', "['x']", "{'role': 'user', 'content': 'hey'}", OBJECT]
)
def test_a_question_to_mastra_that_only_looks_like_messages_is_text(asked):
    step = read({"mastra.span.type": "agent_run", "mastra.agent_run.input": asked})
    assert (step.input, step.input_text, step.damaged) == (None, asked, frozenset())


@pytest.mark.parametrize("asked", TEXTS)
def test_what_langfuse_saw_a_model_be_told_word_for_word_is_the_question(asked):
    (trace,) = rebuild(langfuse(asked, "Yes."))
    assert trace.user_input == asked


@pytest.mark.parametrize("said", ['"quoted"', '{"output": "x"}', OBJECT])
def test_what_langfuse_saw_a_model_say_word_for_word_is_the_answer(said):
    (trace,) = rebuild(langfuse("Go.", said))
    assert trace.final_output == said


def test_the_state_of_a_graph_under_langfuse_is_read_as_one():
    state = json.dumps({"messages": [{"role": "user", "content": "hey"}]})
    attributes = {"langfuse.observation.type": "agent", "langfuse.observation.input": state}
    assert read(attributes, scope="langfuse-sdk").input == (Message("user", "hey"),)


def test_an_answer_in_quotes_keeps_them_in_langfuses_wrapper_of_openai():
    attributes = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.output": '"quoted"',
    }
    assert read(attributes, scope="langfuse-sdk").output == (Message("assistant", '"quoted"'),)
