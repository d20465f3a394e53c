"""How many calls and tokens judging takes under each plan: the judged metrics on recorded traces, a
scripted model.

The model is a server on loopback that gives a valid answer to whatever schema it is shown; what is
counted is what it was sent and gave, in estimated tokens. Run: .venv/bin/python
bench/judge_calls.py [--traces 30]
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests/judge"), str(ROOT / "tests/judged")]

from judged_harness import GOLDEN, STAGES, engine_for  # noqa: E402 - from the tests
from obliging_model import ObligingModel  # noqa: E402 - likewise
from scripted_server import Reply, ScriptedServer  # noqa: E402 - likewise

from spanscore.evaluation import Engine  # noqa: E402 - likewise
from spanscore.judge.cache import MemoryCache  # noqa: E402 - likewise
from spanscore.judge.transcript import estimate_tokens  # noqa: E402 - likewise
from spanscore.model.score import Evaluation  # noqa: E402 - likewise
from spanscore.model.trace import AgentTrace  # noqa: E402 - likewise
from spanscore.otlp import files  # noqa: E402 - likewise
from spanscore.rebuild import rebuild_all  # noqa: E402 - likewise

BYTES_PER_TOKEN = 3
"""As the judge estimates tokens."""
_LEAST_CACHED_TOKENS, _CACHED_STEP_TOKENS = 1024, 128


class CountingModel:
    """An obliging model that counts its tokens as the judge estimates them, and what a prefix cache
    would have served.

    The cache is as OpenAI and Azure describe theirs: it knows the beginnings of all prompts before,
    in steps of 128 tokens, from 1,024 tokens on; nothing is forgotten.
    """

    def __init__(self) -> None:
        self.tokens = {"in": 0, "out": 0, "cached": 0}
        self._beginnings: set[int] = set()
        self._model = ObligingModel(
            verdict="no",
            reason="Step 2 asks for Rome, as the user did, and returns its weather. " * 2,
        )

    def __call__(self, request: dict[str, Any]) -> Reply:
        reply = self._model(request)
        prompt = "".join(message["content"] for message in request["messages"])
        self.tokens["in"] += sum(
            estimate_tokens(message["content"]) for message in request["messages"]
        )
        self.tokens["out"] += estimate_tokens(
            json.loads(reply.body)["choices"][0]["message"]["content"]
        )
        self.tokens["cached"] += self._served(prompt.encode())
        return reply

    def _served(self, prompt: bytes) -> int:
        """How many tokens of `prompt` a prefix cache has, which knows all of it afterwards."""
        ends = range(_LEAST_CACHED_TOKENS, len(prompt) // BYTES_PER_TOKEN + 1, _CACHED_STEP_TOKENS)
        beginnings = {tokens: hash(prompt[: tokens * BYTES_PER_TOKEN]) for tokens in ends}
        served = max(
            (x for x, beginning in beginnings.items() if beginning in self._beginnings), default=0
        )
        self._beginnings.update(beginnings.values())
        return served


def recordings() -> Iterator[AgentTrace]:
    """The first whole turn with tool calls of each golden recording, in the order of their
    names.
    """
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
    alone = measured("staged", traces, shared=False)
    for name, found in (
        ("one call per stage and metric", alone),
        ("staged", measured("staged", traces)),
        ("fused", measured("fused", traces)),
    ):
        tokens = found.tokens
        print(
            f"{name:30} {found.calls:4} calls ({found.calls / alone.calls:.2f}), {tokens['in']:7,}"
            f" tokens in ({tokens['in'] / alone.tokens['in']:.2f}),"
            f" {tokens['cached'] / tokens['in']:.0%} of them in a prefix cache, {tokens['out']:6,}"
            f" out; {found.scored} of {len(traces) * len(STAGES)} scored"
        )


@dataclass(frozen=True)
class Measured:
    """What judging took: calls, tokens by kind, and how many metrics of traces have a score."""

    calls: int
    tokens: Mapping[str, int]
    scored: int


def measured(
    plan: Literal["fused", "staged"], traces: Sequence[AgentTrace], *, shared: bool = True
) -> Measured:
    """Judge each trace.

    Where nothing is `shared`, each metric asks by itself, and no answer is kept.
    """
    model = CountingModel()
    together = [None] if shared else [{name: {}} for name in STAGES]
    with ScriptedServer(model) as server:
        engines = [
            engine_for(server, plan, metrics=x, cache=MemoryCache(10_000) if shared else None)
            for x in together
        ]
        found = asyncio.run(evaluated(engines, traces))
    return Measured(len(server.calls), model.tokens, sum(x.status == "scored" for x in found))


async def evaluated(engines: Sequence[Engine], traces: Sequence[AgentTrace]) -> list[Evaluation]:
    """What each engine finds of each trace, one after the other."""
    return [x for trace in traces for engine in engines for x in await engine.evaluate_trace(trace)]


if __name__ == "__main__":
    main()
