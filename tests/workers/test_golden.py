"""Worker processes read of a recording what threads of the server read of it, and give it the
scores that the server gives it.
"""

import asyncio
import gzip
import time

import pytest
from recorded import GOLDEN, KINDS

from spanscore import dialects, metrics
from spanscore.assemble.backlog import Backlog
from spanscore.assemble.config import Config
from spanscore.assemble.fragments import Units
from spanscore.embed import Config as EmbeddingConfig, open_embedder
from spanscore.evaluation import Config as EvaluationConfig, Engine
from spanscore.evaluation.engine import trace_scores
from spanscore.judge.config import Config as JudgeConfig
from spanscore.model.span import changed
from spanscore.otlp.signal import WIRE
from spanscore.store.config import Config as StoreConfig, JournalConfig
from spanscore.store.journal import Journal
from spanscore.telemetry import Config as Telemetry, Meter
from spanscore.turn_scheduling import TurnScheduler
from spanscore.workers import InProcesses, InThreads, LoneTries, WorkerPool
from spanscore.workers.answers import EvaluationSetup, Setup

OF_A_TRACE_ALONE = [
    name
    for name, metric in metrics.available().items()
    if metric.run == "trace" and not metric.looks_back
]
LATER_NS = 3600 * 10**9


def backlog_on(journal):
    units = Units(dialects.unit_scopes, dialects.unit_of, dialects.goes_on)
    config = Config(idle_after="1s")
    return Backlog(
        config,
        journal,
        Meter(),
        shows_genai=dialects.shows_genai,
        clock_ns=time.time_ns,
        units=units,
    ), config


async def fill(backlog, case):
    for signal in ("traces", "logs"):
        for file in sorted(case.glob(f"{signal}*.pb.gz")):
            body = gzip.decompress(file.read_bytes())
            await backlog.add(signal, body, WIRE[signal].request.FromString(body))


async def scheduled(journal, case):
    """A scheduler that knows a recording alone, and the jobs that read it."""
    backlog, config = backlog_on(journal)
    await fill(backlog, case)
    scheduler = TurnScheduler(config, backlog)
    return scheduler, scheduler.cut(time.time_ns() + LATER_NS)


def found(read):
    return read.job.trace_id, read.traces, read.fragment, read.ids_of_calls, read.hints


async def all_read(reading, jobs):
    """What was read of each job, in their order."""
    found = await reading.read(jobs)
    return [found[job] for job in jobs]


def outcomes(evaluations):
    """All of evaluations but when they were made."""
    return [changed(x, evaluated_at_ns=0) for x in evaluations]


async def is_scored_alike(engine, read):
    """Whether the scores that came with what was read are those of this process."""
    return all(
        [
            outcomes(made.evaluations) == outcomes(await trace_scores(engine, trace))
            for trace in read.traces
            if (made := read.first_scores.get(trace.id))
        ]
    )


async def compare(journal, pool, engine):
    """The cases whose traces the processes and this one read or score differently, how many traces
    were read, and how many of them scored.
    """
    different, count, scored = [], 0, 0
    for case in KINDS:
        scheduler, jobs = await scheduled(journal, case)
        here = await all_read(InThreads(scheduler, ()), jobs)
        scheduler, jobs = await scheduled(journal, case)
        in_threads = InThreads(scheduler, ())
        processes = InProcesses(
            pool, scheduler, here=in_threads, noted=lambda _: None, lone_tries=LoneTries()
        )
        there = await all_read(processes, jobs)
        count += sum(len(x.traces) for x in there)
        scored += sum(len(x.first_scores) for x in there)
        is_read_alike = list(map(found, here)) == list(map(found, there))
        if not is_read_alike or not all([await is_scored_alike(engine, x) for x in there]):
            different.append(str(case.relative_to(GOLDEN)))
    return different, count, scored


@pytest.mark.slow
def test_a_recording_of_each_kind_is_read_and_scored_alike(tmp_path):
    evaluation = EvaluationConfig(default_metrics=False, metrics={x: {} for x in OF_A_TRACE_ALONE})

    async def run():
        journal = Journal(JournalConfig(path=tmp_path / "journal.db"))
        embedding = EmbeddingConfig(provider="ngrams")
        own = EvaluationSetup(evaluation, JudgeConfig(), embedding, StoreConfig())
        setup = Setup(tmp_path / "journal.db", Telemetry(), frozenset(), (), frozenset(), own)
        engine = Engine(evaluation, None, open_embedder(own.embedding))
        pool = WorkerPool(setup, 2, Meter(), backlog_on(journal)[0].checksums)
        working = asyncio.create_task(pool.run())
        try:
            return await compare(journal, pool, engine)
        finally:
            working.cancel()
            await asyncio.to_thread(pool.close)
            journal.close()

    different, count, scored = asyncio.run(run())
    assert different == []
    assert min(count, scored) >= len(KINDS)
