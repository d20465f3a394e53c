"""Processes of a cluster: PostgreSQL, spanscore's replicas, a backend, proxies between them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

import yaml
from brokers import Brokers

HERE = Path(__file__).resolve().parent
TESTS = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(TESTS / "postgresql")]
from mould import MOULD  # noqa: E402 - found by the path above
from postgresql_server import Server as PostgreSQL  # noqa: E402 - likewise
from reserved_ports import free_ports  # noqa: E402 - likewise

_START_S = 60
_RESTART_S = 0.5
_ASK_S = 2
_STOP_S = 60

METRICS = ("check.answer_present", "coherence")
"""What each trace of the load has a score of."""
SESSION_METRIC = "agent_reliability"
"""Its score names the turns that it rests on."""
COMPLETE_AFTER_S = 1.0
IDLE_AFTER_S = 3.0
SESSION_IDLE_AFTER_S = 4.0


def until(holds, timeout_s: float, what: str) -> None:
    """Poll until `holds()`. Raises TimeoutError, which names `what`."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s:.0f} s: {what}")
        time.sleep(0.1)


class Toxiproxy:
    """Proxies that are cut or slowed through an HTTP API."""

    def __init__(self, log: Path) -> None:
        """Start it, built on first use. Raises CalledProcessError where it cannot be."""
        built = subprocess.run(
            [HERE / "build/build.sh"], stdout=subprocess.PIPE, text=True, check=True
        )
        (self._port,) = free_ports(1)
        with log.open("ab") as output:
            command = [built.stdout.strip(), "-host", "127.0.0.1", "-port", str(self._port)]
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        until(self._is_up, _START_S, "toxiproxy")

    def link(self, name: str, upstream: int, port: int | None = None) -> "Link":
        """A new proxy before a port of this machine, on `port` or a free one."""
        link = Link(self, name, port or free_ports(1)[0])
        self.ask(
            "POST",
            "/proxies",
            name=name,
            listen=f"127.0.0.1:{link.port}",
            upstream=f"127.0.0.1:{upstream}",
        )
        return link

    def ask(self, method: str, path: str, **body) -> None:
        """Make one request of the API."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}",
            method=method,
            data=json.dumps(body).encode() if body else None,
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=_START_S).close()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _is_up(self) -> bool:
        with contextlib.suppress(OSError):
            self.ask("GET", "/version")
            return True
        return False


class Link:
    """One proxy, between a client and its server."""

    def __init__(self, proxies: Toxiproxy, name: str, port: int) -> None:
        self.port = port
        self._proxies = proxies
        self._path = f"/proxies/{name}"

    def poison(self, kind: str, **attributes) -> None:
        """Add a toxic for what flows either way, such as `latency`."""
        for stream in ("upstream", "downstream"):
            self._proxies.ask(
                "POST",
                f"{self._path}/toxics",
                name=f"{kind}-{stream}",
                type=kind,
                stream=stream,
                attributes=attributes,
            )

    def cure(self, kind: str) -> None:
        """Take the toxic away."""
        for stream in ("upstream", "downstream"):
            self._proxies.ask("DELETE", f"{self._path}/toxics/{kind}-{stream}")

    def set_enabled(self, *, enabled: bool) -> None:
        """Close its port and all connections, or open it again."""
        self._proxies.ask("POST", self._path, enabled=enabled)


class Replica:
    """One `spanscore serve` with a journal of its own, started again whenever it ends, as by a
    supervisor.
    """

    def __init__(self, number: int, folder: Path, settings: dict) -> None:
        """`settings` are laid over what all replicas of a cluster have in common."""
        self.number = number
        folder.mkdir()
        self.grpc, http, self.health, api = free_ports(4)
        config = {
            "receive": {
                "grpc": {"endpoint": f"127.0.0.1:{self.grpc}"},
                "http": {"endpoint": f"127.0.0.1:{http}"},
                "health": {"endpoint": f"127.0.0.1:{self.health}"},
                **settings.pop("receive", {}),
            },
            "api": {"endpoint": f"127.0.0.1:{api}"},
            "journal": {"path": str(folder / "journal.db")},
            **settings,
        }
        self._config = folder / "config.yaml"
        self._config.write_text(yaml.safe_dump(config))
        self._log = folder / "log"
        self.process = None
        self.ended = 0
        """How often it ended by itself."""
        self._wanted = False
        self._changing = threading.Lock()
        threading.Thread(target=self._supervise, daemon=True).start()

    def start(self) -> None:
        """Start it, and wait until it answers. Raises TimeoutError."""
        with self._changing:
            self._wanted = True
            self._launch()
        until(lambda: self.state() is not None, _START_S, f"replica {self.number}")

    def _launch(self) -> None:
        command = ["serve", "-c", str(self._config)]
        self.process = MOULD.start(None, command, dict(os.environ), self._log, self._log)

    def _supervise(self) -> None:
        while True:
            time.sleep(_RESTART_S)
            with self._changing:
                if self._wanted and self.process.poll() is not None:
                    self.ended += 1
                    self._launch()

    def state(self) -> dict | None:
        """What the health endpoint says; None where it does not answer."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.health}/", timeout=_ASK_S
            ) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:  # it says what is wrong
            return json.load(refused)
        except (OSError, ValueError):
            return None

    def lag(self) -> dict[str, float]:
        """By Kafka's partitions that it has, the messages that it has not read."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.health}/metrics", timeout=_ASK_S
            ) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return {}
        found = (x.rpartition(" ") for x in lines if x.startswith("spanscore_receiver_kafka_lag"))
        return {partition: float(number) for partition, _, number in found}

    @property
    def works(self) -> bool:
        """Whether it takes requests and reaches its store."""
        state = self.state() or {}
        return state.get("status") == "Server available" and state.get("store") == "ok"

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        """End it in order, as for an upgrade."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        with self._changing:
            self._wanted = False
            if self.process is not None and self.process.poll() is None:
                os.kill(self.process.pid, number)
                self.process.wait(_STOP_S)

    def signal(self, number: int) -> None:
        """Send a signal, such as one that stops it for a while."""
        os.kill(self.process.pid, number)


class Backend:
    """A tracing backend that scores are sent to, which writes down each request."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        self.recorded = folder / "backend"
        self.recorded.touch()
        self._log = folder / "backend.log"
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        script = HERE.parent / "collector/recording_backend.py"
        command = [sys.executable, str(script), str(self.port), str(self.recorded)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Cluster:
    """All parts on this machine; leaving the context ends them."""

    def __init__(self, folder: Path, replicas: int, *, kafka: bool = False) -> None:
        """Start all; with `kafka` three brokers too."""
        self.folder = folder
        self.faulty: set[str] = set()
        """The names of the parts that a fault has hold of."""
        with contextlib.ExitStack() as stack:
            self.postgresql = PostgreSQL()
            stack.callback(self.postgresql.stop)
            self.url = self.postgresql.create()
            self.backend = Backend(folder)
            stack.callback(self.backend.kill)
            self.backend.start()
            self.proxies = Toxiproxy(folder / "toxiproxy.log")
            stack.callback(self.proxies.stop)
            self.kafka = Brokers(folder / "kafka", self.proxies) if kafka else None
            if self.kafka is not None:
                stack.callback(self.kafka.kill)
            self.links = [
                self.proxies.link(f"store-{n}", self.postgresql.port) for n in range(replicas)
            ]
            self.replicas = [
                Replica(n, folder / f"replica-{n}", self._settings(link))
                for n, link in enumerate(self.links)
            ]
            for replica in self.replicas:
                stack.callback(replica.kill)
                replica.start()
            self._parts = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    def _settings(self, link: Link) -> dict:
        exporter = {
            "endpoint": f"127.0.0.1:{self.backend.port}",
            "tls": {"insecure": True},
            "retry_on_failure": {"initial_interval": "500ms", "max_interval": "2s"},
            "timeout": "5s",
        }
        measured = {name: {} for name in (*METRICS, SESSION_METRIC)}
        return {
            "receive": {} if self.kafka is None else self.kafka.settings(),
            "store": {"url": self.url.replace(f":{self.postgresql.port}/", f":{link.port}/")},
            "assemble": {
                "complete_after": f"{COMPLETE_AFTER_S}s",
                "whole_after": f"{COMPLETE_AFTER_S}s",
                "idle_after": f"{IDLE_AFTER_S}s",
                "stitch_window": f"{IDLE_AFTER_S}s",
                "session_idle_after": f"{SESSION_IDLE_AFTER_S}s",
            },
            "embedding": {"provider": "ngrams"},
            "evaluation": {
                "default_metrics": False,
                "metrics": measured,
                "signal_weights": {METRICS[0]: 1.0},
            },
            "export": {"exporters": {"otlp_grpc": exporter}, "spans": "all"},
        }

    def recover(self, timeout_s: float) -> None:
        """Wait until all work that no fault has hold of. Raises TimeoutError."""
        for replica in self.replicas:
            until(
                lambda x=replica: x.works or self._is_impaired(x.number),
                timeout_s,
                f"replica {replica.number} works again: {replica.state()}",
            )

    def _is_impaired(self, number: int) -> bool:
        own = {f"replica-{number}", f"store-{number}", "postgresql"}
        return not own.isdisjoint(self.faulty)
