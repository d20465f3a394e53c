"""What an agent's or a chain's function returned, as decorators record it: text, an object of its
own, an envelope.
"""

import json

import pytest

from spanscore import dialects
from spanscore.model.span import Resource, Scope, Span
from spanscore.rebuild import rebuild


def span(attributes, *, scope="", parent="", span_id="1", start_ns=10):
    place = "t", span_id, parent, "answer", 1, start_ns, start_ns + 5
    return Span(*place, 0, "", attributes, Resource(), Scope(scope))


def langfuse(answer, called='{"args": ["Where?"], "kwargs": {}}', **more):
    side = "langfuse.observation."
    return span(
        {side + "type": "agent", side + "input": called, side + "output": answer},
        scope="langfuse-sdk",
        **more,
    )


def mlflow(answer, **more):
    told = {
        "mlflow.spanType": '"AGENT"',
        "mlflow.spanInputs": '{"q": "Where?"}',
        "mlflow.spanOutputs": answer,
    }
    return span(told, scope="mlflow.tracing.provider", **more)


def traceloop(answer, **more):
    entity = "traceloop.entity."
    told = {
        entity + "name": "desk",
        entity + "input": '{"args": ["Where?"], "kwargs": {}}',
        entity + "output": answer,
    }
    return span({"traceloop.span.kind": "agent", **told}, scope="traceloop.tracer", **more)


def openinference(answer, scope="shop", **more):
    told = {"input.value": "Where?", "output.value": answer, "output.mime_type": "application/json"}
    return span({"openinference.span.kind": "AGENT", **told}, scope=scope, **more)


def langsmith(answer, **more):
    told = {"gen_ai.prompt": '{"q": "Where?"}', "gen_ai.completion": answer}
    return span({"langsmith.span.kind": "chain", **told, **more})


def answer(*spans):
    (trace,) = rebuild(spans)
    return trace.final_output


DECORATORS = [langfuse, mlflow, traceloop, openinference, langsmith]


@pytest.mark.parametrize("decorated", DECORATORS)
@pytest.mark.parametrize(
    "own", [{"result": "42"}, {"answer": "x"}, {"outputs": "a", "n": 1}, {"a": "x", "b": [None]}]
)
def test_a_functions_own_object_is_the_answer_whole(decorated, own):
    assert json.loads(answer(decorated(json.dumps(own)))) == own


@pytest.mark.parametrize("decorated", [langfuse, mlflow, traceloop, openinference])
@pytest.mark.parametrize("own", [["x"], [{"sku": "00042"}], 42, 3.5, True])
def test_a_functions_list_or_number_is_the_answer_as_json(decorated, own):
    assert json.loads(answer(decorated(json.dumps(own)))) == own


@pytest.mark.parametrize("decorated", DECORATORS)
@pytest.mark.parametrize(
    "lost", ['["Paris", "Ber', '{"city": "Paris", "day', '{"city": "[REDACTED]"}', "{}", "null"]
)
def test_of_an_object_that_is_not_whole_or_empty_there_is_no_answer(decorated, lost):
    assert answer(decorated(lost)) is None


@pytest.mark.parametrize(
    ("told", "read"),
    [
        (langsmith('{"output": "42"}'), "42"),
        (langsmith('{"outputs": "42"}', **{"langsmith.traceable": "true"}), "42"),
        (langsmith('{"output": ["x", "y"]}'), '["x","y"]'),
        (openinference('{"output": "42"}', scope="openinference.instrumentation.langchain"), "42"),
        (langfuse('{"output": "42"}', called="Where?"), "42"),
    ],
)
def test_an_envelope_is_opened_where_the_emitter_is_known_to_make_it(told, read):
    assert answer(told) == read


@pytest.mark.parametrize("text", ["[1] says so.", "{name}, hello", "[see below]"])
def test_text_that_only_begins_as_json_does_is_the_answer(text):
    assert answer(langfuse(text)) == text


@pytest.mark.parametrize("decorated", [langfuse, mlflow, langsmith])
@pytest.mark.parametrize("cut", ['["Paris", "Ber', '{"city": "Paris", "day'])
def test_an_answer_that_was_cut_is_damaged(decorated, cut):
    (trace,) = rebuild([decorated(cut)])
    assert "final_output" in trace.damaged


def test_an_answer_nested_too_deeply_is_no_text():
    assert answer(langfuse("[" * 200 + "]" * 200)) is None


def chat(text, parent="1"):
    said = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": text}]}])
    told = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": said}
    return span(told, parent=parent, span_id="2", start_ns=11)


def test_the_models_text_comes_before_an_object_that_its_agent_returned():
    assert answer(mlflow('{"text": "Paris.", "sources": ["a"]}'), chat("Paris.")) == "Paris."


def test_the_models_text_that_is_json_is_not_opened_by_the_agent_that_returns_it():
    assert answer(langfuse('{"result": "42"}'), chat('{"result": "42"}')) == '{"result": "42"}'


def test_of_agents_in_a_row_the_last_ones_object_is_the_answer():
    first, last = (
        mlflow(told, parent="9", span_id=x, start_ns=int(x) * 10)
        for x, told in (("1", '"Hm."'), ("2", '{"eur": 5}'))
    )
    assert answer(first, last) == '{"eur":5}'


@pytest.mark.parametrize("returned", ["3.5", "true", "00042", 3.5, 0, False, None, "", []])
def test_what_a_tool_returned_under_langsmith_keeps_its_type(returned):
    told = {"langsmith.span.kind": "tool", "gen_ai.completion": json.dumps({"output": returned})}
    (step,) = dialects.read([span(told)]).steps
    assert (step.result, step.has_result) == (returned, True)
