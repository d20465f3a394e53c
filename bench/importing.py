"""How long `import spanscore` takes beside the interpreter's own start: the fastest of many runs,
in milliseconds.
"""

import argparse
import subprocess
import sys
import time

LIMIT_MS = 50


def fastest_ms(code: str, runs: int) -> float:
    """The shortest time that an interpreter took to run `code`."""
    found = []
    for _ in range(runs):
        started_ns = time.perf_counter_ns()
        subprocess.run([sys.executable, "-c", code], check=True)
        found.append(time.perf_counter_ns() - started_ns)
    return min(found) / 1e6


def main() -> int:
    """Print both times. Returns 1 where the import takes longer than it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    alone_ms, with_import_ms = fastest_ms("pass", runs), fastest_ms("import spanscore", runs)
    took_ms = with_import_ms - alone_ms
    print(
        f"interpreter {alone_ms:.1f} ms, with `import spanscore` {with_import_ms:.1f} ms:"
        f" {took_ms:.1f} ms for it"
    )
    return int(took_ms > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(main())
