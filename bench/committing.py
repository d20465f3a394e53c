"""CPU of the store's commits: traces with their scores, as the server commits them, into an SQLite
file.

    python bench/committing.py [COMMITS]

Prints the lowest CPU time of a commit of 20 traces and 180 scores over five rounds: this process,
its threads included.
"""

import sys
import tempfile
import time
from collections.abc import Iterator

from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.model.trace import AgentTrace, ModelCall, Target, ToolCall, Usage
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


def measured(commits: int, first: int, store: Store) -> float:
    """Seconds of CPU a commit."""
    batches = []
    for batch in range(commits):
        traces = [turn(first + batch * TRACES + x) for x in range(TRACES)]
        batches.append(
            ([StoredTrace(x, 1, "digest") for x in traces], [y for x in traces for y in scores(x)])
        )
    begun = time.process_time()
    for traces, scored in batches:
        store.commit(traces, scored)
    return (time.process_time() - begun) / commits


def main() -> None:
    commits = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Config(url=f"sqlite:///{folder}/store.db"))
        found = [measured(commits, 1 + x * commits * TRACES, store) for x in range(ROUNDS)]
        store.close()
    print(
        f"{min(found) * 1e3:.2f} ms of CPU a commit of {TRACES} traces and {TRACES * METRICS}"
        " scores"
    )


if __name__ == "__main__":
    main()
