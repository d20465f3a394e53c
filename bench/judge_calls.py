"""How many calls and tokens judging takes under each plan: the judged metrics on recorded traces, a scripted model.

The model is a server on loopback that gives a valid answer to whatever schema it is shown; what is counted is what it
was sent and gave, in estimated tokens. Run: .venv/bin/python bench/judge_calls.py [--traces 30]
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests/judge"), str(ROOT / "tests/judged")]

from judged_harness import GOLDEN, STAGES, engine_for  # noqa: E402 - from the tests
from obliging_model import ObligingModel  # noqa: E402 - likewise
from scripted_server import Reply, ScriptedServer  # noqa: E402 - likewise

from spanscore.judge.cache import MemoryCache  # noqa: E402 - likewise
from spanscore.judge.transcript import estimate_tokens  # noqa: E402 - likewise
from spanscore.model.trace import AgentTrace  # noqa: E402 - likewise
from spanscore.otlp import files  # noqa: E402 - likewise
from spanscore.rebuild import rebuild_all  # noqa: E402 - likewise


class CountingModel:
    """An obliging model that counts its tokens as the judge estimates them."""

    def __init__(self) -> None:
        self.tokens = {"in": 0, "out": 0}
        self._model = ObligingModel(
            verdict="no", reason="Step 2 asks for Rome, as the user did, and returns its weather. " * 2
        )

    def __call__(self, request: dict[str, Any]) -> Reply:
        reply = self._model(request)
        self.tokens["in"] += sum(estimate_tokens(x["content"]) for x in request["messages"])
        self.tokens["out"] += estimate_tokens(json.loads(reply.body)["choices"][0]["message"]["content"])
        return reply


def recordings() -> Iterator[AgentTrace]:
    """The first whole turn with tool calls of each golden recording, in the order of their names."""
    for folder in sorted(x for x in GOLDEN.glob("*/*") if x.is_dir()):
        telemetry = files.load(sorted(folder.glob("*.pb.gz")))
        found = rebuild_all(telemetry.spans, telemetry.logs)
        whole = [x for x in found if x.user_input and x.final_output and x.tool_calls]
        yield from whole[:1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--traces", type=int, default=30)
    traces = list(islice(recordings(), parser.parse_args().traces))
    calls = sum(len(x.tool_calls or ()) for x in traces)
    print(f"{len(traces)} recorded traces, {calls} tool calls, {len(STAGES)} metrics")
    for plan in ("fused", "staged"):
        model = CountingModel()
        with ScriptedServer(model) as server:
            engine = engine_for(server, plan, cache=MemoryCache(10_000))
            found = [x for trace in traces for x in asyncio.run(engine.evaluate_trace(trace))]
        scored = sum(x.status == "scored" for x in found)
        print(
            f"{plan:7} {len(server.calls):4} calls, {model.tokens['in']:7,} tokens in, {model.tokens['out']:6,} out; "
            f"{scored} of {len(found)} scored"
        )


if __name__ == "__main__":
    main()
