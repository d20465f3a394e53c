"""What `spanscore` costs before it does anything: CPU of `--help` and of a start, CPU and memory of
an idle server.

python bench/starting.py [--idle 20] [--rounds 5]

Of the starts the cheapest counts: whatever else the machine does only makes one dearer. Linux only.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from child import Child, environment

SPANSCORE = Path(sys.executable).parent / "spanscore"
SETTLE_S = 5.0
"""After a start its last threads come to rest."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--idle", type=float, default=20.0, help="seconds to look at an idle server"
    )
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    print(f"{'--help':<24}{min(help_cpu_s() for _ in range(args.rounds)) * 1e3:>8.0f} ms of CPU")
    ready_s, idle_share, resident_bytes = zip(
        *(started(args.idle * (x == 0)) for x in range(args.rounds)), strict=True
    )
    print(f"{'serve, until ready':<24}{min(ready_s):>8.2f} s of CPU")
    print(f"{'serve, idle':<24}{idle_share[0]:>8.2%} of a CPU")
    print(f"{'serve, idle':<24}{min(resident_bytes) / 2**20:>8.0f} MiB resident")


def help_cpu_s() -> float:
    """Seconds of CPU that `spanscore --help` takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([SPANSCORE, "--help"], stdout=subprocess.DEVNULL, check=True, env=environment())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def started(idle_s: float) -> tuple[float, float, int]:
    """Seconds of CPU until a server is ready, then its share of a CPU, and its bytes of memory,
    while it is idle.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config, log = folder / "config.json", folder / "log"
        config.write_text(json.dumps(_settings(folder)))
        with Child([str(SPANSCORE), "serve", "-c", str(config)], log=log) as server:
            while '"msg":"ready"' not in log.read_text():
                server.check_alive()
                time.sleep(0.01)
            ready_s = server.cpu_s()
            time.sleep(SETTLE_S if idle_s else 0.0)
            before_s = server.cpu_s()
            time.sleep(idle_s)
            share = (server.cpu_s() - before_s) / idle_s if idle_s else 0.0
            return ready_s, share, _resident_bytes(server.process.pid)


def _settings(folder: Path) -> dict[str, object]:
    anywhere = {"endpoint": "127.0.0.1:0"}
    return {
        "receive": dict.fromkeys(("grpc", "http", "health"), anywhere),
        "journal": {"path": str(folder / "journal.db")},
        "store": {"url": f"sqlite:///{folder}/store.db"},
        "api": {**anywhere, "http": anywhere},
    }


def _resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
