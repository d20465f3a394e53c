"""What Google's SDKs make of agents and functions, in forms that their recordings do not cover."""

import json

import pytest
from one_span import read

ADK, GENAI = "gcp.vertex.agent", "opentelemetry.instrumentation.google_genai"


def function(**attributes):
    given = {f"code.function.{k.replace('__', '.')}": v for k, v in attributes.items()}
    called = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup"}
    return read(called | given, scope=GENAI)


def roles(*texts):
    """Whose messages a request of ADK holds, that has them all in the user's name."""
    request = {"contents": [{"role": "user", "parts": [{"text": x}]} for x in texts]}
    attributes = {
        "gcp.vertex.agent.llm_request": json.dumps(request),
        "gen_ai.request.model": "gemini",
    }
    return [x.role for x in read(attributes, scope=ADK, name="call_llm").input]


def test_an_early_adks_run_is_an_agent_by_its_name_alone():
    step = read({}, scope=ADK, name="agent_run [clerk]")
    assert (step.kind, step.agent_name) == ("agent", "clerk")


def test_the_adk_for_java_calls_a_model_call_and_a_calls_id_otherwise():
    model = read(
        {"gen_ai.operation.name": "call_llm", "gcp.vertex.agent.llm_request": "{}"}, scope=ADK
    )
    told = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "f",
        "gen_ai.tool_call.id": "adk-1",
    }
    assert (model.kind, read(told, scope=ADK).call_id) == ("model", "adk-1")


@pytest.mark.parametrize(
    "retold",
    [
        "For context:\n[desk] said: I ask.",
        "For context: below is a transcript of what another agent did, quoted",
    ],
)
def test_what_another_agent_did_is_not_said_by_the_user(retold):
    assert roles("Where?", retold) == ["user", "assistant"]


def test_a_users_own_words_stay_the_users():
    assert roles("For context: I live in Oslo.") == ["user"]


def test_a_functions_parameters_are_its_arguments():
    step = function(
        parameters__sku__value="00042", parameters__sku__type="str", parameters__n__value=2
    )
    assert step.arguments == {"sku": "00042", "n": 2}


def test_an_argument_that_was_given_as_text_stays_text_though_it_is_json():
    assert function(parameters__body__value="{}", parameters__body__type="str").arguments == {
        "body": "{}"
    }


def test_text_that_a_function_returned_stays_text_though_it_looks_like_a_number():
    assert function(return__value="731", return__type="str").result == "731"


def test_null_that_a_function_returned_is_a_result():
    step = function(return__value="null", return__type="NoneType")
    assert (step.result, step.has_result) == (None, True)


@pytest.mark.parametrize(
    ("response", "result"),
    [
        ({"result": "731"}, "731"),
        ({"result": {"result": 1}}, {"result": 1}),
        ({"result": 1, "fee": 0}, {"result": 1, "fee": 0}),
    ],
)
def test_only_the_sdks_own_object_around_a_result_is_opened(response, result):
    part = {"type": "tool_call_response", "id": "lookup_0", "response": response}
    said = [{"role": "tool", "parts": [part]}]
    step = read(
        {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(said)}, scope=GENAI
    )
    assert [x.value for x in step.input[0].results] == [result]


@pytest.mark.parametrize(("provider", "result"), [("gemini", 0), ("openai", {"result": 0})])
def test_since_version_1_the_provider_tells_whose_spans_they_are(provider, result):
    given = [
        {
            "role": "user",
            "parts": [{"type": "tool_call_response", "id": "f_0", "response": {"result": 0}}],
        }
    ]
    attributes = {"gen_ai.operation.name": "generate_content", "gen_ai.provider.name": provider}
    step = read(
        attributes | {"gen_ai.input.messages": json.dumps(given)},
        scope="opentelemetry.util.genai.handler",
    )
    assert [x.value for message in step.input for x in message.results] == [result]


@pytest.mark.parametrize("name", ["tool_call [lookup]", "execute_tool lookup"])
def test_a_tool_of_adk_that_raised_before_it_was_described_is_told_by_its_name(name):
    step = read(
        {"gcp.vertex.agent.tool_call_args": '{"sku": "00042"}'}, scope=ADK, name=name, status=2
    )
    assert (step.kind, step.tool_name, step.arguments) == ("tool", "lookup", {"sku": "00042"})
    assert step.error


def test_several_tools_of_adk_at_once_are_told_one_by_one():
    assert read({}, scope=ADK, name="execute_tool (merged)").kind == "other"


def test_the_span_around_parallel_answers_of_adk_is_no_tool_call_where_its_scope_is_lost():
    step = read({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)"})
    assert (step.kind, step.tool_name) == ("other", None)


def test_the_pieces_of_a_streamed_answer_are_one_message_and_what_called_tools_came_before_it():
    def said(finish, **part):
        return {"role": "assistant", "parts": [part], "finish_reason": finish}

    rain = {"type": "tool_call", "name": "rain", "arguments": {}}
    answers = [
        said("", type="text", content="I lo"),
        said("stop", **rain),
        said("", type="text", content="It ra"),
        said("stop", type="text", content="ins."),
    ]
    told = json.dumps(answers, separators=(",", ":"))
    step = read(
        {"gen_ai.operation.name": "generate_content", "gen_ai.output.messages": told}, scope=GENAI
    )
    assert [x.text for x in step.output] == ["It rains."]
    assert [(x.text, [c.name for c in x.calls]) for x in step.input] == [("I lo", ["rain"])]


FLATTENED = "openinference.instrumentation.google_genai"


def flattened(*texts, calls):
    """What a model was given: a question, calls of `f`, and then texts in turn."""
    prefix = "llm.input_messages."
    told = {
        f"{prefix}0.message.role": "user",
        f"{prefix}0.message.content": "Where?",
        f"{prefix}1.message.role": "model",
    }
    for number in range(calls):
        told[f"{prefix}1.message.tool_calls.{number}.tool_call.function.name"] = "f"
    for number, said in enumerate(texts, start=2):
        role = "user" if number % 2 == 0 else "model"
        told |= {f"{prefix}{number}.message.role": role, f"{prefix}{number}.message.content": said}
    return read({"openinference.span.kind": "LLM", **told}, scope=FLATTENED).input[2:]


@pytest.mark.parametrize(
    ("said", "calls", "results"),
    [
        ('{"result": 0}', 1, [0]),
        ('{"result": 0}\n\n{"result": null}\n\n{"a": "{\\n\\n}"}', 3, [0, None, {"a": "{\n\n}"}]),
    ],
)
def test_results_that_early_versions_tell_as_the_users_text_are_results(said, calls, results):
    (message,) = flattened(said, calls=calls)
    assert (message.text, [x.value for x in message.results]) == (None, results)


@pytest.mark.parametrize(
    ("said", "calls"),
    [
        ('{"result": 0}', 0),
        ('{"result": 0}', 2),
        ('{"result": 0} or so', 1),
        ("[1]", 1),
        ('{"result": ', 1),
        ("", 1),
    ],
)
def test_what_may_be_the_users_own_words_stays_the_users(said, calls):
    (message,) = flattened(said, calls=calls)
    assert (message.text, message.results) == (said, ())


def test_a_question_in_json_after_an_answer_is_a_question():
    *_, question = flattened('{"result": 0}', "Here.", '{"result": 1}', calls=1)
    assert question.text == '{"result": 1}'
