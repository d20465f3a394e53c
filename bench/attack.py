"""What honest senders notice, and how much memory the server takes, while others send what is slow,
broken or hostile.

    python bench/attack.py [--only NAME] [--seconds 10] [--spanscore PROGRAM]

Each attack gets a server of its own on loopback and comes from a process of its own; beside it one
sender over gRPC and one over HTTP send a request of ten spans ten times a second, once each.
`--spanscore` measures another installation. Needs Linux (/proc). bench/README.md says how to read
the figures.
"""

import argparse
import http.client
import json
import math
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from attacks import ATTACKS, EXPORT
from child import Child
from load import Load
from throughput import Health, free_port

HERE = Path(__file__).parent
EVERY_S = 0.1
TIMEOUT_S = 10.0
PROTOBUF = {"Content-Type": "application/x-protobuf"}


@dataclass
class Noticed:
    """What one honest sender noticed: the seconds of each request that was served, and how many
    were not.
    """

    served_s: list[float] = field(default_factory=list)
    refused: int = 0
    lost: int = 0

    def __str__(self) -> str:
        asked = len(self.served_s) + self.refused + self.lost
        in_order = sorted(self.served_s) or [math.inf]
        p99 = in_order[math.ceil(len(in_order) * 0.99) - 1]
        return f"{len(self.served_s):>4}/{asked:<4}{self.refused:>8}{p99:>8.2f}{in_order[-1]:>8.2f}"


def send_for(seconds: float, send: Callable[[], bool], noticed: Noticed) -> None:
    """Call `send` at a pace until the time is over; False is a request that is to be sent again."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        began_s = time.monotonic()
        try:
            if send():
                noticed.served_s.append(time.monotonic() - began_s)
            else:
                noticed.refused += 1
        except (OSError, http.client.HTTPException, grpc.RpcError):
            noticed.lost += 1
        time.sleep(max(0.0, EVERY_S - (time.monotonic() - began_s)))


def over_grpc(port: int, body: bytes) -> Callable[[], bool]:
    """One channel for all requests, as exporters have it."""
    export = grpc.insecure_channel(f"127.0.0.1:{port}").unary_unary(EXPORT)

    def send() -> bool:
        try:
            export(body, timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                return False
            raise
        return True

    return send


def over_http(port: int, body: bytes) -> Callable[[], bool]:
    """A connection for each request: a new one is what attackers may leave no room for."""

    def send() -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
        try:
            connection.request("POST", "/v1/traces", body, PROTOBUF)
            return connection.getresponse().status == 200
        finally:
            connection.close()

    return send


def measure(name: str, program: str, seconds: float) -> str:
    """One line of figures: a server, the attack of this name and the honest senders."""
    body = next(Load(start_ns=time.time_ns()).requests(1))
    with tempfile.TemporaryDirectory(prefix="spanscore-attack-") as name_of_folder:
        folder = Path(name_of_folder)
        ports = {name: free_port() for name in ("grpc", "http", "health")}
        settings = {
            "journal": {"path": str(folder / "journal.db")},
            "store": {"url": f"sqlite:///{folder / 'store.db'}"},
            "api": {"enabled": False},
            "receive": {x: {"endpoint": f"127.0.0.1:{port}"} for x, port in ports.items()},
        }
        (folder / "config.yaml").write_text(json.dumps(settings))
        with Child(
            [program, "serve", "--config", str(folder / "config.yaml")], log=folder / "log"
        ) as server:
            Health(ports["health"], server).wait_until_serving()
            over = {"gRPC": over_grpc(ports["grpc"], body), "HTTP": over_http(ports["http"], body)}
            noticed = {transport: Noticed() for transport in over}
            command = [
                sys.executable,
                str(HERE / "attacks.py"),
                name,
                str(ports["grpc"]),
                str(ports["http"]),
            ]
            attack = subprocess.Popen([*command, str(seconds)])
            senders = [
                threading.Thread(target=send_for, args=(seconds, send, noticed[transport]))
                for transport, send in over.items()
            ]
            for thread in senders:
                thread.start()
            for thread in senders:
                thread.join()
            attack.kill()
            attack.wait()
            return f"{name:<18}{server.peak_bytes() / 2**20:>9,.0f}   " + "   ".join(
                map(str, noticed.values())
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", choices=ATTACKS, action="append", help="an attack, or several; all unless given"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="that each attack lasts")
    parser.add_argument(
        "--spanscore", default=str(Path(sys.executable).with_name("spanscore")), help="the program"
    )
    args = parser.parse_args()
    columns = f"{'served':>9}{'again':>8}{'p99 s':>8}{'worst':>8}"
    print(f"{'attack':<18}{'peak MiB':>9}   gRPC{columns[4:]}   HTTP{columns[4:]}", flush=True)
    for name in args.only or ATTACKS:
        print(measure(name, args.spanscore, args.seconds), flush=True)


if __name__ == "__main__":
    main()
