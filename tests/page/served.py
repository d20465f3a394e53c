"""`spanscore serve` as a process of its own, with a store that was filled before."""

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import yaml

_DEADLINE_S = 120


class Served:
    """A server of the page, its data in `folder`; `settings` are further sections of its configuration."""

    def __init__(self, folder: Path, **settings) -> None:
        self.folder = folder
        grpc, http, health, api, page = _free_ports(5)
        self.url = f"http://127.0.0.1:{page}"
        receive = {
            name: {"endpoint": f"127.0.0.1:{port}"}
            for name, port in (("grpc", grpc), ("http", http), ("health", health))
        }
        config = {
            "receive": receive,
            "journal": {"path": str(folder / "journal.db")},
            "store": {"url": self.store_url},
            **settings,
        }
        config["api"] = {
            "endpoint": f"127.0.0.1:{api}",
            "http": {"endpoint": f"127.0.0.1:{page}"},
            **settings.get("api", {}),
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        self._process: subprocess.Popen | None = None

    @property
    def store_url(self) -> str:
        """Of its store, to be filled before it starts."""
        return f"sqlite:///{self.folder}/store.db"

    def start(self) -> "Served":
        """Start, and wait until it answers."""
        command = [sys.executable, "-m", "spanscore.cli.main", "serve", "-c", str(self.folder / "config.yaml")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + _DEADLINE_S
        while not self._answers():
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)
        return self

    def stop(self) -> None:
        """End it, where it runs. May be called again."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(_DEADLINE_S)
            self._process = None

    def log(self) -> str:
        """What it logged."""
        return (self.folder / "log").read_text()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=10):
                return True
        except OSError:
            return False


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [x.getsockname()[1] for x in found]
