"""What was streamed is put together from its chunks, as MLflow keeps them: whole, in part, broken
or hostile.
"""

import json
from dataclasses import replace

import pytest
from one_span import span

from spanscore import dialects
from spanscore.model.span import Event
from spanscore.model.step import Message
from spanscore.model.trace import RequestedCall

F = RequestedCall("c0", "f", {"a": 1})
BROKEN = [
    *([], None, 7, "", {"choices": 3}, {"choices": [None, {"delta": 3}]}, {"type": "response."}),
    {
        "choices": [
            {
                "index": 10**40,
                "delta": {"content": ["x", {"type": "text"}], "tool_calls": [None, {}]},
            }
        ]
    },
    {
        "choices": [
            {
                "index": {},
                "delta": {"tool_calls": [{"index": [], "id": {}, "function": {"name": 3}}]},
            }
        ]
    },
    {"type": "content_block_delta", "index": {}, "delta": {"partial_json": {}}},
    {"type": "response.output_item.done", "output_index": [], "item": {"type": {}}},
    {"type": "response.completed", "response": {"output": {"a": 1}, "usage": 3}},
    {"contentBlockDelta": {"contentBlockIndex": [], "delta": {"toolUse": 3}}},
]
USED = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}


def chunk(delta, reason=None, **more):
    return {
        "id": "r1",
        "model": "m1",
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason, **more}],
    }


def call(arguments, *, index=0, identity=None, name=None):
    return {
        "tool_calls": [
            {"index": index, "id": identity, "function": {"name": name, "arguments": arguments}}
        ]
    }


def read(*chunks, outputs=None, kind="CHAT_MODEL", first=0, values=None, **attributes):
    """What is read of a span that streamed; `first` chunks of it were dropped."""
    encoded = [json.dumps(x) for x in chunks[first:]] if values is None else values
    numbered = enumerate(encoded, start=first)
    events = [Event(f"mlflow.chunk.item.{at}", at, {"mlflow.chunk.value": x}) for at, x in numbered]
    return of_span(events, outputs, kind, first, attributes)


def bedrock(*named, outputs=None):
    return of_span(
        [Event(name, 1, {"json": json.dumps(x)}) for name, x in named], outputs, "CHAT_MODEL"
    )


def of_span(events, outputs, kind, dropped=0, attributes=()):
    attributes = dict(attributes) | {"mlflow.spanType": json.dumps(kind)}
    if outputs is not None:
        attributes["mlflow.spanOutputs"] = json.dumps(outputs)
    one = span(attributes, scope="mlflow.tracing.provider", events=tuple(events))
    (step,) = dialects.read([replace(one, dropped_events_count=dropped)]).steps
    return step


def test_the_pieces_of_parallel_calls_are_put_together_by_index():
    step = read(
        chunk({"role": "assistant", "content": "Wait. "}),
        chunk(call("", identity="c0", name="f")),
        chunk(call("", index=1, identity="c1", name="g")),
        chunk(call('{"a"')),
        chunk(call("", index=1)),
        chunk(call(": 1}")),
        chunk({}, "tool_calls"),
        USED,
        outputs={
            "choices": [
                {"message": {"role": "assistant", "content": "Wait. "}, "finish_reason": "stop"}
            ]
        },
    )
    assert step.output == (Message("assistant", "Wait. ", calls=(F, RequestedCall("c1", "g", {}))),)
    assert (step.input_tokens, step.output_tokens, step.model, step.response_id) == (
        3,
        4,
        "m1",
        "r1",
    )
    assert step.finish_reasons == ("tool_calls",)


def test_calls_of_one_index_are_told_apart_by_their_ids():
    step = read(
        chunk(call("{}", identity="c0", name="f")),
        chunk(call("{}", identity="c1", name="g"), "tool_calls"),
    )
    assert [x.call_id for x in step.output[0].calls] == ["c0", "c1"]


def test_a_streamed_answer_that_is_json_stays_text():
    step = read(
        chunk({"content": '{"gate"'}), chunk({"content": ": 8}"}, "stop"), outputs='{"gate": 8}'
    )
    assert step.output == (Message("assistant", '{"gate": 8}'),)


def test_choices_are_told_apart():
    step = read(
        chunk({"content": "A"}), chunk({"content": "B"}, index=1), chunk({"content": "a"}, "stop")
    )
    assert [x.text for x in step.output] == ["Aa", "B"]


def test_a_refusal_is_the_answer():
    assert read(
        chunk({"content": None, "refusal": "I can"}), chunk({"refusal": "not."}, "stop")
    ).output[0].text == ("I cannot.")


def test_of_a_stream_that_broke_off_the_text_is_told_and_no_call_that_was_not_all_said():
    step = read(chunk({"content": "It is"}), chunk(call('{"a', identity="c0", name="f")))
    assert step.output == (Message("assistant", "It is"),)


def test_with_the_first_chunks_dropped_the_text_is_the_outputs_and_later_calls_are_whole():
    pieces = [chunk({"content": f"{x} "}) for x in range(4)]
    step = read(
        *pieces,
        chunk(call('{"a": 1}', identity="c0", name="f")),
        chunk({}, "tool_calls"),
        outputs="0 1 2 3 ",
        first=2,
    )
    assert (step.output, step.damaged) == (
        (Message("assistant", "0 1 2 3 ", calls=(F,)),),
        frozenset(),
    )


def test_with_the_beginning_of_a_call_dropped_the_calls_are_damaged():
    pieces = (
        chunk(call("", identity="c0", name="f")),
        chunk(call('{"a": 1}')),
        chunk({}, "tool_calls"),
    )
    step = read(
        *pieces, outputs={"choices": [{"message": {"role": "assistant", "content": ""}}]}, first=1
    )
    assert step.output == (Message("assistant", damaged=frozenset({"calls"})),)


def test_with_the_first_chunks_of_a_long_text_dropped_nothing_is_damaged():
    pieces = [chunk({"content": f"{x} "}) for x in range(4)]
    step = read(*pieces, chunk({}, "stop"), outputs="0 1 2 3 ", first=2)
    assert (step.output, step.damaged) == ((Message("assistant", "0 1 2 3 "),), frozenset())


def test_a_chunk_that_was_cut_damages_what_no_output_tells():
    step = read(values=[json.dumps(chunk({"content": "It "})), '{"choices": [{"del'])
    assert (step.output[0].text, step.output[0].damaged, "output" in step.damaged) == (
        "It ",
        {"text", "calls"},
        True,
    )


def test_before_there_were_events_the_chunks_were_an_attribute():
    chunks = [chunk(call("", identity="c0", name="f")), chunk(call('{"a": 1}'), "tool_calls")]
    assert read(outputs="", events=json.dumps(chunks)).output == (Message("assistant", calls=(F,)),)


def test_the_last_event_of_a_response_holds_all_of_it():
    item = {"type": "function_call", "call_id": "c0", "name": "f", "arguments": '{"a": 1}'}
    usage = {"input_tokens": 3, "output_tokens": 4}
    step = read(
        {"type": "response.completed", "response": {"id": "r1", "output": [item], "usage": usage}}
    )
    assert (step.output[0].calls, step.input_tokens) == ((F,), 3)


def test_of_a_response_that_broke_off_the_items_that_were_done_are_told_and_the_text_so_far():
    item = {
        "type": "function_call",
        "call_id": "c0",
        "name": "f",
        "arguments": '{"a": 1}',
        "id": "i0",
    }
    step = read(
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.output_text.delta", "output_index": 1, "item_id": "i1", "delta": "It "},
        {"type": "response.output_text.delta", "output_index": 1, "item_id": "i1", "delta": "is"},
    )
    assert ([y for x in step.output for y in x.calls], step.output[-1].text) == ([F], "It is")


def test_bedrocks_converse_tells_all_parallel_calls_of_which_the_outputs_have_the_last():
    begun = [{"toolUse": {"toolUseId": x, "name": y}} for x, y in (("c0", "f"), ("c1", "g"))]
    step = bedrock(
        ("messageStart", {"role": "assistant"}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Wait."}}),
        ("contentBlockStart", {"contentBlockIndex": 1, "start": begun[0]}),
        (
            "contentBlockDelta",
            {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '{"a": 1}'}}},
        ),
        ("contentBlockStart", {"contentBlockIndex": 2, "start": begun[1]}),
        ("messageStop", {"stopReason": "tool_use"}),
        ("metadata", {"usage": {"inputTokens": 3, "outputTokens": 4}}),
        outputs={
            "output": {"message": {"role": "assistant", "content": [{"text": "Wait."}, begun[1]]}}
        },
    )
    assert step.output == (Message("assistant", "Wait.", calls=(F, RequestedCall("c1", "g", {}))),)
    assert (step.input_tokens, step.output_tokens) == (3, 4)


def test_a_stream_of_anthropics_is_put_together_block_by_block():
    step = bedrock(
        (
            "message_start",
            {"type": "message_start", "message": {"id": "r1", "usage": {"input_tokens": 3}}},
        ),
        (
            "content_block_start",
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
        ),
        (
            "content_block_delta",
            {"type": "content_block_delta", "index": 0, "delta": {"text": "Wait."}},
        ),
        (
            "content_block_start",
            {
                "type": "content_block_start",
                "index": 1,
                "content_block": {"type": "tool_use", "id": "c0", "name": "f", "input": {}},
            },
        ),
        (
            "content_block_delta",
            {"type": "content_block_delta", "index": 1, "delta": {"partial_json": '{"a": 1}'}},
        ),
        (
            "message_delta",
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use"},
                "usage": {"output_tokens": 4},
            },
        ),
    )
    assert (step.output, step.output_tokens) == ((Message("assistant", "Wait.", calls=(F,)),), 4)


@pytest.mark.parametrize("outputs", [["It ", "is."], None])
def test_texts_that_a_generator_yielded_are_one_answer(outputs):
    step = read("It ", "is.", outputs=outputs, kind="AGENT")
    assert (step.output_text, step.output_json) == ("It is.", None)


def test_what_a_generator_yielded_is_whole_though_its_first_events_are_dropped():
    step = read("It ", "is ", "so.", outputs=["It ", "is ", "so."], kind="AGENT", first=2)
    assert (step.output_text, step.damaged) == ("It is so.", frozenset())


def test_what_a_generators_reducer_made_of_it_is_the_answer():
    assert (
        read("It ", "is.", outputs="It is (final).", kind="AGENT").output_text == "It is (final)."
    )


def test_a_list_of_texts_that_a_function_returned_stays_a_list():
    assert read(outputs=["It ", "is."], kind="AGENT").output_json == '["It ","is."]'


def test_what_a_tool_yielded_stays_a_list():
    assert read(1, 2, outputs=[1, 2], kind="TOOL").result == [1, 2]


def test_mlflows_own_agents_are_given_a_request_of_the_responses_api():
    asked = [{"role": "user", "content": "Where?"}]
    request = {"input": asked, "context": {"conversation_id": "c-1", "user_id": "u-1"}}
    answer = {
        "object": "response",
        "output": [{"type": "message", "role": "assistant", "content": "Here."}],
    }
    step = read(
        outputs=answer, kind="AGENT", **{"mlflow.spanInputs": json.dumps({"request": request})}
    )
    assert (step.input, step.output) == (
        (Message("user", "Where?"),),
        (Message("assistant", "Here."),),
    )
    assert (step.session_id, step.user_id, step.agent_name) == ("c-1", "u-1", None)


def test_a_model_that_is_a_function_of_ones_own_is_asked_by_its_only_argument():
    step = read(outputs="Here.", **{"mlflow.spanInputs": '{"question": "Where?"}'})
    assert step.input == (Message("user", "Where?"),)


def test_a_request_that_is_json_inside_of_a_request_is_opened():
    body = json.dumps({"system": "Be brief.", "messages": [{"role": "user", "content": "Where?"}]})
    step = read(
        outputs="Here.", **{"mlflow.spanInputs": json.dumps({"modelId": "m1", "body": body})}
    )
    assert (step.system, step.input) == ("Be brief.", (Message("user", "Where?"),))


@pytest.mark.parametrize("broken", BROKEN)
def test_a_chunk_that_is_not_as_it_should_be_costs_only_itself(broken):
    assert (
        read(chunk({"content": "It "}), broken, chunk({"content": "is."}, "stop")).output[0].text
        == "It is."
    )


@pytest.mark.parametrize("broken", BROKEN)
def test_a_stream_of_chunks_that_are_not_as_they_should_be_is_read_for_what_is_there(broken):
    assert read(broken, broken, outputs="It is.").output == (Message("assistant", "It is."),)


def test_thousands_of_chunks_and_huge_indices_are_put_together_in_one_go():
    pieces = [chunk(call("x", index=at * 10**9, identity=f"c{at}", name="f")) for at in range(5000)]
    assert len(read(*pieces, chunk({}, "tool_calls")).output[0].calls) == 5000
