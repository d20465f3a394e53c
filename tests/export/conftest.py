"""Scores to export, an outbox in memory, exporters that remember, and a clock that only sleeping
moves.
"""

import asyncio
import inspect
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from spanscore.export.config import Config
from spanscore.export.sender import Sender
from spanscore.model.score import Evaluation, Evaluator, Failure, JudgeUsage, Score, Skip
from spanscore.model.trace import Target
from spanscore.otlp.signal import WIRE
from spanscore.telemetry import Meter

sys.path.insert(0, str(Path(__file__).parent))

START_NS, END_NS = 1_700_000_000_000_000_000, 1_700_000_000_189_000_000
RESOURCE = {"service.name": "shop", "host.name": "h1"}


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test that is a coroutine in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.function):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


def make_target(
    start_ns=START_NS, end_ns=END_NS, resource=RESOURCE, response_id=None, span_id="0b" * 8
):
    return Target("0a" * 16, span_id, start_ns, end_ns, resource, response_id)


def make_score(metric="task_completion", value=0.83, **facts):
    defaults = {
        "scope": "trace",
        "subject_id": "c" * 32,
        "metric": metric,
        "outcome": Score(value, "because", {"task": "buy"}),
        "threshold": 0.5,
        "scale": (0.0, 1.0),
        "evaluator": Evaluator("LLM", "judge", "1", "gpt-4o", "abcd"),
        "target": make_target(),
        "session_id": "s-1",
        "agent_name": "clerk",
        "service_name": "shop",
        "usage": JudgeUsage(1, 200, 30, 0.01, 0),
        "evaluated_at_ns": END_NS + 13 * 10**9,
    }
    return Evaluation(**{**defaults, **facts})


def read(value):
    kind = value.WhichOneof("value")
    return (
        [read(x) for x in value.array_value.values]
        if kind == "array_value"
        else getattr(value, kind)
    )


def read_attributes(message):
    return {x.key: read(x.value) for x in message.attributes}


@pytest.fixture
def make():
    """Scores and what they are made of, and attributes of a message as a dict."""
    return SimpleNamespace(
        score=make_score,
        target=make_target,
        failed=lambda **facts: make_score(
            outcome=Failure("JudgeTimeoutError", "no answer"), **facts
        ),
        skipped=lambda **facts: make_score(outcome=Skip("nothing recorded"), **facts),
        groundless=lambda **facts: make_score(
            outcome=Skip("confidence is missing in 1 of 1 trace", "no_signals"),
            scope="session",
            **facts,
        ),
        many=lambda *numbers: [(n, make_score(f"m{n}")) for n in numbers],
        attributes=read_attributes,
        start_ns=START_NS,
        end_ns=END_NS,
    )


class Clock:
    """Unix nanoseconds that pass only while something sleeps, and then at once."""

    def __init__(self):
        self.now_ns = END_NS
        self.slept_s = []

    def __call__(self):
        return self.now_ns

    async def sleep(self, delay_s):
        self.slept_s.append(delay_s)
        self.now_ns += round(delay_s * 1e9)
        await asyncio.sleep(0)


@pytest.fixture
def clock():
    return Clock()


class FakeOutbox:
    """The store's part in sending, in memory; `reads` counts how often it was asked for scores."""

    def __init__(self, pairs=()):
        self.pairs = list(pairs)
        self.cursors = {}
        self.reads = 0
        self.lost = {}
        """What could not be delivered, by exporter and sequence number."""

    is_shared = False

    def newest_seq(self):
        return self.last_seq

    @property
    def last_seq(self):
        return max([seq for seq, _ in self.pairs], default=0)

    def outbox(self, after, limit):
        self.reads += 1
        return [pair for pair in self.pairs if pair[0] > after][:limit]

    def cursor(self, exporter):
        return self.cursors.get(exporter)

    def set_cursor(self, exporter, seq, undelivered=()):
        self.cursors[exporter] = seq
        self.lost |= {(x.exporter, x.seq): x for x in undelivered}

    def undelivered(self):
        names = {name for name, _ in self.lost}
        return {
            name: (len(notes), sum(x.to_resend for x in notes))
            for name in names
            if (notes := [x for (of, _), x in self.lost.items() if of == name])
        }

    def ask(self):
        """Have all that could not be delivered be sent again."""
        self.lost = {key: replace(x, to_resend=True) for key, x in self.lost.items()}

    def to_send_again(self, exporter, limit):
        scores = dict(self.pairs)
        newest = {(x.subject_id, x.metric): x.revision for x in scores.values()}
        return [
            (
                note,
                scores[seq],
                scores[seq].revision < newest[scores[seq].subject_id, scores[seq].metric],
            )
            for (name, seq), note in sorted(self.lost.items())
            if name == exporter and note.to_resend
        ][:limit]

    def settle(self, exporter, seqs, still):
        for seq in seqs:
            self.lost.pop((exporter, seq), None)
        self.lost |= {(x.exporter, x.seq): x for x in still}


class FakeExporter:
    """Remembers what was sent; first answers as `script` says, by signal; holds back while `gate`
    is shut.
    """

    def __init__(self, script=None):
        self.script = {signal: list(errors) for signal, errors in (script or {}).items()}
        self.sent = []
        self.tries = []
        self.closed = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.tried = defaultdict(asyncio.Event)

    async def send(self, signal, body, headers=()):
        self.tries.append(signal)
        self.tried[signal].set()
        await self.gate.wait()
        if self.script.get(signal):
            answer = self.script[signal].pop(0)
            if isinstance(answer, Exception):
                raise answer
            self.sent.append((signal, body))
            return answer
        self.sent.append((signal, body))
        return None

    async def close(self):
        self.closed += 1

    def names(self, signal="traces"):
        """The metrics whose spans or events were sent."""
        requests = [
            WIRE[kind].request.FromString(body) for kind, body in self.sent if kind == signal
        ]
        if signal == "traces":
            items = [
                x
                for r in requests
                for rs in r.resource_spans
                for ss in rs.scope_spans
                for x in ss.spans
            ]
        else:
            items = [
                x
                for r in requests
                for rl in r.resource_logs
                for sl in rl.scope_logs
                for x in sl.log_records
            ]
        return [read_attributes(x)["gen_ai.evaluation.name"] for x in items]

    def counts(self):
        """How many scores the histograms that were sent hold."""
        requests = [
            WIRE[kind].request.FromString(body) for kind, body in self.sent if kind == "metrics"
        ]
        scopes = [sm for r in requests for rm in r.resource_metrics for sm in rm.scope_metrics]
        return sum(
            point.count for sm in scopes for m in sm.metrics for point in m.histogram.data_points
        )


@pytest.fixture
def fakes():
    """The classes of fake exporters and outboxes."""
    return SimpleNamespace(Exporter=FakeExporter, Outbox=FakeOutbox)


class Running:
    """`async with start(exporters, outbox) as up`: a sender that runs; `up.settle()` waits until
    all has left.
    """

    def __init__(self, exporters, outbox, clock, settings, tools, signals):
        self.exporters = exporters
        self.outbox = outbox
        self.meter = Meter()
        configured = dict.fromkeys([*exporters, *tools]) | {
            name: {"signals": x} for name, x in signals.items()
        }
        config = Config.model_validate({"exporters": configured, "spans": "all", **settings})
        self.sender = Sender(
            config,
            exporters,
            outbox,
            self.meter,
            clock_ns=clock,
            sleep=clock.sleep,
            chance=lambda: 0.5,
        )

    async def __aenter__(self):
        self._task = asyncio.create_task(self.sender.run())
        return self

    async def __aexit__(self, *_):
        await self.sender.stop()
        await asyncio.wait([self._task])

    def commit(self, pairs):
        """Put scores into the outbox and hand them over, as the pipeline does."""
        self.outbox.pairs += pairs
        self.sender.offer(pairs)

    async def settle(self):
        assert await self.sender.drain(20)


@pytest.fixture
def start(clock):
    """`start(exporters, outbox, **settings of export)`; `tools` are configured beside them,
    `signals` for some.
    """

    def make_one(exporters, outbox, tools=(), signals=None, **settings):
        return Running(exporters, outbox, clock, settings, tools, signals or {})

    return make_one
