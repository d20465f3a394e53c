"""The extra `judge` is not installed: who names a model is told so, by name, before anything is
asked.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from spanscore import embed
from spanscore.errors import ConfigError
from spanscore.judge import Config, check_models, open_for_trial, open_judge, provider, trial
from spanscore.judge.litellm import LiteLLM
from spanscore.lazy_imports import load_litellm

HOW = r"pip install 'spanscore\[judge\]'"
TRACES = str(Path(__file__).parents[2] / "examples/recordings/pydantic-ai")
COMMAND = (
    "import sys; sys.modules['litellm'] = None; from spanscore.cli.main import main;"
    " sys.exit(main(sys.argv[1:]))"
)


@pytest.fixture(autouse=True)
def _without_litellm(monkeypatch):
    monkeypatch.setitem(sys.modules, "litellm", None)  # as if there were none


def command(*words):
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *words], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "opened", [open_judge, open_for_trial, lambda config: check_models(config, config.models)]
)
def test_a_model_is_refused_with_the_extra_that_it_needs(opened):
    with pytest.raises(
        ConfigError, match=f"judge.model: gpt-4o-mini is called through litellm, .*: {HOW}"
    ):
        opened(Config(model="gpt-4o-mini"))


def test_an_embedding_model_is_refused_likewise():
    with pytest.raises(
        ConfigError, match=f"embedding.model: text-embedding-3-small is called .*: {HOW}"
    ):
        embed.open_embedder(embed.Config(model="text-embedding-3-small"))


def test_without_a_model_nothing_is_missed():
    assert open_judge(Config()) is None


def test_recorded_answers_need_no_litellm(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text('{"model": "openai/gpt-4o-mini", "recorded": "2026-11-01"}\n')

    assert open_judge(Config(recorded_answers=path)) is not None


def test_a_price_that_only_litellm_has_is_not_known():
    provider._prices.cache_clear()
    try:
        assert (
            LiteLLM(Config(model="gpt-4o-mini")).known_cost_usd("gpt-4o-mini", 1000, 1000) is None
        )
    finally:
        provider._prices.cache_clear()


def test_a_litellm_that_cannot_be_imported_is_an_error_that_says_how_to_mend_it():
    with pytest.raises(
        ConfigError, match=f"models are called through litellm, whose import fails .*: {HOW}"
    ):
        load_litellm.__wrapped__()


def test_the_advice_is_to_install_the_extra():
    with pytest.raises(ConfigError) as error:
        open_for_trial(Config(model="gpt-4o-mini"))
    assert (
        trial.advice(error.value) == "install what the judge needs: pip install 'spanscore[judge]'"
    )


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_command_with_a_model_ends_with_one_line(options):
    done = command("eval", TRACES, "--model", "openai/gpt-4o-mini", *options)

    assert done.returncode == 2
    assert done.stderr.endswith("which is not installed: pip install 'spanscore[judge]'\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_command_without_a_model_needs_no_litellm():

    assert command("eval", TRACES).returncode == 0
