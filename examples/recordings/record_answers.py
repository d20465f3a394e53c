"""Have a model answer all that the demo asks, and keep its answers, which the demo replays where
there is no key.

    OPENAI_API_KEY=... python examples/recordings/record_answers.py openai/gpt-4o-mini

It writes pydantic-ai.answers beside this file. Run it again whenever a question or a transcript has
changed: a recorded answer is only given to the very question that it was given to.
"""

import argparse
import asyncio
import datetime as dt
from pathlib import Path

import yaml

from spanscore import config
from spanscore.cli import demo, trace_files
from spanscore.config import Settings
from spanscore.embed import open_embedder
from spanscore.evaluation.engine import Engine
from spanscore.judge import Judge, open_judge
from spanscore.judge.cache import RecordingJudge
from spanscore.model.score import Evaluation

FOLDER = Path(__file__).parent
RECORDING = "pydantic-ai"


def settings(model: str) -> Settings:
    """The demo's configuration, with a model as the judge."""
    found = demo.configuration(Path(), {"model": model}, None)
    return config.parse(yaml.safe_dump(found, sort_keys=False), environ={})


async def evaluate(chosen: Settings, judge: Judge) -> list[Evaluation]:
    """All scores of the recording, as the server measures them."""
    engine = Engine(
        chosen.evaluation, judge, open_embedder(chosen.embedding), judge_config=chosen.judge
    )
    traces = trace_files.agent_traces([FOLDER / RECORDING])
    earlier = trace_files.turns_before(traces)
    found: list[Evaluation] = []
    for trace in traces:
        found += await engine.evaluate_trace(trace, earlier=earlier.get(trace.id, ()))
    signals: dict[str, dict[str, Evaluation]] = {}
    for evaluation in found:
        signals.setdefault(evaluation.subject_id, {})[evaluation.metric] = evaluation
    for session in trace_files.sessions(traces):
        found += await engine.evaluate_session(session, signals)
    return found


def main() -> None:
    """Ask, print what failed, and write the answers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="a model that litellm knows")
    args = parser.parse_args()
    chosen = settings(args.model)
    judge = open_judge(chosen.judge)
    if judge is None:
        parser.error(f"{args.model} is no model")
    recording = RecordingJudge(judge)
    for evaluation in asyncio.run(evaluate(chosen, recording)):
        if evaluation.status == "failed":
            print(f"{evaluation.metric}: {evaluation.reason}")
    recorded = recording.recording(dt.datetime.now(dt.UTC).date().isoformat())
    recorded.write(FOLDER / f"{RECORDING}.answers")
    print(f"{len(recorded.answers)} answers recorded")


if __name__ == "__main__":
    main()
