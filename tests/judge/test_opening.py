"""What a configuration opens, when litellm is imported, and who sees the judge's calls."""

import asyncio
import subprocess
import sys

import pytest
from judge_harness import GOOD, KEY, PROMPT, Verdict, ask, config_for, trace
from pydantic import ValidationError
from scripted_server import ScriptedServer, answer

from spanscore.judge import Config, estimate, open_judge, renderer
from spanscore.lazy_imports import load_litellm


def run(code, **options):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, **options
    ).stdout


@pytest.mark.slow
def test_importing_the_judge_does_not_import_litellm():
    assert run("import sys, spanscore.judge; print('litellm' in sys.modules)") == "False\n"


@pytest.mark.slow
def test_importing_litellm_reads_no_env_file_of_the_working_folder(tmp_path):
    (tmp_path / ".env").write_text("OPENAI_API_KEY=from-a-file\n")
    code = (
        "import os; from spanscore.lazy_imports import load_litellm\n"
        "load_litellm(); print(os.environ.get('OPENAI_API_KEY'))"
    )

    assert run(code, cwd=tmp_path, env={}) == "None\n"


@pytest.mark.slow
def test_importing_litellm_opens_no_connection():
    code = (
        "import socket\n"
        "def refuse(*_): raise SystemExit('connects')\n"
        "socket.socket.connect = refuse\n"
        "from spanscore.lazy_imports import load_litellm\n"
        "print(load_litellm().cost_per_token('gpt-4o-mini', 1, 1)[0] > 0)"
    )

    assert run(code, env={}) == "True\n"


@pytest.mark.parametrize("model", [None, ""])
def test_without_a_model_there_is_no_judge(model):
    assert open_judge(Config(model=model)) is None


@pytest.mark.slow
def test_a_model_opens_a_judge_that_answers():
    with ScriptedServer(answer(GOOD)) as server:
        assert asyncio.run(open_judge(config_for(server)).ask(PROMPT, Verdict)).value.score == 0.5


@pytest.mark.slow
def test_answers_are_kept_in_memory_where_there_is_no_store():
    async def twice(judge):
        return [(await judge.ask(PROMPT, Verdict)).usage.cached for _ in "12"]

    with ScriptedServer(answer(GOOD)) as server:
        assert asyncio.run(twice(open_judge(config_for(server)))) == [0, 1]


def test_the_cache_can_be_turned_off():
    async def twice(judge):
        return [(await judge.ask(PROMPT, Verdict)).usage.cached for _ in "12"]

    with ScriptedServer(answer(GOOD)) as server:
        assert asyncio.run(twice(open_judge(config_for(server, cache={"enabled": False})))) == [
            0,
            0,
        ]


def test_callbacks_registered_with_litellm_do_not_see_the_judges_calls():
    litellm = load_litellm()
    from litellm.integrations.custom_logger import CustomLogger

    seen = []

    class Spy(CustomLogger):
        async def async_log_success_event(self, *arguments):
            seen.append("success")

        def log_success_event(self, *arguments):
            seen.append("success")

    async def ask_and_let_callbacks_run():
        await open_judge(config_for(server)).ask(PROMPT, Verdict)
        await asyncio.sleep(0.2)

    litellm.callbacks.append(Spy())
    try:
        with ScriptedServer(answer(GOOD)) as server:
            asyncio.run(ask_and_let_callbacks_run())
    finally:
        litellm.callbacks.pop()

    assert seen == []


def test_instrumentation_is_suppressed_while_the_judge_asks(monkeypatch):
    from opentelemetry import context

    seen = []
    original = load_litellm().acompletion

    async def watched(**arguments):
        seen.append(context.get_value("suppress_instrumentation"))
        return await original(**arguments)

    monkeypatch.setattr(load_litellm(), "acompletion", watched)
    with ScriptedServer(answer(GOOD)) as server:
        ask(server)

    assert seen == [True]


def test_an_estimate_bounds_what_a_call_costs():
    with ScriptedServer(answer(GOOD)) as server:
        cost = ask(server, model="openai/gpt-4o-mini").usage.cost_usd

    assert estimate(PROMPT, Verdict, "openai/gpt-4o-mini").cost_usd > cost


def test_an_estimate_for_a_model_of_unknown_price_has_no_cost():
    assert estimate(PROMPT, Verdict, "openai/scripted").cost_usd is None


def test_a_transcript_is_as_long_as_configured():
    config = Config(max_transcript_tokens=500)

    assert renderer(config)(trace(final_output="x" * 9000)).tokens <= 500


def test_a_transcript_is_redacted_as_configured():
    config = Config.model_validate({"redact": {"patterns": {"customer": "C-[0-9]+"}}})

    assert renderer(config)(trace(user_input="I am C-77")).redacted == {"customer": 1}


def test_a_transcript_is_not_redacted_when_that_is_off():
    config = Config.model_validate({"redact": {"enabled": False}})

    assert "a@x.com" in renderer(config)(trace(user_input="a@x.com")).text


def test_the_key_is_not_shown():
    assert KEY not in repr(config_for("http://x")) + str(config_for("http://x").model_dump_json())


def test_an_empty_key_is_none():
    assert Config.model_validate({"api_key": ""}).api_key is None


@pytest.mark.parametrize(
    "settings",
    [
        {"extra": {"api_key": "x"}},
        {"redact": {"patterns": {"x": "("}}},
        {"redact": {"patterns": {"Not a kind": "x"}}},
        {"budget": {"per": "week"}},
        {"modle": "x"},
    ],
)
def test_a_configuration_that_cannot_be_used_is_refused(settings):
    with pytest.raises(ValidationError):
        Config.model_validate(settings)
