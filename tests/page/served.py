"""`spanscore serve` as a process of its own, with a store that was filled before."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "live"))

from reserved_ports import free_ports

_DEADLINE_S = 120


class Served:
    """A server of the page, its data in `folder`; `settings` are further sections of its
    configuration.
    """

    def __init__(self, folder: Path, **settings) -> None:
        self.folder = folder
        grpc, http, health, api, page = free_ports(5)
        self.url = f"http://127.0.0.1:{page}"
        self.endpoint = f"127.0.0.1:{api}"
        self._health = f"http://127.0.0.1:{health}/"
        self._otlp = f"http://127.0.0.1:{http}/v1/traces"
        receive = {
            name: {"endpoint": f"127.0.0.1:{port}"}
            for name, port in (("grpc", grpc), ("http", http), ("health", health))
        }
        config = {
            "receive": receive,
            "journal": {"path": str(folder / "journal.db")},
            "store": {"url": self.store_url},
            "assemble": {"complete_after": "500ms", "idle_after": "500ms"},
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
        command = [
            sys.executable,
            "-m",
            "spanscore.cli.main",
            "serve",
            "-c",
            str(self.folder / "config.yaml"),
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + _DEADLINE_S
        while not self._answers():
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)
        return self

    def ask(self, method: str, token: str = "", **request) -> dict:
        """Ask a method of the API such as "RunService/CreateRun"."""
        return _post(f"{self.url}/spanscore.v1.{method}", request, token)

    def send_turn(self, user_input: str, number: int) -> None:
        """Send the spans of a turn, as an agent does."""
        now = time.time_ns()
        texts = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "sender",
            "gen_ai.input.messages": json.dumps([_message("user", user_input)]),
            "gen_ai.output.messages": json.dumps(
                [_message("assistant", "Done.") | {"finish_reason": "stop"}]
            ),
        }
        span = {
            "traceId": f"{now:024x}{number:08x}",
            "spanId": f"{number + 1:016x}",
            "name": "invoke_agent sender",
            "kind": 1,
            "startTimeUnixNano": str(now - 10**9),
            "endTimeUnixNano": str(now),
            "attributes": [
                {"key": name, "value": {"stringValue": text}} for name, text in texts.items()
            ],
        }
        _post(self._otlp, {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})

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
            for url in (f"{self.url}/healthz", self._health):
                urllib.request.urlopen(url, timeout=10).close()
        except OSError:
            return False
        return True


def _message(role: str, text: str) -> dict:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _post(url: str, content: dict, token: str = "") -> dict:
    headers = {"content-type": "application/json"} | (
        {"authorization": f"Bearer {token}"} if token else {}
    )
    request = urllib.request.Request(url, data=json.dumps(content).encode(), headers=headers)
    with urllib.request.urlopen(request, timeout=_DEADLINE_S) as answer:
        return json.load(answer)
