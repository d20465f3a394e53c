"""A server that commands ask; and the folders of what tests share: importlib mode adds none to the
path.
"""

import asyncio
import sys
import threading
from pathlib import Path

import pytest

from spanscore.api.server import Server
from spanscore.config import Settings
from spanscore.serving.pipeline import Pipeline
from spanscore.store.config import Config
from spanscore.store.store import Store, StoredTrace
from spanscore.testing.traces import agent_trace

sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("judge", "report")]


class Serving:
    """A server in a thread of its own, with these traces and scores, else five traces, in its
    store.
    """

    def __init__(self, folder, traces=None, scores=()):
        url = f"sqlite:///{folder}/store.db"
        self.store = f"{folder}/store.db"
        store = Store.open(Config(url=url))
        if traces is None:
            traces = [agent_trace(service_name="shop", tool_calls=()) for _ in range(5)]
        self.ids = [x.id for x in traces]
        store.commit([StoredTrace(x, 1, "") for x in traces], scores)
        store.close()
        anywhere = {"endpoint": "127.0.0.1:0"}
        self._settings = Settings.model_validate(
            {
                "store": {"url": url},
                "journal": {"path": f"{folder}/journal.db"},
                "receive": {"grpc": anywhere, "http": anywhere, "health": anywhere},
                "api": anywhere,
                "page": {"trace_url": "https://traces.example.com/{trace_id}"},
                "monitors": {"configured": {"metric": "check.errors_recovered", "floor": 0.5}},
            }
        )
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(60)

    async def _serve(self):
        self._stopping, self._loop = asyncio.Event(), asyncio.get_running_loop()
        pipeline = Pipeline(self._settings)
        server = Server(self._settings.api, pipeline, pipeline.authenticators)
        await server.start()
        self.address = f"127.0.0.1:{server.port}"
        await pipeline.run(self._stopping, started=self._ready.set)
        await server.stop(0)

    def stop(self):
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    server = Serving(tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def serving_with(tmp_path_factory):
    """Starts a server that has these traces and scores."""
    servers = []

    def start(traces, scores):
        servers.append(Serving(tmp_path_factory.mktemp("server"), traces, scores))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()
