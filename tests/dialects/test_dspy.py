"""DSPy's text protocol, in the forms that its recordings do not cover."""

import json
from functools import partial

import one_span
import pytest

from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall, Tool

SCOPE = "openinference.instrumentation.dspy"
ORDER = (
    "\n\nRespond with the corresponding output fields, starting with the field `[[ ## answer ##"
    " ]]`."
)
JSON_ORDER = "\n\nRespond with a JSON object in the following order of fields: `answer`."

read = partial(one_span.read, scope=SCOPE)


def fields(order=ORDER, **values):
    return "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in values.items()) + order


def model(given=(), said=None):
    attributes = {"openinference.span.kind": "LLM"}
    for i, (role, text) in enumerate(given):
        attributes |= {
            f"llm.input_messages.{i}.message.{k}": v for k, v in (("role", role), ("content", text))
        }
    if said is not None:
        attributes |= {
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": said,
        }
    return read(attributes, name="LM.__call__")


def module(given, returned, name="ReAct.forward", **more):
    attributes = {"openinference.span.kind": "CHAIN", "output.mime_type": "application/json"}
    attributes |= {"input.value": json.dumps(given), "output.value": json.dumps(returned)}
    return read(attributes, name=name, **more)


@pytest.mark.parametrize("order", [ORDER, JSON_ORDER], ids=["chat adapter", "JSON adapter"])
def test_a_question_is_its_field_without_the_order_how_to_answer(order):
    assert model([("user", fields(order, question="Where?"))]).input == (Message("user", "Where?"),)


def test_a_question_that_is_json_stays_text():
    assert model([("user", fields(question='{"a": 1}'))]).input == (Message("user", '{"a": 1}'),)


def test_a_question_that_is_json_without_fields_stays_text():
    assert model([("user", '{"question": "Where?", "x": 1}')]).input == (
        Message("user", '{"question": "Where?", "x": 1}'),
    )


def test_of_several_fields_the_one_that_is_called_a_question_is_asked():
    given = fields(context="A shop.", question="Where?", trajectory="")
    assert model([("user", given)]).input == (Message("user", "Where?"),)


def test_fields_without_a_usual_name_are_asked_together():
    assert (
        model([("user", fields(country="Denmark", year="2020"))]).input[0].text
        == '{"country":"Denmark","year":"2020"}'
    )


def test_a_trajectory_is_the_calls_and_results_of_the_turn():
    done = fields("", thought_0="Look.", tool_name_0="f", tool_args_0='{"x": 0}', observation_0="0")
    told = fields(question="Where?", trajectory="\n" + done)
    assert model([("user", told)]).input[1:] == (
        Message("assistant", "Look.", calls=(RequestedCall(None, "f", {"x": 0}),)),
        Message("tool", results=(ToolResult(None, 0),)),
    )


def test_an_exception_that_is_told_as_an_observation_is_an_error():
    failed = "Execution error in f: KeyError('x')"
    told = fields(
        question="Where?", thought_0="", tool_name_0="f", tool_args_0="{}", observation_0=failed
    )
    assert model([("user", told)]).input[-1].results == (ToolResult(None, failed, failed),)


@pytest.mark.parametrize(
    "said",
    [
        fields("", next_thought="Look.", next_tool_name="f", next_tool_args='{"x": null}'),
        '{"next_thought": "Look.", "next_tool_name": "f", "next_tool_args": {"x": null}}',
    ],
    ids=["fields", "JSON"],
)
def test_the_next_tool_is_a_call(said):
    assert model(said=said).output == (
        Message("assistant", "Look.", calls=(RequestedCall(None, "f", {"x": None}),)),
    )


def test_the_tool_that_ends_the_loop_is_no_call():
    said = fields("", next_thought="Enough.", next_tool_name="finish", next_tool_args="{}")
    assert model(said=said).output == (Message("assistant", "Enough."),)


def test_the_answer_is_told_apart_from_its_reasoning():
    assert model(said=fields("", reasoning="Because.", answer="Yes.")).output == (
        Message("assistant", "Yes.", "Because."),
    )


def test_what_an_earlier_turn_does_not_supply_is_left_out():
    earlier = fields("", next_thought="None", next_tool_name="None", next_tool_args="None")
    assert model([("assistant", earlier)]).input == (Message("assistant"),)


def test_the_tools_in_the_instructions_are_on_offer():
    line = (
        "(1) f, whose description is <desc>Finds (all).</desc>. It takes arguments {'x': {'type':"
        " 'integer'}}."
    )
    instructions = (
        f"Use the tools.\n        {line}\n        (2) finish. It takes arguments {{}}.\n(3) an"
        " apple."
    )
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    assert model([("system", instructions)]).tools == (Tool("f", "Finds (all).", schema),)


def test_a_program_is_called_with_its_question():
    step = module(
        {"input_args": {"question": "Where?", "history": "messages=[]"}},
        {"reasoning": "So.", "answer": "There."},
    )
    assert (step.kind, step.agent_name, step.input_text, step.output_text) == (
        "agent",
        "ReAct",
        "Where?",
        "There.",
    )


def test_a_program_whose_prediction_has_a_trajectory_is_an_agent_of_any_name():
    done = {"thought_0": "Look.", "tool_name_0": "f", "tool_args_0": {}, "observation_0": None}
    step = module(
        {"question": "Where?"}, {"trajectory": done, "answer": "There."}, name="Guide.forward"
    )
    assert [(x.text, x.calls, x.results) for x in step.output] == [
        ("Look.", (RequestedCall(None, "f", {}),), ()),
        (None, (), (ToolResult(None, None),)),
        ("There.", (), ()),
    ]


def test_a_predictor_only_wraps_the_model_call_inside():
    attributes = {"mlflow.spanType": '"LLM"', "mlflow.spanInputs": '{"question": "Where?"}'}
    assert read(attributes, name="Predict.forward", scope="mlflow").kind == "workflow"


def test_a_tool_is_called_with_its_named_arguments():
    attributes = {
        "openinference.span.kind": "TOOL",
        "input.value": '{"kwargs": {"x": 1}}',
        "output.value": '"00042"',
    }
    step = read(attributes, name="look_up.acall")
    assert (step.tool_name, step.arguments, step.result) == ("look_up", {"x": 1}, "00042")


def test_mlflows_span_of_a_tool_has_its_name_after_a_prefix():
    attributes = {
        "mlflow.spanType": '"TOOL"',
        "mlflow.spanInputs": "{}",
        "args": "{}",
        "mlflow.spanOutputs": "0",
    }
    step = read(attributes, name="Tool.look_up", scope="mlflow")
    assert (step.tool_name, step.arguments, step.result) == ("look_up", {}, 0)


def test_a_prediction_of_the_next_tool_is_no_answer():
    step = module(
        {},
        {"next_thought": "", "next_tool_name": "f", "next_tool_args": {}},
        name="Predict.forward",
    )
    assert step.output_text is None
