"""Apache Kafka of the tests' own: one broker or several, on loopback.

Needs Java 17 and Maven, and nothing else than the standard library of Python. As a program:
downloads Kafka once, and exits with 3 and a line that says why where it cannot be had.
"""

import base64
import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

POM = Path(__file__).with_name("pom.xml")
CANNOT_BE_HAD = 3
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
# a small process that starts soon
_JAVA = ["java", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
_START_S = 60
_SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "auto.create.topics.enable": "false",
    "controlled.shutdown.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    # groups notice within seconds that a member was killed
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "300",
}


class NotInstalledError(Exception):
    """Kafka cannot be had here; the message says what is missing."""


def jars() -> Path:
    """The folder of Kafka's jars, downloaded once. Raises NotInstalledError."""
    if shutil.which("java") is None:
        raise NotInstalledError("Kafka needs Java 17 (Debian: openjdk-17-jre-headless)")
    kept = os.environ.get("SPANSCORE_CACHE")
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spanscore"
    version = hashlib.sha256(POM.read_bytes()).hexdigest()[:16]
    folder = Path(kept or user).resolve() / "kafka" / version
    if not folder.exists():
        _download(folder)
    return folder


def _download(folder: Path) -> None:
    if shutil.which("mvn") is None:
        raise NotInstalledError("Kafka is downloaded by Maven (Debian: maven)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        shutil.copy(POM, scratch)
        command = ["mvn", "-B", "-q", "-f", f"{scratch}/pom.xml", _COPY]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={scratch}/jars"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise NotInstalledError(f"Maven cannot download Kafka: {done.stdout[-500:]}")
        with contextlib.suppress(OSError):  # another process was sooner
            Path(scratch, "jars").rename(folder)


class Broker:
    """One broker, which is a controller too, on a port of its own; started by `Cluster`."""

    def __init__(self, folder: Path, node: int, port: int, settings: Mapping[str, str]) -> None:
        self.node = node
        self.port = port
        self.log = folder / "log"
        self.data = folder / "data"
        self.properties = folder / "server.properties"
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        written = {**settings, "node.id": str(node), "log.dirs": str(self.data)}
        self.properties.write_text("".join(f"{k}={v}\n" for k, v in written.items()))

    @property
    def pid(self) -> int | None:
        """The process; None where it does not run."""
        return self.process.pid if self.process and self.process.poll() is None else None

    def launch(self) -> None:
        """Start the process without waiting for it."""
        assert self.pid is None, f"broker {self.node} runs"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                java("kafka.Kafka", str(self.properties)), stdout=log, stderr=log
            )

    def wait(self) -> None:
        """Wait until it takes connections."""
        deadline_s = time.monotonic() + _START_S
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            assert self.pid is not None, self.log.read_text()[-4000:]
            assert time.monotonic() < deadline_s, self.log.read_text()[-4000:]
            time.sleep(0.05)

    def start(self) -> None:
        """Start it, or start it again, with the data that it has."""
        self.launch()
        self.wait()

    def stop(self) -> None:
        """End it in order: it gives up its partitions first. A stopped one stays as it is."""
        if self.process is not None and self.pid is not None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:  # without the majority it waits for minutes
                self.kill()

    def kill(self) -> None:
        """End it as `kill -9` does. A stopped one stays as it is."""
        if self.process is not None and self.pid is not None:
            self.process.kill()
            self.process.wait()


class Cluster:
    """Brokers of one cluster, as many as there are `ports`; each has a replica of everything.

    With three or more, a write that is acknowledged by all is on at least two of them. Usable as a
    context manager, which starts all of them, and kills them at the end.
    """

    def __init__(
        self,
        folder: Path,
        ports: Sequence[int],
        controllers: Sequence[int],
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`controllers` are as many ports again; `settings` are laid over those of the brokers.

        Nothing is started yet.
        """
        voters = [f"{node}@127.0.0.1:{port}" for node, port in enumerate(controllers)]
        replicas, synced = str(len(ports)), "2" if len(ports) > 2 else "1"
        shared = {
            **_SETTINGS,
            "controller.quorum.voters": ",".join(voters),
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "min.insync.replicas": synced,
            "transaction.state.log.min.isr": synced,
            **(settings or {}),
        }
        self.brokers = [
            Broker(folder / str(node), node, port, {**shared, **_listening(port, controller)})
            for node, (port, controller) in enumerate(zip(ports, controllers, strict=True))
        ]
        self._format()

    @property
    def addresses(self) -> list[str]:
        """The addresses of its brokers, for a client."""
        return [f"127.0.0.1:{x.port}" for x in self.brokers]

    def start(self) -> Self:
        """Start all that do not run, and wait for them."""
        for broker in self.brokers:
            if broker.pid is None:
                broker.launch()
        for broker in self.brokers:
            broker.wait()
        return self

    def kill(self) -> None:
        """End all of them."""
        for broker in self.brokers:
            broker.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _format(self) -> None:
        """Have Kafka's tool format the first one's folder; the others are copies of it."""
        first, *others = self.brokers
        cluster = _kafka_uuid()
        tool = ["format", "-t", cluster, "-c", str(first.properties)]
        done = subprocess.run(
            java("kafka.tools.StorageTool", *tool), capture_output=True, text=True, check=False
        )
        assert not done.returncode, done.stdout + done.stderr
        for broker in others:
            shutil.copytree(first.data, broker.data)
            known = {"version": "1", "cluster.id": cluster, "node.id": str(broker.node)}
            named = {**known, "directory.id": _kafka_uuid()}
            (broker.data / "meta.properties").write_text(
                "".join(f"{k}={v}\n" for k, v in named.items())
            )


def java(program: str, *arguments: str) -> list[str]:
    """The command of one of Kafka's programs."""
    return [*_JAVA, "-Dlog4j2.level=WARN", "-cp", f"{jars()}/*", program, *arguments]


def _listening(port: int, controller: int) -> dict[str, str]:
    client = f"PLAINTEXT://127.0.0.1:{port}"
    return {
        "listeners": f"{client},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": client,
    }


def _kafka_uuid() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


if __name__ == "__main__":
    try:
        jars()
    except NotInstalledError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(CANNOT_BE_HAD)
