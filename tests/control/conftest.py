"""A store with traces in it, a judge that counts what it is asked, and runs over both."""

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from spanscore.config import Settings
from spanscore.control.measurer import Measurers
from spanscore.control.runs import Runs
from spanscore.evaluation import Engine
from spanscore.export.sender import Sender
from spanscore.judge.answer import read
from spanscore.judge.port import Answer
from spanscore.model.score import JudgeUsage
from spanscore.scoring import Scoring
from spanscore.store.config import Config
from spanscore.store.store import Store, StoredTrace
from spanscore.telemetry import Meter
from spanscore.testing.traces import agent_trace, tool_call

sys.path[:0] = [
    str(Path(__file__).parents[1] / "judged"),  # the traces that files record
    str(Path(__file__).parent),
]

ENDED = {"SUCCEEDED", "FAILED", "CANCELLED", "PAUSED"}


class CountingJudge:
    """Gives every question the same answer; `errors` has what it raises for a text that the
    question contains.

    `asked` counts the questions; while `gate` is not set, nothing is answered.
    """

    def __init__(self):
        self.asked = Counter()
        self.models = set()
        self.errors = {}
        self.gate = asyncio.Event()
        self.gate.set()

    async def ask(self, prompt, schema, *, models=()):
        self.asked[prompt.transcript, prompt.question] += 1
        self.models.update(models)
        await self.gate.wait()
        for text, error in self.errors.items():
            if text in prompt.transcript:
                raise error
        given = {
            "score": 0.8,
            "reason": "because",
            "task": "a task",
            "outcome": "done",
            "plan": ["a", "b"],
        }
        given["verdicts"] = []
        fields = {
            name: given.get(name, {"score": 0.8, "reason": "because"})
            for name in schema.model_fields
        }
        return Answer(
            read(json.dumps(fields), schema),
            models[0] if models else "scripted",
            JudgeUsage(1, 100, 10, 0.01),
        )


class Server:
    """What a server has of runs: closing it and opening another one on the same store is a
    restart.
    """

    def __init__(self, url, judge, **settings):
        self.settings = Settings.model_validate({"evaluation": settings})
        self.store = Store.open(Config(url=url))
        self.loop = asyncio.Runner()
        self.meter = Meter()
        self.sender = Sender(self.settings.export, {}, self.store, self.meter)
        engine = Engine(self.settings.evaluation, judge, None)
        self.scoring = Scoring(engine, self.store, self.sender, self.meter)
        measurers = Measurers(self.settings, judge, None)
        self.runs = Runs(self.settings.evaluation.runs, measurers, self.scoring, self.store)

    @property
    def active(self):
        """The runs that are worked on, by their ids."""
        return self.runs._active

    async def ended(self, run_id, states=ENDED):
        """Work on the runs until one has come to one of these states; returns it."""
        working = asyncio.create_task(self.runs.run())
        try:
            return await self.until(run_id, lambda run: run.state in states)
        finally:
            working.cancel()
            await asyncio.wait([working])

    async def until(self, run_id, is_so):
        """A run as soon as something holds for it."""
        while not is_so(run := await self.runs.get("", run_id)):
            await asyncio.to_thread(lambda: None)
        return run

    async def eventually(self, is_so):
        """Wait until something holds that other tasks bring about."""
        while not is_so():
            await asyncio.to_thread(lambda: None)

    def do(self, awaitable):
        """What comes of it in the one event loop that this server has."""
        return self.loop.run(awaitable)

    def keep(self, traces):
        self.store.commit([StoredTrace(x, 1, "digest") for x in traces], [])
        return [x.id for x in traces]


@pytest.fixture
def judge():
    return CountingJudge()


@pytest.fixture
def open_server(tmp_path, judge):
    """`open_server(**evaluation)`: a server on this test's store; every call opens it anew, as a
    restart does.
    """
    opened = []

    def open_it(**settings):
        opened.append(Server(f"sqlite:///{tmp_path}/spanscore.db", judge, **settings))
        return opened[-1]

    yield open_it
    for server in opened:
        server.store.close()
        server.loop.close()


@pytest.fixture
def server(open_server):
    return open_server()


def make_traces(count, **facts):
    """Turns that a judge can be asked about, each of another question."""
    return [
        agent_trace(
            **{
                "user_input": f"Where is order {number}?",
                "final_output": f"Order {number} was sent.",
                "tool_calls": (tool_call("find_order", {"id": number}, {"status": "sent"}),),
                "service_name": "shop",
                **{
                    name: value(number) if callable(value) else value
                    for name, value in facts.items()
                },
            }
        )
        for number in range(count)
    ]


@pytest.fixture
def traces():
    return make_traces
