"""How much longer senders wait while the server works off a backlog: the time until a burst of
requests is acknowledged, beside a server that assembles nothing.

    .venv/bin/python bench/acknowledging.py [--requests 300] [--rounds 5]

Each round starts a server for each line and sends it a burst of requests of ten traces, eight at a
time; those that read or score are sent a backlog of six thousand traces before, which is complete
when the burst begins. bench/README.md says how to read the figures. Needs Linux (/proc).
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from child import Child
from load import TRACES_PER_REQUEST, Load
from sending import send
from throughput import READ, RECEIVE, SCORE, Health, free_port, serve_command

IN_FLIGHT: Final = 8
BACKLOG_REQUESTS: Final = 600
COMPLETE_S: Final = 2.2
"""After which the backlog is complete, by `complete_after` of `READ` and `SCORE`."""

UNCUT: Final = {"assemble": {"complete_after": "100s"}}
LINES: Final[dict[str, tuple[dict[str, Any], bool]]] = {
    "assembly off": (RECEIVE, False),
    "nothing complete": (UNCUT, False),
    "a backlog is read": (READ, True),
    "a backlog is scored": (SCORE, True),
}
"""The settings of each line, and whether there is a backlog."""


def acknowledged_s(
    settings: dict[str, Any], backlog: Sequence[bytes], burst: Sequence[bytes]
) -> tuple[float, float]:
    """Seconds until the burst was acknowledged, and the server's CPU seconds meanwhile."""
    with tempfile.TemporaryDirectory(prefix="spanscore-bench-") as name:
        folder, port, health_port = Path(name), free_port(), free_port()
        ports = {"grpc": port, "http": 0, "health": health_port}
        everywhere = {
            "receive": {key: {"endpoint": f"127.0.0.1:{x}"} for key, x in ports.items()},
            "journal": {"path": str(folder / "journal.db")},
            "store": {"url": f"sqlite:///{folder}/store.db"},
            "embedding": {"provider": "ngrams"},
            "api": {"enabled": False},
        }
        config = folder / "config.yaml"
        config.write_text(json.dumps(everywhere | settings))  # JSON is YAML
        with Child(serve_command(config), log=folder / "server.log") as server:
            Health(health_port, server).wait_until_serving()
            send(backlog or burst[:20], port, in_flight=IN_FLIGHT)  # what is loaded late is loaded
            time.sleep(COMPLETE_S if backlog else 0.0)
            cpu_before_s, started_s = server.cpu_s(), time.monotonic()
            send(burst, port, in_flight=IN_FLIGHT)
            return time.monotonic() - started_s, server.cpu_s() - cpu_before_s


def main() -> None:
    """Print the medians of the rounds, and how many times those without assembly they are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=300, help="in the burst")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    now_ns = time.time_ns()
    backlog = list(Load(start_ns=now_ns, seed=8).requests(BACKLOG_REQUESTS * TRACES_PER_REQUEST))
    burst = list(Load(start_ns=now_ns).requests(args.requests * TRACES_PER_REQUEST))
    found: dict[str, list[tuple[float, float]]] = {line: [] for line in LINES}
    for _ in range(args.rounds):
        for line, (settings, has_backlog) in LINES.items():
            found[line].append(acknowledged_s(settings, backlog if has_backlog else (), burst))
    print(f"{'':<22}{'sent in s':>10}{'x off':>7}{'CPU s':>8}{'x off':>7}")
    off_s, off_cpu_s = (statistics.median(x) for x in zip(*found["assembly off"], strict=True))
    for line, rounds in found.items():
        sent_s, cpu_s = (statistics.median(x) for x in zip(*rounds, strict=True))
        print(
            f"{line:<22}{sent_s:>10.2f}{sent_s / off_s:>7.2f}{cpu_s:>8.2f}{cpu_s / off_cpu_s:>7.2f}"
        )


if __name__ == "__main__":
    main()
