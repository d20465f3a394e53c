"""What is near under an embedding: similarities of questions to their own answers and to others,
and a threshold.

    python bench/coherence_scale.py FILE [--strangers FILE]
        [--embedding '{"local_model": "minishlab/potion-base-8M"}']

A FILE, plain or .gz, is a JSON array of conversations as tau-bench publishes them (`task_id`;
`traj`, a list of {role, content}), or what `spanscore inspect --jsonl` prints. Foreign answers are
those to another question of the same file; with --strangers, also those in a file about other
subjects. The embedding is the section `embedding` of a configuration; without it, hashed n-grams.
The threshold that is proposed is the similarity that 95 % of the own answers reach, with a 95 %
interval by bootstrap over conversations. docs/embeddings.md shows what was found with it.
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
FALSE_ALARMS = 0.05
RESAMPLES = 2000


class Turn(NamedTuple):
    """A question and its answer; turns of one `matter` are not taken for strangers to each
    other.
    """

    matter: Any
    question: str
    answer: str


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--strangers", type=Path, help="a file of turns about other subjects")
    parser.add_argument(
        "--embedding", default='{"provider": "ngrams"}', help="the section of the configuration"
    )
    args = parser.parse_args()
    turns, others = in_file(args.file), in_file(args.strangers) if args.strangers else []
    embedder = embed.open_embedder(embed.Config.model_validate(loads(args.embedding)))
    if embedder is None:
        parser.error("--embedding configures none: give model, local_model or provider")
    report(embedder.name, turns, asyncio.run(similarities(turns, others, embedder)))


def in_file(path: Path) -> list[Turn]:
    """The distinct turns in a file."""
    raw = path.read_bytes()
    turns = read_turns(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    return list({(turn.question, turn.answer): turn for turn in turns}.values())


def read_turns(raw: bytes) -> Iterator[Turn]:
    if raw.lstrip().startswith(b"["):
        for conversation in loads(raw):
            yield from turns_of(conversation["task_id"], conversation["traj"])
        return
    for line in raw.splitlines():
        trace = loads(line)
        if trace["user_input"] and trace["final_output"]:
            yield Turn(
                trace["session_id"] or trace["trace_ids"],
                trace["user_input"],
                trace["final_output"],
            )


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


async def similarities(
    turns: list[Turn], others: list[Turn], embedder: embed.Embedder
) -> dict[str, NDArray[np.float32]]:
    """Cosines of each question with its own answer, one in another matter, and one about another
    subject.
    """
    questions = await embedder.embed([turn.question for turn in turns])
    answers = await embedder.embed([turn.answer for turn in turns])
    strangers = [stranger(turns, i) for i in range(len(turns))]
    found = {
        "own answer": (questions * answers).sum(axis=1),
        "answer in another matter": (questions * answers[strangers]).sum(axis=1),
    }
    if others:
        texts = [others[i % len(others)].answer for i in range(len(turns))]
        found["answer on another subject"] = (questions * await embedder.embed(texts)).sum(axis=1)
    return found


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


def report(name: str, turns: list[Turn], found: dict[str, NDArray[np.float32]]) -> None:
    own, *foreign = found.values()
    print(f"{name}: {len(own)} questions in {len({str(x.matter) for x in turns})} matters\n")
    print("| percentile |" + "".join(f" {100 * q:.0f} |" for q in QUANTILES) + " AUC |")
    print("|---|" + "---|" * (len(QUANTILES) + 1))
    for label, values in found.items():
        told = "-" if values is own else f"{auc(own, values):.2f}"
        print(
            f"| {label} |"
            + "".join(f" {x:.2f} |" for x in np.quantile(values, QUANTILES))
            + f" {told} |"
        )
    threshold, low, high = proposed(turns, own)
    print(
        "\n| threshold |"
        + "".join(f" {label} passes |" for label in found)
        + "\n|---|"
        + "---|" * len(found)
    )
    for least in sorted({*THRESHOLDS, threshold}):
        print(
            f"| {least:.2f} |"
            + "".join(f" {(values >= least).mean():.1%} |" for values in (own, *foreign))
        )
    print(
        f"\n{1 - FALSE_ALARMS:.0%} of the own answers reach {threshold:.3f} [{low:.3f}, {high:.3f}]"
    )


def proposed(turns: list[Turn], own: NDArray[np.float32]) -> tuple[float, float, float]:
    """The similarity that all but `FALSE_ALARMS` of the own answers reach, with its interval over
    matters.
    """
    matters: dict[str, list[int]] = {}
    for place, turn in enumerate(turns):
        matters.setdefault(str(turn.matter), []).append(place)
    groups = [own[places] for places in matters.values()]
    rng = np.random.default_rng(0)
    drawn = (rng.integers(len(groups), size=len(groups)) for _ in range(RESAMPLES))
    resampled = [
        np.quantile(np.concatenate([groups[i] for i in some]), FALSE_ALARMS) for some in drawn
    ]
    low, high = np.quantile(resampled, (0.025, 0.975))
    return float(np.quantile(own, FALSE_ALARMS)), float(low), float(high)


if __name__ == "__main__":
    main()
