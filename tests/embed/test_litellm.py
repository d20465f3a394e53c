import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from spanscore import embed, judge
from spanscore.embed.litellm import LiteLLM
from spanscore.errors import EmbeddingError

SILENT = 0
"""In a script: no answer at all."""

VECTORS = {
    "[REDACTED:email at example.com]": [1.0, 0.0],
    "order": [3.0, 4.0],
    "refund": [4.0, 3.0],
    "nothing": [0.0, 0.0],
}


class Provider(ThreadingHTTPServer):
    """An embeddings API on loopback that keeps what it was sent and answers as scripted, then as it
    should.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests = []
        self.keys = []
        self.script = []
        self.released = threading.Event()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(request)
        self.server.keys.append(self.headers["authorization"])
        status, headers, answer = 200, {}, None
        if self.server.script:
            status, headers, answer = self.server.script.pop(0)
        if status == SILENT:
            self.server.released.wait()
            return
        body = json.dumps(answer or self._vectors(request["input"])).encode()
        self.send_response(status)
        for name, value in {
            **headers,
            "content-type": "application/json",
            "content-length": len(body),
        }.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def _vectors(self, texts):
        # Last first, since the order of an answer is what `index` says.
        data = [
            {"object": "embedding", "index": i, "embedding": VECTORS[text]}
            for i, text in enumerate(texts)
        ][::-1]
        return {
            "object": "list",
            "data": data,
            "model": "small",
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
        }

    def log_message(self, *args):
        pass


@pytest.fixture
def provider():
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def ask(provider, pauses):
    """Ask the provider for some texts' vectors; what the adapter would have slept is in
    `pauses`.
    """

    async def sleep(seconds):
        pauses.append(seconds)

    def vectors(*texts, redact=str, **options):
        config = embed.Config(
            **{"model": "openai/small", "api_base": provider.url, "api_key": "sk-1", **options}
        )
        return asyncio.run(LiteLLM(config, redact=redact, sleep=sleep).embed(texts))

    return vectors


BUSY = {"error": {"message": "slow down"}}
FORBIDDEN = {"error": {"message": "no such key"}}


@pytest.mark.slow
def test_vectors_come_back_in_the_order_of_the_texts_at_length_one(ask):
    np.testing.assert_allclose(ask("order", "refund"), [[0.6, 0.8], [0.8, 0.6]], atol=1e-6)


def test_a_vector_of_zeros_stays_one(ask):
    assert ask("nothing").tolist() == [[0.0, 0.0]]


def test_the_provider_gets_texts_redacted(ask, provider):
    ask("anna@example.com", redact=judge.redactor(judge.Config()))
    assert provider.requests[0]["input"] == ["[REDACTED:email at example.com]"]


def test_the_provider_gets_the_configured_model_and_key(ask, provider):
    ask("order")
    assert (provider.requests[0]["model"], provider.keys[0]) == ("small", "Bearer sk-1")


def test_many_texts_go_in_batches(ask, provider):
    rows = ask("order", "refund", "order", batch_size=2)
    assert ([x["input"] for x in provider.requests], len(rows)) == (
        [["order", "refund"], ["order"]],
        3,
    )


def test_a_refusal_that_may_pass_is_tried_again_after_what_retry_after_says(ask, provider, pauses):
    provider.script = [(429, {"retry-after": "7"}, BUSY)]
    ask("order")
    assert pauses == [7.0]


def test_pauses_double_where_the_provider_does_not_say(ask, provider, pauses):
    provider.script = [(503, {}, BUSY), (500, {}, BUSY)]
    ask("order")
    assert pauses == [0.5, 1.0]


def test_a_provider_cannot_hold_us_up_for_long(ask, provider, pauses):
    provider.script = [(429, {"retry-after": "86400"}, BUSY)]
    ask("order")
    assert pauses == [30.0]


def test_after_all_retries_it_is_an_embedding_error(ask, provider):
    provider.script = [(503, {}, BUSY)] * 3
    with pytest.raises(
        EmbeddingError, match=r"litellm/openai/small gave no embedding: .*slow down"
    ):
        ask("order", max_retries=2)


def test_a_refusal_that_will_not_pass_is_not_tried_again(ask, provider):
    provider.script = [(401, {}, FORBIDDEN)]
    with pytest.raises(EmbeddingError):
        ask("order")
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    "data",
    [
        [],
        [{"object": "embedding", "index": 0, "embedding": [1.0]}] * 2,
        [{"object": "embedding", "index": 0, "embedding": None}],
        [{"object": "embedding", "index": 0, "embedding": []}],
    ],
)
def test_an_answer_that_is_not_one_vector_a_text_is_an_embedding_error(ask, provider, data):
    provider.script = [(200, {}, {"object": "list", "data": data, "model": "small", "usage": {}})]
    with pytest.raises(EmbeddingError):
        ask("order")


def test_a_provider_that_is_not_there_is_an_embedding_error(ask):
    with pytest.raises(EmbeddingError, match="gave no embedding"):
        ask("order", api_base="http://127.0.0.1:9/v1", max_retries=0)


def test_a_provider_that_does_not_answer_in_time_is_an_embedding_error(ask, provider):
    provider.script = [(SILENT, {}, None)]
    with pytest.raises(EmbeddingError, match="Timeout"):
        ask("order", timeout="100ms", max_retries=0)


def test_a_call_is_hidden_from_instrumentations(ask, monkeypatch):
    import litellm
    from opentelemetry import context

    seen = []

    async def aembedding(**request):
        seen.append(context.get_value("suppress_instrumentation"))
        return litellm.EmbeddingResponse(data=[{"index": 0, "embedding": [1.0]}])

    monkeypatch.setattr(litellm, "aembedding", aembedding)
    ask("order")
    assert seen == [True]


def test_the_name_is_the_models():
    assert (
        embed.open_embedder(embed.Config(model="text-embedding-3-small")).name
        == "litellm/text-embedding-3-small"
    )
