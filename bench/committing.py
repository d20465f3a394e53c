"""What the store's commits cost: traces with their scores, as the server commits them.

    python bench/committing.py [COMMITS]
    python bench/committing.py --scores 500000
    python bench/committing.py --store postgresql+psycopg://...

Prints the lowest CPU time of a commit of 20 traces and 180 scores into an SQLite file over five
rounds: this process, its threads included; of a new file, or of one that has so many scores, by
which its indexes no longer fit into a few pages. With a PostgreSQL, by the number of traces in a
commit: its own CPU too (0 where it is on another machine), and how long a commit takes, during
which no other server writes.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from statistics import median

import analytics
from child import cpu_s as cpu_s_of
from sqlalchemy import create_engine, text

from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.model.trace import AgentTrace, ModelCall, Target, ToolCall, Usage
from spanscore.store import connections
from spanscore.store.config import Config
from spanscore.store.store import Store, StoredTrace

TRACES, METRICS, ROUNDS = 20, 9, 5
RULES = Evaluator("LLM", "task_completion", "1", model="gpt-4o-mini", prompt_hash="0" * 16)


def turn(number: int) -> AgentTrace:
    trace_id = f"{number:032x}"
    target = Target(
        trace_id,
        f"{number:016x}",
        10**18,
        10**18 + 10**9,
        {"service.name": "shop", "host.name": "a"},
    )
    calls = tuple(
        ToolCall(f"c{x}", "search", {"query": "a sushi restaurant"}, "found it " * 20)
        for x in range(3)
    )
    return AgentTrace(
        trace_ids=(trace_id,),
        root_span_id=target.span_id,
        target=target,
        opening_span_id=target.span_id,
        started_ns=10**18,
        ended_ns=10**18 + 10**9,
        session_id=f"session {number // 4}",
        agent_name="travel",
        service_name="shop",
        user_input="Book a sushi restaurant. " * 10,
        final_output="Booked. " * 30,
        tool_calls=calls,
        model_calls=(ModelCall(target.span_id, "gpt-4o", "Booked. " * 30),) * 3,
        usage=Usage(1400, 200),
    )


def scores(trace: AgentTrace) -> Iterator[Evaluation]:
    for number in range(METRICS):
        yield Evaluation(
            scope="trace",
            subject_id=trace.id,
            metric=f"metric_{number}",
            outcome=Score(
                0.75, "The agent did what it was asked to do. " * 8, {"steps": ["a", "b", "c"]}
            ),
            threshold=0.5,
            scale=(0.0, 1.0),
            evaluator=RULES,
            target=trace.target,
            session_id=trace.session_id,
            session_key=trace.session_key,
            agent_name=trace.agent_name,
            service_name=trace.service_name,
            evaluated_at_ns=10**18,
        )


def batches(commits: int, first: int, traces_each: int) -> Iterator[tuple[list, list]]:
    """Traces and their scores, as `Store.commit` takes them."""
    for batch in range(commits):
        traces = [turn(first + batch * traces_each + x) for x in range(traces_each)]
        yield [StoredTrace(x, 1, "digest") for x in traces], [y for x in traces for y in scores(x)]


def measured(commits: int, first: int, store: Store) -> float:
    """Seconds of CPU a commit."""
    made = list(batches(commits, first, TRACES))
    begun = time.process_time()
    for traces, scored in made:
        store.commit(traces, scored)
    return (time.process_time() - begun) / commits


class Sessions:
    """The processes of a PostgreSQL on this machine that serve its connections."""

    def __init__(self, url: str) -> None:
        self._engine = create_engine(url)

    def cpu_s(self) -> float:
        """Seconds of CPU that they have taken; 0 of those on another machine."""
        found = 0.0
        with self._engine.connect() as connection:
            pids = connection.execute(
                text("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'")
            )
            for pid in pids.scalars():
                with suppress(OSError):
                    found += cpu_s_of(pid)
        return found


def show_shared(store: Store, url: str, commits: int) -> None:
    """Print what commits of 1 to 256 traces into a PostgreSQL cost."""
    sessions, first = Sessions(url), 1
    print("traces  own CPU ms  PostgreSQL's CPU ms  lasts ms: median, least")
    for traces_each in (1, 4, 20, 64, 256):
        count = max(commits // traces_each, 5)
        made = list(batches(count, first, traces_each))
        first += count * traces_each
        lasted, own_s, its_s = [], time.process_time(), sessions.cpu_s()
        for traces, scored in made:
            begun_s = time.monotonic()
            store.commit(traces, scored)
            lasted.append(time.monotonic() - begun_s)
        own_s, its_s = time.process_time() - own_s, sessions.cpu_s() - its_s
        figures = (own_s / count, its_s / count, median(lasted), min(lasted))
        own, its, usual, least = (x * 1e3 for x in figures)
        print(f"{traces_each:6}{own:12.2f}{its:21.2f}{usual:18.2f}, {least:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commits", nargs="?", type=int, default=40)
    parser.add_argument("--scores", type=int, default=0, help="that the file has before")
    parser.add_argument("--store", help="the URL of an empty PostgreSQL")
    args = parser.parse_args()
    if args.store:
        store = Store.open(Config(url=args.store))
        show_shared(store, args.store, args.commits * TRACES)
        store.close()
        return
    with tempfile.TemporaryDirectory() as folder:
        config = Config(url=f"sqlite:///{folder}/store.db")
        if args.scores:
            engine = connections.connect(config)
            analytics.fill(engine, args.scores)
            engine.dispose()
        store = Store.open(config)
        found = [
            measured(args.commits, 1 + x * args.commits * TRACES, store) for x in range(ROUNDS)
        ]
        store.close()
    print(
        f"{min(found) * 1e3:.2f} ms of CPU a commit of {TRACES} traces and {TRACES * METRICS}"
        " scores"
    )


if __name__ == "__main__":
    main()
