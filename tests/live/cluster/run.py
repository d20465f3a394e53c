"""Kills and cuts the parts of a small cluster under load, and shows what that lost:
`python run.py --faults 60 --seed 1`.

With `--measure` and no faults it shows what the load costs. Ends with 0 where nothing was lost,
scored twice or split, else with 1: then the logs of all parts and the list of faults are kept.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # what is started is another program
import brokers  # noqa: E402 - found by the path above
import faults  # noqa: E402 - likewise
import load  # noqa: E402 - likewise
import verdict  # noqa: E402 - likewise
from parts import COMPLETE_AFTER_S, SESSION_IDLE_AFTER_S, Cluster, until  # noqa: E402 - likewise
from usage import cpu_s  # noqa: E402 - likewise

_SECONDS_A_FAULT = 6.0
_SESSIONS_A_FAULT = 8
_QUIET_WITHIN_S = 240
_WAITING = ("open_traces", "waiting_traces", "waiting_parts", "open_sessions")
_MOST_LINES = 20


def main() -> int:
    args = _arguments()
    for ends in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ends, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="spanscore-cluster-"))
    try:
        with Cluster(folder, args.replicas, kafka=args.only != "replicas") as cluster:
            try:
                is_good = _run(cluster, args)
            finally:
                shutil.copy(cluster.postgresql.log, folder / "postgresql.log")
    except KeyboardInterrupt:
        print("\nended")
        is_good = True
    except BaseException:
        print(f"logs are in {folder}", file=sys.stderr)
        raise
    if is_good:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"logs are in {folder}")
    return int(not is_good)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1, help="draws the load and the faults")
    parser.add_argument(
        "--only",
        choices=["replicas", "kafka"],
        help="all comes by OTLP and there is no Kafka, or all comes by Kafka; else half each way",
    )
    parser.add_argument(
        "--kinds",
        type=lambda x: x.split(","),
        default=[],
        help=f"only these faults, of {', '.join(faults.KINDS)}",
    )
    parser.add_argument("--minutes", type=float, help="how long the load lasts")
    parser.add_argument("--sessions", type=int, help="how many, each of 3 to 6 turns")
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument(
        "--measure", action="store_true", help="send at once, and show the CPU time of a trace"
    )
    args = parser.parse_args()
    args.sessions = args.sessions or max(200, args.faults * _SESSIONS_A_FAULT)
    args.over_s = args.minutes * 60 if args.minutes else max(20.0, args.faults * _SECONDS_A_FAULT)
    return args


def _run(cluster: Cluster, args: argparse.Namespace) -> bool:
    """Have load and faults happen, and show what came of it; whether nothing is wrong."""
    turns, messages = load.planned(args.seed, args.sessions, args.over_s)
    drawn = faults.drawn(args.seed, args.faults, args.over_s, cluster, args.kinds)
    target, course = _target(cluster, args), faults.Course(cluster, drawn)
    before, begun_s = _spent(cluster), time.monotonic()
    _send(messages, target, course, paced=not args.measure)
    sent_s = time.monotonic()
    if args.measure:
        until(lambda: sum(_taken(cluster)) >= len(turns), _QUIET_WITHIN_S, "all traces are scored")
        within_s = time.monotonic() - COMPLETE_AFTER_S - begun_s
    quiet = _wait_until_quiet(cluster)
    (cluster.folder / "faults").write_text("".join(f"{x}\n" for x in course.faults))
    print((cluster.folder / "faults").read_text(), end="")
    if args.measure:
        _show_usage(cluster, before, len(turns), within_s)
    stored = verdict.read_store(cluster.url)
    found = verdict.judged(turns, stored, verdict.read_backend(cluster.backend.recorded))
    _show_lines(found)
    _show_table(cluster, args, course, target.counts(), found, turns, quiet.last_news_s - sent_s)
    print(quiet.problem or "everything is quiet")
    print(found)
    return found.is_good and not quiet.problem


def _send(messages: list, target, course: faults.Course, *, paced: bool) -> None:
    """Send all while faults happen."""
    stopped = threading.Event()
    sending = threading.Thread(
        target=load.replay, args=(messages, target, stopped), kwargs={"paced": paced}
    )
    sending.start()
    try:
        course.run()
        sending.join()
    finally:
        stopped.set()


def _target(cluster: Cluster, args: argparse.Namespace):
    """What takes the load."""
    ways = []
    if args.only != "kafka":
        ways.append(load.Balancer([x.grpc for x in cluster.replicas]))
    if cluster.kafka is not None:
        ways.append(brokers.Writer(cluster.kafka.addresses))
    return ways[0] if len(ways) == 1 else load.Either(*ways)


@dataclass
class _Quiet:
    last_news_s: float
    problem: str = ""


def _wait_until_quiet(cluster: Cluster) -> _Quiet:
    """Wait until no replica has anything to do, and nothing has come to the backend for longer than
    a session waits.
    """
    found = _Quiet(time.monotonic())
    size = -1

    def is_quiet() -> bool:
        nonlocal size
        now = cluster.backend.recorded.stat().st_size
        if now != size or _open_work(cluster):
            size, found.last_news_s = now, time.monotonic()
        return time.monotonic() - found.last_news_s > SESSION_IDLE_AFTER_S + 2

    try:
        until(is_quiet, _QUIET_WITHIN_S, "quiet")
    except TimeoutError as error:
        found.problem = f"{error}; open: {_open_work(cluster)}"
    return found


def _open_work(cluster: Cluster) -> dict[str, dict]:
    """What replicas have still to do."""
    found = {}
    for replica in cluster.replicas:
        state = replica.state()
        if state is None:
            found[f"replica-{replica.number}"] = {"answers": False}
            continue
        waiting = {x: state[x] for x in _WAITING if state[x]}
        waiting |= {f"to {x}": n for x, n in state["scores_to_export"].items() if n}
        waiting |= {partition: n for partition, n in replica.lag().items() if n}
        if waiting:
            found[f"replica-{replica.number}"] = waiting
    return found


def _spent(cluster: Cluster) -> list[float]:
    """CPU seconds of the replicas, and last of PostgreSQL."""
    return [*(cpu_s(x.process.pid) for x in cluster.replicas), cpu_s(cluster.postgresql.pid)]


def _taken(cluster: Cluster) -> list[int]:
    """How many traces each replica has finished since it was started."""
    states = (x.state() or {} for x in cluster.replicas)
    return [x.get("counters", {}).get("traces_finished", 0) for x in states]


def _show_usage(cluster: Cluster, before: list[float], traces: int, within_s: float) -> None:
    spent = [now - then for now, then in zip(_spent(cluster), before, strict=True)]
    replicas = sum(spent[:-1])
    print(f"{traces} traces in {within_s:.1f} s, {traces / within_s:.1f} traces a second")
    print(f"CPU ms a trace: replicas {replicas / traces * 1e3:.2f}, ", end="")
    print(f"PostgreSQL {spent[-1] / traces * 1e3:.2f}")
    for number, (taken, own_s) in enumerate(zip(_taken(cluster), spent, strict=False)):
        print(f"replica {number} took {taken} traces with {own_s:.1f} s of CPU")


def _show_lines(found: verdict.Verdict) -> None:
    shown = {"incomplete": found.incomplete, "lost": found.lost, "twice": found.twice}
    for name, lines in (shown | {"split": found.split}).items():
        for line in lines[:_MOST_LINES]:
            print(f"{name}: {line}")
        if len(lines) > _MOST_LINES:
            print(f"{name}: and {len(lines) - _MOST_LINES} more")


def _show_table(cluster, args, course, counts: Counter, found, turns, settled_s: float) -> None:
    recovered = [x.recovered_s - x.healed_s for x in course.faults] or [0.0]
    failed = {x: n for x, n in counts.items() if x not in {"acknowledged", "refused"}}
    rows = {
        "seed": args.seed,
        "faults": f"{len(course.faults)}: {_listed(Counter(x.kind for x in course.faults))}",
        "turns sent": f"{len(turns)} of {found.sessions} sessions, to {args.replicas} replicas",
        "requests acknowledged": counts["acknowledged"],
        "tries that failed": _listed(failed),
        "refused for good": counts["refused"],
        "evaluations": found.evaluations,
        "incomplete at the end": len(found.incomplete),
        "scored again when the rest came": found.revised,
        "sent again, the same": found.repeated,
        "replicas ended by themselves": sum(x.ended for x in cluster.replicas),
        "back after a fault": f"{median(recovered):.1f} s, at most {max(recovered):.1f} s",
        "last score after the last request": f"{settled_s:.1f} s",
    }
    for name, value in rows.items():
        print(f"{name:34} {value}")


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{x} {n}" for x, n in sorted(counts.items())) or "none"


if __name__ == "__main__":
    sys.exit(main())
