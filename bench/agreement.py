"""How far the metrics agree with the labels of public benchmarks: the judged ones, beside two other
kinds of prompt, or those that need no judge.

    python bench/agreement.py        # replays bench/recorded/answers.jsonl: no key, nothing is sent
    python bench/agreement.py --model gpt-4o-mini    # has a model judge all that is in the files
    python bench/agreement.py --model gpt-4o-mini --record answers.jsonl results.json
    python bench/agreement.py --without-judge --embedding '{"provider": "ngrams"}' results.json

FILE is a file of labelled trajectories as bench/trajectories.py reads them; without one, the forty
in bench/recorded. Each row holds a score against the benchmark's reward: accuracy, Cohen's kappa,
precision and recall of the label that the metric's threshold gives, and the area under the ROC
curve of the score itself, each with its 95 % interval in which the runs of one task are a cluster.
A metric of a turn is averaged over the turns of the conversation. With --without-judge the metrics
are those of arithmetic and embeddings, and a session's score rests on the signals of those; below
the table is why a metric gave a conversation none.
"""

import argparse
import asyncio
import datetime as dt
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import trajectories
from baselines import BASELINES, Baseline, score
from trajectories import Trajectory

from spanscore import embed, metrics, stats
from spanscore.errors import JudgeError, SpanscoreError
from spanscore.evaluation import Config, Engine, Overrides
from spanscore.evaluation.rubric import Config as Rubric
from spanscore.judge import Config as JudgeConfig
from spanscore.judge import Judge, open_judge
from spanscore.judge.cache import RecordedJudge, RecordingJudge
from spanscore.model.json import loads
from spanscore.model.score import Evaluation, reaches

T = TypeVar("T")

_RECORDED = Path(__file__).with_name("recorded")
_AT_ONCE = 8
_METRICS = ("conversation_completion", "rubric")
_WITHOUT_JUDGE = ("loop_detection", "coherence", "agent_reliability", "agent_consistency")
_RUBRIC = Rubric(
    metrics=[{"metric": name, "weight": x.weight or 0.1} for name, x in Rubric().known().items()]
)
"""All criteria, task completion as well."""
_BASELINE_THRESHOLD = 0.5


class Row(NamedTuple):
    """One way of scoring, and what it gave each trajectory: None where it gave no score.

    Scores without a `threshold` have no label.
    """

    name: str
    threshold: float | None
    scores: Sequence[float | None]
    skipped: Sequence[Sequence[str]] = ()
    """Of each trajectory, why the metric skipped it or turns of it."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="*", type=Path, help="labelled trajectories")
    parser.add_argument("--model", help="the model that judges; without it, the recorded answers")
    parser.add_argument(
        "--recorded", type=Path, default=_RECORDED / "answers.jsonl", help="the recorded answers"
    )
    parser.add_argument("--record", type=Path, help="with --model: keep the answers in this file")
    parser.add_argument(
        "--without-judge", action="store_true", help="measure what needs no model that judges"
    )
    parser.add_argument("--embedding", default="{}", help="the section of the configuration")
    parser.add_argument("--metric", action="append", help="measure this metric; may be given again")
    args = parser.parse_args()
    if args.without_judge and (args.model or args.record):
        parser.error("--without-judge asks no model and records nothing")
    files = args.file or sorted(_RECORDED.glob("*.json.gz"))
    try:
        found = [x for path in files for x in trajectories.read(path)]
        embedder = embed.open_embedder(embed.Config.model_validate(loads(args.embedding)))
        recording = (
            None if args.without_judge else RecordingJudge(_judge(args.model, args.recorded))
        )
        names = args.metric or (_METRICS if recording else _WITHOUT_JUDGE)
        rows = asyncio.run(measured(found, names, recording, embedder))
    except (OSError, SpanscoreError, ValueError) as error:
        sys.exit(f"agreement: {error}")
    for corpus in dict.fromkeys(x.corpus for x in found):
        report(*_of_corpus(corpus, found, rows))
    if recording and args.record:
        today = dt.datetime.now(dt.UTC).date().isoformat()
        count = recording.write(args.record, model=args.model, recorded=today)
        print(f"\n{count} answers are in {args.record}")


def _judge(model: str | None, recorded: Path) -> Judge:
    if model is None:
        return RecordedJudge(recorded)
    judge = open_judge(JudgeConfig(model=model))
    if judge is None:
        raise SpanscoreError(f"{model} is no model that can be asked")
    return judge


async def measured(
    found: Sequence[Trajectory],
    names: Sequence[str],
    judge: Judge | None,
    embedder: embed.Embedder | None = None,
) -> list[Row]:
    """A row for each metric, then, where there is a judge, one for each baseline."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def each(one: Callable[[Trajectory], Awaitable[T]]) -> list[T]:
        async def bounded(trajectory: Trajectory) -> T:
            async with room:
                return await one(trajectory)

        return await asyncio.gather(*map(bounded, found))

    engine = Engine(Config(rubric=_RUBRIC), judge, embedder)
    evaluations = await each(lambda x: _evaluations(engine, names, x))
    rows = []
    for name in dict.fromkeys(x.metric for of_one in evaluations for x in of_one):
        own = [[x for x in of_one if x.metric == name] for of_one in evaluations]
        threshold = next((x.threshold for of_one in own for x in of_one if x.threshold), None)
        scores = [_mean(x) for x in own]
        skipped = [[x.reason or "" for x in of_one if x.status == "skipped"] for of_one in own]
        rows.append(Row(name, threshold, scores, skipped))
    for baseline in BASELINES if judge else ():
        scores = await each(lambda x, baseline=baseline: _by_baseline(baseline, x, judge))
        rows.append(Row(baseline.name, _BASELINE_THRESHOLD, scores))
    return rows


async def _evaluations(
    engine: Engine, names: Sequence[str], trajectory: Trajectory
) -> list[Evaluation]:
    """What the metrics gave a conversation and, where a metric is of a turn, its turns."""
    session = trajectory.session
    of_turns = [
        x for x in names if x in metrics.available() and metrics.available()[x].run == "trace"
    ]
    of_session = [x for x in names if x not in of_turns]
    found: list[Evaluation] = []
    for place, trace in enumerate(session.traces if of_turns else ()):
        overrides = Overrides(metrics=tuple(of_turns))
        found += await engine.evaluate_trace(trace, overrides, earlier=session.traces[:place])
    if of_session:
        found += await engine.evaluate_session(session, {}, Overrides(metrics=tuple(of_session)))
    return found


async def _by_baseline(baseline: Baseline, trajectory: Trajectory, judge: Judge) -> float | None:
    try:
        return await score(baseline, trajectory.session, judge)
    except JudgeError as error:
        print(f"{trajectory.session.session_id}: {error}", file=sys.stderr)
        return None


def _mean(evaluations: Iterable[Evaluation]) -> float | None:
    values = []
    for evaluation in evaluations:
        if evaluation.value is not None:
            values.append(evaluation.value)
        elif evaluation.status == "failed":
            print(f"{evaluation.metric}: {evaluation.reason}", file=sys.stderr)
    return sum(values) / len(values) if values else None


def _lacking(skipped: Iterable[Sequence[str]]) -> str:
    """How many were skipped, and why the most of them; "" where none was."""
    reasons = Counter(reason for of_one in skipped for reason in of_one)
    if not reasons:
        return ""
    [(reason, count)] = reasons.most_common(1)
    return f"{reasons.total()} skipped, of which {count}: {reason}"


def _of_corpus(
    corpus: str, found: Sequence[Trajectory], rows: Sequence[Row]
) -> tuple[list[Trajectory], list[Row]]:
    kept = [place for place, x in enumerate(found) if x.corpus == corpus]
    return [found[x] for x in kept], [
        row._replace(
            scores=[row.scores[x] for x in kept],
            skipped=[row.skipped[x] for x in kept] if row.skipped else (),
        )
        for row in rows
    ]


def report(found: Sequence[Trajectory], rows: Sequence[Row]) -> None:
    """Print the table of one corpus."""
    passed = sum(x.passed for x in found)
    tasks = len({x.task for x in found})
    print(f"{found[0].corpus}: {len(found)} trajectories of {tasks} tasks, {passed} passed\n")
    head = ("accuracy", "kappa", "AUC", "precision", "recall")
    print(f"{'':32}{'n':>4}  " + "".join(f"{x:>20}" for x in head))
    for row in rows:
        kept = [(x, value) for x, value in zip(found, row.scores, strict=True) if value is not None]
        print(
            f"{row.name:32}{len(kept):>4}  "
            + "".join(f"{cell:>20}" for cell in _cells(kept, row.threshold))
        )
    for row in rows:
        if lacking := _lacking(row.skipped):
            print(f"\n{row.name}: {lacking}")
    print()


def _cells(kept: Sequence[tuple[Trajectory, float]], threshold: float | None) -> Iterator[str]:
    truth = [x.passed for x, _ in kept]
    values = [value for _, value in kept]
    tasks = [(x.corpus, x.task) for x, _ in kept]
    area = _printed(lambda: stats.auc(truth, values, clusters=tasks))
    if threshold is None:
        yield from ("-", "-", area, "-", "-")
        return
    verdicts = [reaches(value, threshold) for value in values]
    yield _printed(lambda: stats.agreement(truth, verdicts, clusters=tasks))
    yield _printed(lambda: stats.kappa(truth, verdicts, clusters=tasks))
    yield area
    yield _printed(lambda: stats.confusion(truth, verdicts).precision())
    yield _printed(lambda: stats.confusion(truth, verdicts).sensitivity())


def _printed(estimate: Callable[[], stats.Estimate]) -> str:
    try:
        found = estimate()
    except (stats.NotEstimableError, ValueError):
        return "-"
    interval = f" [{found.interval.low:.2f}, {found.interval.high:.2f}]" if found.interval else ""
    return f"{found.value:.2f}{interval}"


if __name__ == "__main__":
    main()
