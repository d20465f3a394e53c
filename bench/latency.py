"""How long a trace waits for its scores, from its last span to the exported scores, at a steady
pace.

    .venv/bin/python bench/latency.py [--seconds 30] [--spans-per-second 300]
        [--complete-after-s 10]

A real server with the default metrics and no judge, and traces of ten spans, each sent in one
request. Prints, in seconds, when the scores of a trace were in the file, less
`assemble.complete_after`; and the server's CPU seconds. bench/README.md says how to read the
figures.
"""

import argparse
import tempfile
from pathlib import Path

from beside_run import Live, shown
from child import Child
from load import SPANS_PER_TRACE
from throughput import STOP_S, Health, free_port, serve_command
from yaml import safe_dump

METRIC = "coherence"
WARM_UP_S = 5.0


def configured(folder: Path, receive: int, health: int, complete_after_s: float) -> Path:
    """The configuration of the server, in `folder`."""
    settings = {
        "receive": {
            "grpc": {"endpoint": f"127.0.0.1:{receive}"},
            "http": {"endpoint": "127.0.0.1:0"},
            "health": {"endpoint": f"127.0.0.1:{health}"},
        },
        "api": {"enabled": False},
        "journal": {"path": str(folder / "journal.db")},
        "store": {"url": f"sqlite:///{folder}/store.db"},
        "assemble": {"complete_after": f"{complete_after_s:g}s"},
        "embedding": {"provider": "ngrams"},
        "export": {"exporters": {"otlp_json_file": {"path": str(folder / "scores.jsonl")}}},
    }
    file = folder / "config.yaml"
    file.write_text(safe_dump(settings))
    return file


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30, help="how long to send")
    parser.add_argument("--spans-per-second", type=float, default=300)
    parser.add_argument("--complete-after-s", type=float, default=10)
    args = parser.parse_args()
    traces_per_s = args.spans_per_second / SPANS_PER_TRACE
    with tempfile.TemporaryDirectory(prefix="spanscore-bench-") as name:
        folder, receive, health_port = Path(name), free_port(), free_port()
        file = configured(folder, receive, health_port, args.complete_after_s)
        with Child(serve_command(file), log=folder / "server.log") as server:
            Health(health_port, server).wait_until_serving()
            scores = folder / "scores.jsonl"
            live = Live(receive, scores, metric=METRIC, complete_after_s=args.complete_after_s)
            live.run(WARM_UP_S, traces_per_s, seed=1)
            cpu_before_s = server.cpu_s()
            waited_s = live.run(args.seconds, traces_per_s, seed=2)
            cpu_s = server.cpu_s() - cpu_before_s
            server.stop(STOP_S)
    print(f"{'traces':>6}{'p50 s':>8}{'p95 s':>8}{'p99 s':>8}{'max s':>8}{'CPU s':>8}")
    print(f"{shown(waited_s)}{cpu_s:>8.1f}")


if __name__ == "__main__":
    main()
