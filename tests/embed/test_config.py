import subprocess
import sys

import pytest
from pydantic import ValidationError

from spanscore import embed


def test_nothing_configured_comes_to_no_embedding():
    assert embed.Config().chosen is None
    assert embed.open_embedder(embed.Config()) is None


def test_auto_prefers_the_provider_over_the_local_model():
    assert (
        embed.Config(model="text-embedding-3-small", local_model="/models/potion").chosen
        == "litellm"
    )


def test_auto_takes_the_local_model_where_no_provider_is_configured():
    assert embed.Config(local_model="/models/potion").chosen == "model2vec"


def test_a_named_provider_wins_over_auto():
    assert embed.Config(provider="ngrams", model="text-embedding-3-small").chosen == "ngrams"


@pytest.mark.parametrize(
    ("provider", "needed"), [("litellm", "model"), ("model2vec", "local_model")]
)
def test_a_provider_without_its_model_is_refused(provider, needed):
    with pytest.raises(ValidationError, match=f"provider {provider} needs {needed}"):
        embed.Config(provider=provider)


def test_a_provider_named_as_a_model_is_refused_with_what_to_set():
    with pytest.raises(ValidationError, match=r"set embedding\.provider to ngrams"):
        embed.Config(model="ngrams")


def test_an_unknown_key_is_refused():
    with pytest.raises(ValidationError, match="modle"):
        embed.Config(modle="x")


def test_a_pin_that_is_no_sha256_is_refused():
    with pytest.raises(ValidationError, match="sha256"):
        embed.Config(local_model="x/y", sha256={"model.safetensors": "abc"})


def test_the_key_of_the_provider_is_not_printed():
    assert "sk-1" not in repr(embed.Config(api_key="sk-1"))


def test_n_grams_run_where_they_are_asked_for_by_name():
    assert embed.open_embedder(embed.Config(provider="ngrams")).name == "ngrams-1"


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "model='openai/small'"])
def test_opening_imports_no_library_that_is_not_asked_yet(options):
    code = (
        f"import sys; from spanscore import embed; embed.open_embedder(embed.Config({options})); "
    )
    code += "print({'litellm', 'model2vec'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"
