"""What is read from litellm's data files is what litellm says."""

import subprocess
import sys
from pathlib import Path

import pytest

from spanscore.judge import provider
from spanscore.lazy_imports import load_litellm

_RECORDING = str(Path(__file__).parents[2] / "examples" / "recordings" / "pydantic-ai")
_WITHOUT_LITELLM = (
    "import sys\nfrom spanscore.cli.main import main\n"
    "code = main(sys.argv[1:])\nprint('litellm' in sys.modules, code, file=sys.stderr)\n"
)


def test_every_provider_is_one_of_litellms():
    litellm = load_litellm()
    of_data_files = provider._providers() - {x.value for x in litellm.LlmProviders}
    assert len(provider._providers()) > 20
    assert {
        x for x in of_data_files if litellm.get_llm_provider(f"{x}/some-model")[1] != x
    } == set()


@pytest.mark.parametrize(
    "model", ["gpt-4o", "openai/gpt-4o-mini", "claude-sonnet-4-5", "gemini/gemini-2.5-flash"]
)
def test_prices_are_litellms(model):
    expected = sum(
        load_litellm().cost_per_token(model=model, prompt_tokens=2000, completion_tokens=300)
    )
    assert provider.cost_usd(model, 2000, 300) == pytest.approx(expected)


@pytest.mark.parametrize(
    "model", ["no-such-model", "nobody/none", "text-embedding-3-small", "openai/dall-e-3"]
)
def test_of_what_is_not_plain_no_price_is_told(model):
    assert provider.cost_usd(model, 1, 1) is None


def test_a_price_that_rises_with_the_prompt_is_left_to_litellm():
    assert provider.cost_usd("gemini/gemini-2.5-pro", 300_000, 1) is None


def _without_key(*words):
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_LITELLM, *words],
        env={"PATH": "", "HOME": "/nonexistent", "SPANSCORE_JUDGE_MODEL": "openai/gpt-4o-mini"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("eval", _RECORDING), 1),
        (("eval", "--dry-run", _RECORDING), 0),
        (("eval", "--metric", "loop_detection", _RECORDING), 0),
        (("inspect", _RECORDING), 0),
        (("doctor",), None),
    ],
    ids=str,
)
def test_a_command_that_asks_no_model_imports_no_litellm(words, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    imported, given = _without_key(*words).splitlines()[-1].split()
    assert imported == "False"
    assert code is None or int(given) == code


@pytest.mark.slow
def test_a_missing_key_is_named_without_litellm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "no key to call it with: set OPENAI_API_KEY, or judge.api_key" in _without_key(
        "eval", _RECORDING
    )
