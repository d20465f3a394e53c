"""How far the metrics agree with the labels of public benchmarks: the judged ones, beside two other
kinds of prompt, or those that need no judge.

    python bench/agreement.py        # replays bench/recorded/answers.jsonl: no key, nothing is sent
    python bench/agreement.py --model gpt-4o-mini    # has a model judge all that is in the files
    python bench/agreement.py --model gpt-4o-mini --record answers.jsonl results.json
    python bench/agreement.py --without-judge --embedding '{"provider": "ngrams"}' results.json

FILE is a file of labelled trajectories as bench/trajectories.py reads them; without one, those in
bench/recorded. Each row holds a score against the benchmark's label: accuracy, Cohen's kappa,
precision and recall of the label that the metric's threshold gives, and the area under the ROC
curve of the score itself, each with its 95 % interval in which the runs of one task are a cluster.

What is asked, unless --metric names it: of a run of one turn the metrics of a turn; of a longer one
those of a session, and of the first 15 of these in each file also the metrics of a turn, about the
last turn that called a tool and was answered. With --metric or --without-judge a metric of a turn
is averaged over all turns of a run. With --without-judge the metrics are those of arithmetic and
embeddings, and a session's score rests on the signals of those. Below the table is what each row
rests on, and why a metric gave a run no score. bench/by_hand.py says how answers are recorded by
hand.
"""

import argparse
import asyncio
import datetime as dt
import sys
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import trajectories
from baselines import BASELINES, Baseline, score
from by_hand import JudgeByHand
from trajectories import Trajectory

from spanscore import embed, metrics, stats
from spanscore.errors import JudgeError, SpanscoreError
from spanscore.evaluation import Config, Engine, Overrides
from spanscore.evaluation.rubric import Config as Rubric
from spanscore.judge import Config as JudgeConfig, Judge, open_judge
from spanscore.judge.cache import RecordedJudge, RecordingJudge, load
from spanscore.model.json import loads
from spanscore.model.score import Evaluation, reaches

T = TypeVar("T")

_RECORDED = Path(__file__).with_name("recorded")
_AT_ONCE = 8
_OF_SESSION = ("conversation_completion", "rubric")
_OF_TURN = (
    "argument_correctness",
    "confidence",
    "plan_adherence",
    "plan_quality",
    "step_efficiency",
    "task_completion",
    "tool_correctness",
)
_MOST_LAST_TURNS = 15
_WITHOUT_JUDGE = ("loop_detection", "coherence", "agent_reliability", "agent_consistency")
_RUBRIC = Rubric(
    metrics=[{"metric": name, "weight": x.weight or 0.1} for name, x in Rubric().known().items()]
)
"""All criteria, task completion as well."""
_BASELINE_THRESHOLD = 0.5


class Asked(NamedTuple):
    """What is asked of one trajectory: metrics of a session, and of a turn about some turns."""

    of_session: Sequence[str]
    of_turn: Sequence[str]
    turns: Sequence[int]
    basis: str
    """Which turns, in words."""


class Row(NamedTuple):
    """One way of scoring, and what it gave each trajectory: None where it gave no score.

    Scores without a `threshold` have no label.
    """

    name: str
    threshold: float | None
    scores: Sequence[float | None]
    lacking: Sequence[Sequence[str]]
    """Of each trajectory, why there is no score of it or of turns of it."""

    basis: Sequence[str]
    """Of each trajectory, what the score rests on; "" where it was not asked."""


def main() -> None:
    args = _arguments()
    files = args.file or sorted(_RECORDED.glob("*.json*.gz"))
    try:
        found = [x for path in files for x in trajectories.read(path)]
        embedder = embed.open_embedder(embed.Config.model_validate(loads(args.embedding)))
        judge = None if args.without_judge else _judge(args)
        recording = None if judge is None else RecordingJudge(judge)
        rows = asyncio.run(measured(found, _asked(found, args), recording, embedder))
    except (OSError, SpanscoreError, ValueError) as error:
        sys.exit(f"agreement: {error}")
    today = dt.datetime.now(dt.UTC).date().isoformat()
    given = None if recording is None else recording.recording(today)
    for corpus in dict.fromkeys(x.corpus for x in found):
        report(*_of_corpus(corpus, found, rows), judges=given.model if given else "")
    if given and args.record:
        given.write(args.record)
        print(f"\n{len(given.answers)} answers are in {args.record}")
    if given and args.answers:
        before = load(args.recorded)
        replace(given, answers={**before.answers, **given.answers}).write(args.recorded)
    if isinstance(judge, JudgeByHand) and args.questions:
        print(f"\n{judge.write_questions(args.questions)} questions are in {args.questions}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="*", type=Path, help="labelled trajectories")
    parser.add_argument(
        "--model", help="the model that judges, or gave --answers; without it, the recorded answers"
    )
    parser.add_argument(
        "--recorded", type=Path, default=_RECORDED / "answers.jsonl", help="the recorded answers"
    )
    parser.add_argument("--record", type=Path, help="keep the answers, and no others, in this file")
    parser.add_argument("--questions", type=Path, help="write what has no recorded answer here")
    parser.add_argument(
        "--answers", type=Path, help="take the answers of --model in this folder into the recorded"
    )
    parser.add_argument(
        "--without-judge", action="store_true", help="measure what needs no model that judges"
    )
    parser.add_argument("--embedding", default="{}", help="the section of the configuration")
    parser.add_argument("--metric", action="append", help="measure this metric; may be given again")
    args = parser.parse_args()
    if args.without_judge and (args.model or args.record or args.questions or args.answers):
        parser.error("--without-judge asks no model and records nothing")
    if args.answers and not args.model:
        parser.error("--answers needs the --model that gave them")
    return args


def _judge(args: argparse.Namespace) -> Judge:
    if args.answers or args.questions:
        return JudgeByHand(RecordedJudge(args.recorded), args.answers, args.model or "")
    if args.model is None:
        return RecordedJudge(args.recorded)
    judge = open_judge(JudgeConfig(model=args.model))
    if judge is None:
        raise SpanscoreError(f"{args.model} is no model that can be asked")
    return judge


def _asked(found: Sequence[Trajectory], args: argparse.Namespace) -> list[Asked]:
    """What is asked of each trajectory."""
    names = args.metric or (_WITHOUT_JUDGE if args.without_judge else None)
    if names is not None:
        known = metrics.available()
        of_turn = [x for x in names if x in known and known[x].run == "trace"]
        of_session = [x for x in names if x not in of_turn]
        return [
            Asked(of_session, of_turn, range(len(x.session.traces)), "each turn") for x in found
        ]
    asked = []
    room = Counter({x.corpus: _MOST_LAST_TURNS for x in found})
    for trajectory in found:
        traces = trajectory.session.traces
        if len(traces) == 1:
            asked.append(Asked((), _OF_TURN, (0,), "the one turn of the run"))
            continue
        acted = [place for place, x in enumerate(traces) if x.tool_calls and x.final_output]
        turns = acted[-1:] if room[trajectory.corpus] > 0 else []
        room[trajectory.corpus] -= len(turns)
        asked.append(Asked(_OF_SESSION, _OF_TURN, turns, "the last turn with tool calls"))
    return asked


async def measured(
    found: Sequence[Trajectory],
    asked: Sequence[Asked],
    judge: Judge | None,
    embedder: embed.Embedder | None = None,
) -> list[Row]:
    """A row for each metric, then, where there is a judge, one for each baseline."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def each(one: Callable[[Trajectory, Asked], Awaitable[T]]) -> list[T]:
        async def bounded(trajectory: Trajectory, what: Asked) -> T:
            async with room:
                return await one(trajectory, what)

        return await asyncio.gather(*map(bounded, found, asked))

    engine = Engine(Config(rubric=_RUBRIC), judge, embedder)
    evaluations = await each(lambda x, what: _evaluations(engine, what, x))
    rows = []
    for name in dict.fromkeys(x.metric for of_one in evaluations for x in of_one):
        own = [[x for x in of_one if x.metric == name] for of_one in evaluations]
        threshold = next((x.threshold for of_one in own for x in of_one if x.threshold), None)
        lacking = [[x.reason or "" for x in of_one if x.value is None] for of_one in own]
        basis = [
            (what.basis if name in what.of_turn else "the whole run") if of_one else ""
            for of_one, what in zip(own, asked, strict=True)
        ]
        rows.append(Row(name, threshold, [_mean(x) for x in own], lacking, basis))
    for baseline in BASELINES if judge else ():
        given = await each(lambda x, _, baseline=baseline: _by_baseline(baseline, x, judge))
        scores, lacking = zip(*given, strict=True)
        basis = ["the whole run"] * len(found)
        rows.append(Row(baseline.name, _BASELINE_THRESHOLD, scores, lacking, basis))
    return rows


async def _evaluations(engine: Engine, asked: Asked, trajectory: Trajectory) -> list[Evaluation]:
    """What the metrics gave a conversation and, where a metric is of a turn, its turns."""
    session = trajectory.session
    found: list[Evaluation] = []
    for place in asked.turns if asked.of_turn else ():
        overrides = Overrides(metrics=tuple(asked.of_turn))
        found += await engine.evaluate_trace(
            session.traces[place], overrides, earlier=session.traces[:place]
        )
    if asked.of_session:
        overrides = Overrides(metrics=tuple(asked.of_session))
        found += await engine.evaluate_session(session, {}, overrides)
    return found


async def _by_baseline(
    baseline: Baseline, trajectory: Trajectory, judge: Judge
) -> tuple[float | None, Sequence[str]]:
    """The score, or why there is none."""
    try:
        return await score(baseline, trajectory.session, judge), ()
    except JudgeError as error:
        return None, (str(error),)


def _mean(evaluations: Iterable[Evaluation]) -> float | None:
    values = [x.value for x in evaluations if x.value is not None]
    return sum(values) / len(values) if values else None


def _lacking(row: Row) -> str:
    """How many scores are missing, and why the most of them; "" where none is."""
    reasons = Counter(reason for of_one in row.lacking for reason in of_one)
    if not reasons:
        return ""
    [(reason, count)] = reasons.most_common(1)
    return f"{reasons.total()} without a score, of which {count}: {reason}"


def _basis(row: Row) -> str:
    """What the scores rest on."""
    counts = Counter(x for x in row.basis if x)
    return ", ".join(f"{basis}, of {count} runs" for basis, count in counts.items())


def _of_corpus(
    corpus: str, found: Sequence[Trajectory], rows: Sequence[Row]
) -> tuple[list[Trajectory], list[Row]]:
    """The trajectories of a corpus, and the rows of what was asked of them."""
    kept = [place for place, x in enumerate(found) if x.corpus == corpus]
    of_corpus = [
        row._replace(
            scores=[row.scores[x] for x in kept],
            lacking=[row.lacking[x] for x in kept],
            basis=[row.basis[x] for x in kept],
        )
        for row in rows
    ]
    return [found[x] for x in kept], [x for x in of_corpus if any(x.basis)]


def report(found: Sequence[Trajectory], rows: Sequence[Row], judges: str = "") -> None:
    """Print the table of one corpus; `judges` are the models that answered."""
    passed = sum(x.passed for x in found)
    tasks = len({x.task for x in found})
    by = f"; judged by {judges}" if judges else ""
    print(f"{found[0].corpus}: {len(found)} trajectories of {tasks} tasks, {passed} passed{by}\n")
    head = ("accuracy", "kappa", "AUC", "precision", "recall")
    print(f"{'':32}{'n':>4}  " + "".join(f"{x:>20}" for x in head))
    for row in rows:
        kept = [(x, value) for x, value in zip(found, row.scores, strict=True) if value is not None]
        print(
            f"{row.name:32}{len(kept):>4}  "
            + "".join(f"{cell:>20}" for cell in _cells(kept, row.threshold))
        )
    for noted in (_basis, _lacking):
        names = defaultdict(list)
        for row in rows:
            names[noted(row)].append(row.name)
        for note, of_rows in names.items():
            if note:
                print(f"\n{', '.join(of_rows)}: {note}")
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
