"""Turns that are no trace: sent to a running server they give the same agent traces as out of files."""

import asyncio
import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from spanscore import config, pipeline
from spanscore.otlp import files
from spanscore.otlp.signal import WIRE
from spanscore.rebuild import rebuild_all

GOLDEN = Path(__file__).parent / "golden"
CASES = (
    "claude_code/shop-events",
    "claude_code/shop-traces",
    "codex/shop",
    "gemini_cli/shop",
    "gemini_cli/shop-traces",
)


@pytest.fixture
def settings(tmp_path):
    return config.Settings.model_validate(
        {
            "receive": {key: {"endpoint": "127.0.0.1:0"} for key in ("grpc", "http", "health")},
            "journal": {"path": tmp_path / "journal.db"},
            "store": {"url": f"sqlite:///{tmp_path}/store.db"},
            "assemble": {"complete_after": "20ms", "idle_after": "20ms", "session_idle_after": "20ms"},
        }
    )


def requests_of(case):
    """The requests of a recording, each cut in two so that turns come in pieces."""
    for path in sorted((GOLDEN / case).glob("*.pb.gz")):
        signal = "logs" if path.name.startswith("logs") else "traces"
        for odd in (True, False):
            request = WIRE[signal].request.FromString(gzip.decompress(path.read_bytes()))
            for group in request.resource_logs if signal == "logs" else request.resource_spans:
                for scoped in group.scope_logs if signal == "logs" else group.scope_spans:
                    items = scoped.log_records if signal == "logs" else scoped.spans
                    kept = [x for number, x in enumerate(items) if bool(number % 2) == odd]
                    copies = [type(x).FromString(x.SerializeToString()) for x in kept]
                    del items[:]
                    items.extend(copies)
            yield signal, request


def plain(trace):
    """The agent trace, but for how complete it was thought to be."""
    return None if trace is None else replace(trace, completeness="complete")


def sent(settings, case, expected):
    """Send a recording to a server until it has stored what is expected, and give what it has stored."""

    async def main():
        running, stopping, ready = pipeline.Pipeline(settings), asyncio.Event(), asyncio.Event()
        serving = asyncio.create_task(running.run(stopping, ready.set))
        await ready.wait()
        for signal, request in requests_of(case):
            await running.accept(signal, request.SerializeToString(), request)
        stored = {}
        try:
            async with asyncio.timeout(30):
                while stored != expected:
                    await asyncio.sleep(0.01)
                    stored = {x: plain(running.trace(x)) for x in expected}
        except TimeoutError:
            pass  # what differs is seen in what is stored
        stopping.set()
        await serving
        return stored

    return asyncio.run(main())


@pytest.mark.parametrize("case", CASES)
def test_turns_that_are_no_trace_are_the_same_live_and_from_files(settings, case):
    telemetry = files.load(sorted((GOLDEN / case).glob("*.pb.gz")))
    expected = {x.id: plain(x) for x in rebuild_all(telemetry.spans, telemetry.logs)}
    assert sent(settings, case, expected) == expected
