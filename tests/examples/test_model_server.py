"""The scripted model of the examples: it speaks OpenAI's API as OpenAI's own client and others
expect it.
"""

import importlib.util
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {}}}
    for name in ("find_order", "refund")
]
QUESTION = {"role": "user", "content": "I want my money back for order 77."}


@pytest.fixture
def model_server():
    """The module of the examples; the recordings have another one of its name."""
    spec = importlib.util.spec_from_file_location(
        "examples_model_server", EXAMPLES / "model_server.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def server(model_server):
    with model_server.serving() as url:
        yield url


def ask(url, path, **body):
    request = urllib.request.Request(url + path, json.dumps(body).encode())
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode()


def calls(message):
    return [
        (x["function"]["name"], json.loads(x["function"]["arguments"]))
        for x in message["tool_calls"]
    ]


def chat(url, *messages, tools=TOOLS):
    return json.loads(ask(url, "/chat/completions", model="m", messages=messages, tools=tools))[
        "choices"
    ][0]["message"]


@pytest.mark.slow
def test_a_question_leads_to_its_first_call(server):
    assert calls(chat(server, QUESTION)) == [("find_order", {"order_id": "77"})]


@pytest.mark.slow
def test_a_tools_result_leads_to_the_next_call(server):
    result = {"role": "tool", "tool_call_id": "call_1", "content": '{"total_usd": 12.50}'}

    assert calls(chat(server, QUESTION, result)) == [
        ("refund", {"order_id": "77", "amount_usd": 12.5})
    ]


@pytest.mark.slow
def test_after_the_last_result_comes_the_answer(server):
    results = [{"role": "tool", "tool_call_id": f"call_{i}", "content": "12.50"} for i in range(2)]

    assert (
        chat(server, QUESTION, *results)["content"]
        == "I have refunded 12.50 USD for order 77; it takes five days."
    )


@pytest.mark.slow
def test_a_new_question_begins_anew(server):
    result = {"role": "tool", "tool_call_id": "call_1", "content": "{}"}

    assert calls(chat(server, QUESTION, result, QUESTION)) == [("find_order", {"order_id": "77"})]


@pytest.mark.slow
def test_a_tool_that_is_not_on_offer_is_not_called(server):
    assert chat(server, QUESTION, tools=[])["content"] == "I have no tool named find_order."


@pytest.mark.slow
def test_a_question_without_a_script_gets_an_answer_too(server):
    assert "What shall I do?" in chat(server, {"role": "user", "content": "Hello"})["content"]


@pytest.mark.slow
def test_the_responses_api_takes_the_same_script(server):
    offered = [{"type": "function", **tool["function"]} for tool in TOOLS]
    result = {"type": "function_call_output", "call_id": "call_1", "output": "12.50"}
    answer = json.loads(
        ask(server, "/responses", model="m", input=[QUESTION, result], tools=offered)
    )

    assert [x["name"] for x in answer["output"]] == ["refund"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "given"),
    [("/chat/completions", {"messages": [QUESTION]}), ("/responses", {"input": [QUESTION]})],
)
def test_a_streamed_reply_ends_with_done(server, path, given):
    streamed = ask(server, path, model="m", stream=True, tools=TOOLS, **given)

    assert "find_order" in streamed
    assert streamed.endswith("data: [DONE]\n\n")


@pytest.mark.slow
def test_the_openai_client_reads_a_streamed_reply(server):
    openai = pytest.importorskip("openai")
    client = openai.OpenAI()  # by the variables that the server sets
    with client.responses.stream(
        model="m", input=[QUESTION], tools=[{"type": "function", **TOOLS[0]["function"]}]
    ) as streamed:
        whole = streamed.get_final_response()

    assert whole.output[-1].name == "find_order"


@pytest.mark.slow
def test_a_program_is_run_against_it_and_its_exit_code_kept():
    program = (
        "import os, sys; sys.exit(7 if"
        " os.environ['OPENAI_BASE_URL'].startswith('http://127.0.0.1:') else 1)"
    )
    words = [sys.executable, str(EXAMPLES / "model_server.py"), "--", sys.executable, "-c", program]

    assert subprocess.run(words, check=False).returncode == 7


def test_with_a_key_the_real_api_is_left_in_place(monkeypatch, model_server):
    monkeypatch.setenv("OPENAI_API_KEY", "a key")
    with model_server.serving() as url:
        assert (url, os.environ.get("OPENAI_BASE_URL")) == ("https://api.openai.com/v1", None)
