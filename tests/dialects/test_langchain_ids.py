"""The provider's id of a response, where an instrumentation of LangChain keeps what LangChain made
of it.
"""

import json

import pytest
from one_span import read

PYTHON = "openinference.instrumentation.langchain"
JAVASCRIPT = "@arizeai/openinference-instrumentation-langchain"


def model_run(message, scope=PYTHON, **output):
    """What is read of a model call with this message."""
    generation = {
        "message": {
            "lc": 1,
            "type": "constructor",
            "id": ["AIMessage"],
            "kwargs": {"content": "x", **message},
        }
    }
    value = json.dumps({"generations": [[generation]], **output})
    return read({"openinference.span.kind": "LLM", "output.value": value}, scope=scope)


@pytest.mark.parametrize("identity", ["chatcmpl-1", "msg_1", "resp_1", "b7f1"])
def test_the_id_of_the_response_is_in_the_messages_metadata(identity):
    message = {"id": "lc_run--01a1-0", "response_metadata": {"usage": {"id": "no"}, "id": identity}}
    assert model_run(message).response_id == identity


def test_the_id_of_the_response_may_be_the_messages_own():
    assert (
        model_run({"id": "chatcmpl-1", "response_metadata": {}}, JAVASCRIPT).response_id
        == "chatcmpl-1"
    )


def test_the_id_of_the_response_may_be_beside_the_messages():
    assert (
        model_run({"id": "run-01a1-0"}, llm_output={"id": "chatcmpl-1"}).response_id == "chatcmpl-1"
    )


@pytest.mark.parametrize("identity", ["run-01a1-0", "lc_run--01a1-0", "", None, 7, ["x"]])
def test_an_id_that_is_langchains_own_or_none_is_not_the_responses(identity):
    assert model_run({"id": identity, "response_metadata": {"id": identity}}).response_id is None


def test_what_a_model_said_of_an_id_is_not_the_responses():
    said = {"content": '"response_metadata": {"id": "chatcmpl-1"}', "tool_calls": []}
    assert model_run(said).response_id is None


@pytest.mark.parametrize(
    "value", ["", "x", "[]", '{"generations": 1}', '{"generations": [[1]], "llm_output": []}']
)
def test_an_output_that_is_no_models_has_no_id(value):
    assert (
        read({"openinference.span.kind": "LLM", "output.value": value}, scope=PYTHON).response_id
        is None
    )
