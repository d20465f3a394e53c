"""Lets the tests in this folder import what they share with the judge's: importlib mode adds no
folder to the path.
"""

import functools
import http.server
import sys
import threading
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "judge"), str(HERE.parent / "judged")]


@pytest.fixture
def serve_folder():
    """Serves a folder's files over HTTP until the end of the test; gives the address."""
    servers = []

    def serve(folder):
        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(QuietHandler, directory=folder)
        )
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Logs nothing."""

    def log_message(self, *_):
        pass
