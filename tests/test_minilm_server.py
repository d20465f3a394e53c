"""The network of bench/minilm_server.py, on a small model with weights of its own."""

import json
import math
import runpy
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

SERVER = runpy.run_path(str(Path(__file__).parents[1] / "bench" / "minilm_server.py"))
WIDTH, INNER = 8, 16


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("minilm"), np.random.default_rng(1)
    words = ["[PAD]", "[UNK]", "a", "flight", "to", "lisbon", "zebras"]
    tokenizer = Tokenizer(models.WordLevel({x: i for i, x in enumerate(words)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    shapes = {
        "embeddings.word_embeddings.weight": (len(words), WIDTH),
        "embeddings.position_embeddings.weight": (12, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        "embeddings.LayerNorm.weight": (WIDTH,),
        "embeddings.LayerNorm.bias": (WIDTH,),
    }
    for name, (out, into) in {
        "attention.self.query": (WIDTH, WIDTH),
        "attention.self.key": (WIDTH, WIDTH),
        "attention.self.value": (WIDTH, WIDTH),
        "attention.output.dense": (WIDTH, WIDTH),
        "intermediate.dense": (INNER, WIDTH),
        "output.dense": (WIDTH, INNER),
    }.items():
        shapes[f"encoder.layer.0.{name}.weight"] = (out, into)
        shapes[f"encoder.layer.0.{name}.bias"] = (out,)
    for name in ("attention.output", "output"):
        shapes[f"encoder.layer.0.{name}.LayerNorm.weight"] = (WIDTH,)
        shapes[f"encoder.layer.0.{name}.LayerNorm.bias"] = (WIDTH,)
    weights = {name: rng.normal(size=x).astype(np.float32) for name, x in shapes.items()}
    save_file(weights, folder / "model.safetensors")
    config = {"num_attention_heads": 2, "num_hidden_layers": 1, "layer_norm_eps": 1e-12}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 10}))
    return SERVER["MiniLM"](folder)


def test_a_text_has_the_same_vector_of_unit_length_beside_longer_ones(model):
    texts = ["zebras", "a flight to lisbon", "to a flight a flight"]
    together, alone = model.embed(texts), np.concatenate([model.embed([x]) for x in texts])
    assert together == pytest.approx(alone, abs=1e-5)
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(3), abs=1e-5)


def test_the_order_of_words_counts_and_what_is_past_the_limit_does_not(model):
    one, other = model.embed(["a flight to lisbon", "lisbon to a flight"])
    assert one != pytest.approx(other, abs=1e-3)
    long, longer = model.embed(["a " * 10, "a " * 10 + "zebras"])
    assert long == pytest.approx(longer, abs=1e-6)


def test_the_error_function_is_close_to_pythons():
    x = np.linspace(-4, 4, 101)
    assert SERVER["_Erf"]()(x) == pytest.approx([math.erf(v) for v in x], abs=2e-7)
