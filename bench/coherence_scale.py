"""What a coherence of 0.5 means under an embedding: similarities of answers to their own and to other questions.

    python bench/coherence_scale.py FILE [--embedding '{"local_model": "minishlab/potion-base-8M"}']

FILE, plain or .gz, is a JSON array of conversations as tau-bench publishes them (`task_id`; `traj`, a list of {role,
content}), or what `spanscore inspect --jsonl` prints. The embedding is the section `embedding` of a configuration;
without it, hashed n-grams. docs/embeddings.md shows what was found with it.
"""

import argparse
import asyncio
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spanscore import embed
from spanscore.model.json import loads

QUANTILES = (0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95)
THRESHOLDS = (0.05, 0.10, 0.12, 0.15, 0.20, 0.25, 0.30, 0.40, 0.50)


class Turn(NamedTuple):
    """A question and its answer; turns of one `matter` are not taken for strangers to each other."""

    matter: Any
    question: str
    answer: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--embedding", default="{}", help="the section of the configuration, as JSON")
    args = parser.parse_args()
    raw = args.file.read_bytes()
    turns = list(read_turns(gzip.decompress(raw) if args.file.suffix == ".gz" else raw))
    embedder = embed.open_embedder(embed.Config.model_validate(loads(args.embedding)))
    own, foreign = asyncio.run(similarities(turns, embedder))
    report(embedder.name, own, foreign)


def read_turns(raw: bytes) -> Iterator[Turn]:
    if raw.lstrip().startswith(b"["):
        for conversation in loads(raw):
            yield from turns_of(conversation["task_id"], conversation["traj"])
        return
    for line in raw.splitlines():
        trace = loads(line)
        if trace["user_input"] and trace["final_output"]:
            yield Turn(trace["session_id"] or trace["trace_ids"], trace["user_input"], trace["final_output"])


def turns_of(matter: Any, messages: list[dict[str, Any]]) -> Iterator[Turn]:
    """Each message of the user with the last thing that the agent said before the next one."""
    question = answer = None
    for message in [*messages, {"role": "user", "content": None}]:
        if message["role"] == "user":
            if question and answer:
                yield Turn(matter, question, answer)
            question, answer = message["content"], None
        elif message["role"] == "assistant" and message.get("content"):
            answer = message["content"]


async def similarities(turns: list[Turn], embedder: embed.Embedder) -> tuple[NDArray[Any], NDArray[Any]]:
    """Cosines of each question with its own answer, and with one to a question in another matter."""
    questions = await embedder.embed([turn.question for turn in turns])
    answers = await embedder.embed([turn.answer for turn in turns])
    strangers = [stranger(turns, i) for i in range(len(turns))]
    return (questions * answers).sum(axis=1), (questions * answers[strangers]).sum(axis=1)


def stranger(turns: list[Turn], i: int) -> int:
    """The first turn, from half the way round on, that is about another matter."""
    others = ((i + len(turns) // 2 + k) % len(turns) for k in range(len(turns)))
    return next(j for j in others if turns[j].matter != turns[i].matter)


def auc(own: NDArray[Any], foreign: NDArray[Any]) -> float:
    """How likely a question's own answer is the more similar one: 0.5 is chance, 1 is always."""
    ranked = np.sort(foreign)
    below = np.searchsorted(ranked, own, side="left")
    ties = np.searchsorted(ranked, own, side="right") - below
    return float((below + ties / 2).mean() / len(foreign))


def report(name: str, own: NDArray[Any], foreign: NDArray[Any]) -> None:
    print(f"{name}: {len(own)} questions with their own answer and with a foreign one, AUC {auc(own, foreign):.3f}\n")
    print("| percentile |" + "".join(f" {100 * q:.0f} |" for q in QUANTILES))
    print("|---|" + "---|" * len(QUANTILES))
    for label, values in (("own answer", own), ("foreign answer", foreign)):
        print(f"| {label} |" + "".join(f" {x:.2f} |" for x in np.quantile(values, QUANTILES)))
    print("\n| threshold | own answers that pass | foreign answers that pass |\n|---|---|---|")
    for threshold in THRESHOLDS:
        print(f"| {threshold:.2f} | {(own >= threshold).mean():.1%} | {(foreign >= threshold).mean():.1%} |")


if __name__ == "__main__":
    main()
