"""Worker processes read of each recording what threads of the server read of it."""

import asyncio
import gzip
import time
from pathlib import Path

import pytest

from spanscore import dialects
from spanscore.assemble.backlog import Backlog
from spanscore.assemble.config import Config
from spanscore.assemble.units import Units
from spanscore.otlp.signal import WIRE
from spanscore.store.journal import Journal
from spanscore.store.journal_config import Config as JournalConfig
from spanscore.telemetry import Config as Telemetry
from spanscore.telemetry import Meter
from spanscore.turn_scheduling import TurnScheduler
from spanscore.workers import InProcesses, InThreads, WorkerPool
from spanscore.workers.messages import Setup

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(x.parent for x in GOLDEN.glob("*/*/SOURCE"))
LATER_NS = 3600 * 10**9


def backlog_on(journal):
    units = Units(dialects.unit_scopes(), dialects.unit_of, dialects.goes_on)
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


async def compare(journal, pool):
    """The cases whose traces the processes and the threads read differently, and how many traces
    were read.
    """
    different, count = [], 0
    for case in CASES:
        scheduler, jobs = await scheduled(journal, case)
        here = await InThreads(scheduler, ()).read(jobs)
        scheduler, jobs = await scheduled(journal, case)
        in_threads = InThreads(scheduler, ())
        there = await InProcesses(pool, scheduler, here=in_threads, noted=lambda _: None).read(jobs)
        count += sum(len(x.traces) for x in there)
        if list(map(found, here)) != list(map(found, there)):
            different.append(str(case.relative_to(GOLDEN)))
    return different, count


@pytest.mark.timeout(600)
def test_each_recording_is_read_alike(tmp_path):
    async def run():
        journal = Journal(JournalConfig(path=tmp_path / "journal.db"))
        setup = Setup(tmp_path / "journal.db", Telemetry(), frozenset(), (), frozenset())
        pool = WorkerPool(setup, 2, Meter(), backlog_on(journal)[0].checksums)
        await pool.start()
        working = asyncio.create_task(pool.run())
        try:
            return await compare(journal, pool)
        finally:
            working.cancel()
            await pool.close()
            journal.close()

    different, count = asyncio.run(run())
    assert different == []
    assert count >= len(CASES)
