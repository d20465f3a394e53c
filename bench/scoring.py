"""Agent traces per CPU second of scoring alone, beside reading: read -> evaluate -> commit ->
sessions -> encode.

python bench/scoring.py [--traces 1000] [--checks] [--before COMMIT] [--profile STEP]

With --before the sources of an earlier commit and today's score the same load in turns, each in a
process of its own.
"""

import argparse
import asyncio
import cProfile
import gc
import json
import pstats
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any, TypeAlias

from comparing import compare
from load import Load
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.embed import Config as EmbedConfig, open_embedder
from spanscore.evaluation import Config, Engine
from spanscore.export import batches, events
from spanscore.export.config import Config as ExportConfig
from spanscore.export.sender import Sender
from spanscore.metrics import family
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.otlp import codec
from spanscore.rebuild import rebuild_all
from spanscore.scoring import Scoring
from spanscore.store.config import Config as StoreConfig
from spanscore.store.store import Store
from spanscore.telemetry import Meter

START_NS = 1_750_000_000 * 10**9
BATCH, SESSIONS = 64, 32
"""Traces, and sessions, that the server evaluates and commits together."""

COLLECT_EVERY = 50_000
"""New objects between two collections of garbage, as `spanscore serve` has it."""

Rates: TypeAlias = Mapping[str, float]
"""Traces per CPU second of each step, and of all."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=int, default=1000, help="of ten spans each")
    parser.add_argument(
        "--checks", action="store_true", help="measure all checks beside the default metrics"
    )
    parser.add_argument(
        "--before", metavar="COMMIT", help="compare with the sources of an earlier commit"
    )
    parser.add_argument(
        "--profile", metavar="STEP", help="show where the time of a step goes, or of `all`"
    )
    parser.add_argument("--json", action="store_true", help="print the rates as JSON")
    args = parser.parse_args()
    if args.before:
        chosen = ["--checks"] if args.checks else []
        compare([__file__, *chosen], args.before, args.traces, "traces/CPU s")
        return
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY)
    clock = Clock(args.profile)
    checks = dict.fromkeys(family("check")) if args.checks else {}
    asyncio.run(scored(args.traces, Config(metrics=checks), clock))
    found = clock.rates(args.traces)
    if args.json:
        print(json.dumps(found))
        return
    for step, rate in found.items():
        print(f"{step:<12}{rate:>10,.0f} traces/CPU s{1e6 / rate:>10,.0f} us a trace")
    if args.profile:
        pstats.Stats(clock.profile).sort_stats("tottime").print_stats(40)


class Clock:
    """CPU seconds of this process, its threads included, by step."""

    def __init__(self, profiled: str | None) -> None:
        self.profile = cProfile.Profile()
        self._profiled = profiled
        self._spent_s: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Count what is spent within as of a step."""
        if self._profiled in {name, "all"}:
            self.profile.enable()
        before_s = time.process_time()
        yield
        self._spent_s[name] = self._spent_s.get(name, 0.0) + time.process_time() - before_s
        self.profile.disable()

    def forget(self) -> None:
        """Begin anew: what was spent so far was to get warm."""
        self._spent_s.clear()

    def rates(self, traces: int) -> dict[str, float]:
        """What was spent, as traces per CPU second."""
        scoring_s = sum(x for name, x in self._spent_s.items() if name != "read")
        return {
            name: traces / x for name, x in (self._spent_s | {"all but read": scoring_s}).items()
        }


class Here(Executor):
    """Does at once, in this thread, what the server has threads do: a profile then shows it."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **options: Any) -> "Future[Any]":
        """See `Executor.submit`."""
        future: Future[Any] = Future()
        try:
            future.set_result(work(*arguments, **options))
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            future.set_exception(error)
        return future


async def scored(traces: int, config: Config, clock: Clock) -> None:
    """Score the load as the server does, once this process is warm."""
    bodies = list(Load(start_ns=START_NS).requests(traces + BATCH))
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(StoreConfig(url=f"sqlite:///{folder}/store.db"))
        export = ExportConfig(spans="all")
        engine = Engine(config, None, open_embedder(EmbedConfig(provider="ngrams")))
        scoring = Scoring(
            engine, store, Sender(export, {}, store, Meter()), Meter(), threads=Here()
        )
        way = Way(scoring, store, export, clock)
        agent_traces = way.read(bodies)
        await way.score(agent_traces[:BATCH])
        clock.forget()
        await way.score(way.read(bodies)[BATCH:])
        way.encode()
        store.close()


class Way:
    """The server's way from bytes to encoded scores."""

    def __init__(self, scoring: Scoring, store: Store, export: ExportConfig, clock: Clock) -> None:
        self._scoring = scoring
        self._store = store
        self._export = export
        self._clock = clock

    def read(self, bodies: Sequence[bytes]) -> list[AgentTrace]:
        """The agent traces of these requests."""
        with self._clock.step("read"):
            found = []
            for body in bodies:
                spans = list(codec.spans(ExportTraceServiceRequest.FromString(body)))
                found += rebuild_all(spans, [])
            return found

    async def score(self, traces: Sequence[AgentTrace]) -> None:
        """Evaluate, commit and encode; then the sessions of these traces."""
        for first in range(0, len(traces), BATCH):
            await self._traces(traces[first : first + BATCH])
        keys = list(dict.fromkeys(x.session_key for x in traces if x.session_key is not None))
        for first in range(0, len(keys), SESSIONS):
            await self._sessions(keys[first : first + SESSIONS])

    def encode(self) -> None:
        """The requests that carry all scores so far, in the server's batches."""
        told, after = events.CumulativeCounts(START_NS), 0
        while pairs := self._store.outbox(after, self._export.batch.max_size):
            after = pairs[-1][0]
            with self._clock.step("encode"):
                for part in batches.parts(pairs, self._export):
                    events.histogram_request(part.evaluations, told, START_NS)

    async def _traces(self, traces: Sequence[AgentTrace]) -> None:
        with self._clock.step("new"):
            stored = self._scoring.new(traces)
        with self._clock.step("evaluate"):
            evaluations: list[Evaluation] = []
            for x in stored:
                evaluations += await self._scoring.evaluate(x)
        with self._clock.step("commit"):
            await self._scoring.commit(stored, evaluations)

    async def _sessions(self, keys: Sequence[str]) -> None:
        with self._clock.step("sessions"):
            await self._scoring.sessions(keys)


if __name__ == "__main__":
    main()
