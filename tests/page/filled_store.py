"""A store with as many turns, sessions and scores as are wanted, written at once: filled_store.py
FOLDER TURNS.

Afterwards `spanscore serve -c FOLDER/config.yaml` shows them.
"""

import itertools
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from spanscore.model.score import Evaluation, Evaluator, Failure, Score, Skip
from spanscore.model.trace import AgentTrace, ModelCall, RequestedCall, Target, ToolCall, Usage
from spanscore.store.config import Config
from spanscore.store.store import Store, StoredTrace

S = 10**9
TURNS_A_SESSION = 4
_BATCH = 500
_AGENTS = (("booking-agent", "travel"), ("support-agent", "shop"), ("forecaster", "weather"))
_QUESTIONS = (
    "Book me the cheapest flight from Oslo to Lisbon on 12 March, after 10 am.",
    "Where is my order R-4821? It should have been here on Tuesday.",
    "How warm will it be in Bergen on Saturday?",
    "Cancel the second passenger and refund the fare to the card that I paid with.",
    "Which of the three hotels has a late check-out, and what does it cost?",
)
_REASONS = {
    "task_completion": (
        "The user asked for a departure after 10 am. Step 3 booked LH-401, which leaves at 06:15.",
        (
            'The user asked where the order is. Step 3 failed with "upstream timeout", and the'
            " answer does not mention it."
        ),
        "The refund was not made: step 3 failed, and no other step tried again.",
    ),
    "tool_correctness": (
        'Step 2 was called with the wrong date: the user said "12 March".',
        "Step 3 books before the user has chosen: step 2 found two flights.",
    ),
    "check.errors_recovered": ('Call 2 (book_flight): failed with "upstream timeout".',),
}
_JUDGE = Evaluator("LLM", "spanscore", "3", model="gpt-4o-mini", prompt_hash="0" * 16)
_CODE = Evaluator("CODE", "spanscore", "3")


def turn(number: int, end_ns: int, *, failing: bool, **facts) -> AgentTrace:
    """A turn that searches, books and answers."""
    agent, service = _AGENTS[number % len(_AGENTS)]
    trace_id, root = f"{number + 1:032x}", f"{number + 1:016x}"
    start = end_ns - 9 * S
    error = "upstream timeout" if failing else None
    calls = (
        ToolCall(
            "c1",
            "search_flights",
            {"from": "OSL", "to": "LIS", "date": "2026-03-12"},
            [{"flight": "LH-401", "departs": "06:15"}, {"flight": "TP-753", "departs": "11:40"}],
            started_ns=start + 2 * S,
            ended_ns=start + 4 * S,
        ),
        ToolCall(
            "c2",
            "book_flight",
            {"flight": "LH-401"},
            None if error else {"booking": f"B-{number}"},
            error,
            started_ns=start + 5 * S,
            ended_ns=start + 7 * S,
        ),
    )
    asked = [(RequestedCall(x.call_id, x.name, x.arguments),) for x in calls]
    answer = f"I booked flight LH-401 for you, booking B-{number}."
    models = (
        ModelCall(
            "m1",
            "gpt-4o",
            None,
            "They want the cheapest one.",
            asked[0],
            820,
            41,
            start,
            start + 2 * S,
        ),
        ModelCall("m2", "gpt-4o", None, None, asked[1], 1120, 38, start + 4 * S, start + 5 * S),
        ModelCall("m3", "gpt-4o", answer, None, (), 1290, 52, start + 7 * S, end_ns),
    )
    made = {
        "session_id": f"session-{number // TURNS_A_SESSION}",
        "user_id": f"user-{number % 97}",
        "agent_name": agent,
        "service_name": service,
        "user_input": f"{_QUESTIONS[number % len(_QUESTIONS)]} ({number})",
        "final_output": answer,
        "tool_calls": calls,
        "model_calls": models,
        "usage": Usage(3230, 131),
        "dialects": ("openai",),
    } | facts
    return AgentTrace(
        trace_ids=(trace_id,),
        root_span_id=root,
        opening_span_id=root,
        target=Target(trace_id, root, start, end_ns, {"service.name": made["service_name"]}),
        started_ns=start,
        ended_ns=end_ns,
        **made,
    )


def scores(trace: AgentTrace, *, failing: bool, chance: random.Random) -> Iterator[Evaluation]:
    """What is measured of a turn."""
    low = chance.uniform(0.05, 0.45)
    yield score(
        trace,
        "task_completion",
        low if failing else chance.uniform(0.75, 1.0),
        _reason("task_completion", trace, failing),
    )
    wrong = failing and chance.random() < 0.3
    yield score(
        trace, "tool_correctness", 0.0 if wrong else 1.0, _reason("tool_correctness", trace, wrong)
    )
    finding = {
        "call": 2,
        "tool": "book_flight",
        "argument": None,
        "text": 'failed with "upstream timeout"',
    }
    reason = _reason("check.errors_recovered", trace, failing)
    findings = {"findings": [finding]} if failing else {}
    yield score(trace, "check.errors_recovered", 0.0 if failing else 1.0, reason, findings, _CODE)
    yield measured(
        trace, "coherence", Skip("no embedding is configured", cause="no_embedding"), _CODE
    )
    if chance.random() < 0.02:
        yield measured(
            trace, "confidence", Failure("JudgeError", "the model answered 500 three times"), _JUDGE
        )


def _reason(metric: str, trace: AgentTrace, failing: bool) -> str:
    if not failing:
        return "Everything that the user asked for was done."
    reasons = _REASONS[metric]
    return reasons[trace.started_ns // S % len(reasons)]


def score(trace, metric, value, reason, metadata=None, by=_JUDGE) -> Evaluation:
    """A score of a turn."""
    return measured(trace, metric, Score(value, reason, metadata or {}), by)


def measured(trace: AgentTrace, metric: str, outcome, by: Evaluator) -> Evaluation:
    """What came out of measuring a turn, shortly after it ended."""
    return Evaluation(
        scope="trace",
        subject_id=trace.id,
        metric=metric,
        outcome=outcome,
        threshold=0.7,
        scale=(0.0, 1.0),
        evaluator=by,
        target=trace.target,
        session_id=trace.session_id,
        session_key=trace.session_key,
        agent_name=trace.agent_name,
        service_name=trace.service_name,
        evaluated_at_ns=trace.ended_ns + 12 * S,
    )


def fill(
    url: str, turns: int, *, until_ns: int | None = None, every_s: float = 7.0, seed: int = 1
) -> None:
    """Write `turns` turns, one every `every_s` seconds until `until_ns`; a tenth of them fails."""
    chance = random.Random(seed)
    end = until_ns or time.time_ns() - 60 * S
    store = Store.open(Config(url=url))
    numbers = iter(range(turns))
    while batch := list(itertools.islice(numbers, _BATCH)):
        traces, found = [], []
        for number in batch:
            failing = chance.random() < 0.1
            trace = turn(number, end - round((turns - 1 - number) * every_s * S), failing=failing)
            traces.append(StoredTrace(trace, 1, ""))
            found += scores(trace, failing=failing, chance=chance)
        store.commit(traces, found)
    store.close()


def main(folder: Path, turns: int) -> None:
    """Write the store, and a configuration that serves it."""
    folder.mkdir(parents=True, exist_ok=True)
    url = f"sqlite:///{folder}/store.db"
    fill(url, turns)
    config = {"store": {"url": url}, "journal": {"path": str(folder / "journal.db")}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
