import asyncio
import hashlib
import json
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from spanscore import embed
from spanscore.errors import ConfigError

UNKNOWN = "[UNK]"
VOCABULARY = {UNKNOWN: 0, "[PAD]": 1, "order": 2, "refund": 3, "rain": 4}
TABLE = np.array([[0, 0, 0], [0, 0, 0], [3, 4, 0], [4, 3, 0], [0, 0, 2]], dtype=np.float32)


@pytest.fixture
def folder(tmp_path):
    """A model2vec model of three words, as `StaticModel.save_pretrained` lays it out."""
    model = tmp_path / "tiny"
    model.mkdir()
    tokenizer = Tokenizer(WordLevel(VOCABULARY, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(model / "tokenizer.json"))
    save_file({"embeddings": TABLE}, model / "model.safetensors")
    (model / "config.json").write_text(json.dumps({"normalize": False}))
    return model


def opened(folder, **options):
    return embed.open_embedder(embed.Config(local_model=str(folder), **options))


def vectors(folder, *texts):
    return asyncio.run(opened(folder).embed(texts))


@pytest.mark.slow
def test_a_text_is_the_mean_of_its_words_vectors_at_length_one(folder):
    mean = TABLE[2] + TABLE[3]
    np.testing.assert_allclose(
        vectors(folder, "order refund")[0], mean / np.linalg.norm(mean), atol=1e-6
    )


def test_the_cosine_of_two_words_is_that_of_their_rows_in_the_table(folder):
    one, other = vectors(folder, "order", "refund")
    assert float(one @ other) == pytest.approx(24 / 25)


def test_a_text_of_unknown_words_has_no_feature(folder):
    assert not vectors(folder, "xyzzy").any()


def test_the_name_tells_two_models_of_the_same_name_apart(folder):
    before = opened(folder).name
    save_file(
        {"embeddings": TABLE * np.array([1, -1, 1], dtype=np.float32)}, folder / "model.safetensors"
    )
    assert opened(folder).name != before


def test_the_name_begins_with_the_family_and_the_model(folder):
    assert opened(folder).name.startswith("model2vec/tiny@")


def test_a_file_with_its_pinned_digest_is_accepted(folder):
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert opened(folder, sha256={"model.safetensors": digest}).name.startswith("model2vec/")


def test_a_file_with_another_digest_than_the_pinned_one_is_refused(folder):
    with pytest.raises(ConfigError, match=r"tokenizer\.json has SHA-256 .* but 0{64} is pinned"):
        opened(folder, sha256={"tokenizer.json": "0" * 64})


def test_a_pinned_file_that_is_not_there_is_refused(folder):
    with pytest.raises(ConfigError, match=r"pins vocab\.txt, which .* does not hold"):
        opened(folder, sha256={"vocab.txt": "0" * 64})


def test_a_folder_that_is_not_there_is_refused_without_asking_the_hub():
    with pytest.raises(ConfigError, match="neither a folder nor the name of a model on the hub"):
        opened("/nowhere/potion")


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="is no model2vec model"):
        opened(tmp_path)


def test_without_the_extra_the_error_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "model2vec", None)
    with pytest.raises(ConfigError, match=r"pip install 'spanscore\[local\]'"):
        opened(folder)
