"""`spanscore eval`: score the agent traces in files, for a person, for machines, or as a gate in CI."""

import argparse
import asyncio
import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from spanscore import config
from spanscore.cli import aggregates, answers, dry_run, recorded, score_blocks, unscored
from spanscore.cli.metrics import named, require_on_scale
from spanscore.cli.terminal import console, print_json, progress
from spanscore.config import Settings
from spanscore.embed import open_embedder
from spanscore.errors import InputError
from spanscore.evaluate import Engine, Overrides
from spanscore.evaluate.rubric import NAME as RUBRIC
from spanscore.evaluate.rubric import OVERALL, chosen, is_rubric
from spanscore.judge import answers_file, check_models, open_judge, redactor
from spanscore.judge.config import RULES
from spanscore.metrics import SIGNAL_WEIGHTS, Judged, SessionMetric, available
from spanscore.model.score import Evaluation, JudgeUsage, Skip, reaches
from spanscore.model.trace import AgentTrace, Session
from spanscore.offline import summary

_MAX_TRACES_AT_ONCE = 64
"""More would wait for the judge's own limit, each with its transcript in memory."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("path", metavar="PATH", nargs="+", type=Path, help=recorded.PATH_HELP)
    parser.add_argument("-c", "--config", metavar="FILE", type=Path, help="the configuration; without it, the defaults")
    parser.add_argument(
        "--metric",
        metavar="NAME",
        action="append",
        help="measure only this metric, such as coherence or rubric; may be given again",
    )
    parser.add_argument("--model", metavar="MODEL", help="the model that judges, in place of the configured one")
    parser.add_argument("--threshold", metavar="X", type=float, help="the score from which on the label is pass")
    parser.add_argument("--jsonl", action="store_true", help="print one JSON object a line for each score")
    parser.add_argument(
        "--dry-run", action="store_true", help="show what a judge would be asked and what it may cost; send nothing"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="with --dry-run: show the whole prompts")
    parser.add_argument(
        "--fail-under",
        metavar="METRIC=VALUE",
        action="append",
        default=[],
        help="exit 1 if the metric's mean is below VALUE, or nothing was scored; may be given again",
    )
    answers.add_arguments(parser)
    parser.add_argument("--fail-on", choices=["failed"], help="exit 1 if measuring failed for any score")


def run(args: argparse.Namespace) -> int:
    """Score every trace and session. Returns the exit code: 1 where a gate is not met."""
    settings = configured(args)
    if args.model == RULES:
        settings = settings.model_copy(update={"evaluation": settings.evaluation.with_checks()})
    gates = [_gate(text, settings) for text in args.fail_under]
    metrics = tuple(x for name in args.metric for x in _names(name, settings)) if args.metric else None
    if args.threshold is not None:
        require_on_scale(f"--threshold {args.threshold:g}", args.threshold, metrics)
    overrides = Overrides(metrics=metrics, model=args.model, threshold=args.threshold)
    traces = recorded.agent_traces(args.path, settings.assemble.session_scope)
    with_signals = _with_signals(overrides)
    _check_models(settings, with_signals)
    engine = _engine(settings)
    if args.dry_run:
        return dry_run.run(engine, settings, with_signals, traces, jsonl=args.jsonl, verbose=args.verbose)
    evaluations = asyncio.run(_evaluate(engine, overrides, traces))
    if args.jsonl:
        for evaluation in evaluations:
            print_json(evaluation.to_json())
    else:
        _print(settings, traces, evaluations)
    unscored.say(evaluations, but=None if args.jsonl else "no_judge")  # the table's last line is about that
    return _verdict(gates, evaluations, any_failed=args.fail_on == "failed")


def measured(
    settings: Settings, names: Sequence[str], args: argparse.Namespace, traces: Sequence[AgentTrace]
) -> list[Evaluation]:
    """The scores of `traces` by the metrics of these names. Raises InputError as `run`."""
    overrides = Overrides(tuple(x for name in names for x in _names(name, settings)), args.model, args.threshold)
    _check_models(settings, _with_signals(overrides))
    evaluations = asyncio.run(_evaluate(_engine(settings), overrides, traces))
    unscored.say(evaluations)
    return evaluations


def configured(args: argparse.Namespace) -> Settings:
    """The configuration, with a judge where `--model` asks for one and none is configured."""
    settings = config.load(args.config) if args.config else config.default()
    settings = settings.model_copy(update={"judge": settings.judge.or_model(args.model)})
    return answers.applied(settings, args)


def _check_models(settings: Settings, overrides: Overrides) -> None:
    """Refuse a model that litellm has no provider for before anything is measured. Raises ConfigError."""
    judged = [x for x in overrides.applied(settings.evaluation.build()) if isinstance(x, Judged)]
    models = {model for x in judged for model in ((x.model,) if x.model else settings.judge.models)}
    if rubric := overrides.rubric(settings.evaluation.rubric):
        models.update((rubric.model,) if rubric.model else settings.judge.models)
    models.update(settings.judge.first_asked)
    if asked := sorted(models - {RULES}):
        check_models(settings.judge, asked)


def _engine(settings: Settings) -> Engine:
    return Engine(
        settings.evaluation,
        open_judge(settings.judge, answers_file(settings.judge)),
        open_embedder(settings.embedding, redact=redactor(settings.judge)),
        judge_config=settings.judge,
        clock_ns=time.time_ns,
    )


def _names(name: str, settings: Settings) -> list[str]:
    """The metrics that a name of the command line stands for: `rubric` for all that the rubric scores."""
    if not is_rubric(name):
        return [named(name).name]
    rubric = chosen(settings.evaluation.rubric, [name])
    return [*(x.metric for x in rubric.criteria), OVERALL] if rubric and name == RUBRIC else [name]


def _gate(text: str, settings: Settings) -> tuple[str, float]:
    """The metric and the least mean of a `--fail-under`."""
    name, given, number = text.partition("=")
    how = "write METRIC=VALUE, such as {}=0.7"
    if not given:
        raise InputError(f"--fail-under {text}: {how.format(name if name in available() else 'confidence')}")
    [metric, *more] = _names(name, settings)
    if more:
        raise InputError(f"--fail-under {text}: name one score, such as {OVERALL}=75")
    try:
        least = float(number)
    except ValueError:
        least = math.nan
    if math.isnan(least):
        raise InputError(f"--fail-under {text}: {how.format(name)}")
    require_on_scale(f"--fail-under {text}", least, [name])
    return metric, least


async def _evaluate(engine: Engine, overrides: Overrides, traces: Sequence[AgentTrace]) -> list[Evaluation]:
    """The scores of all traces, in their order, then those of their sessions."""
    room = asyncio.Semaphore(_MAX_TRACES_AT_ONCE)
    with_signals = _with_signals(overrides)
    earlier = recorded.turns_before(traces)

    async def one(trace: AgentTrace, done: Callable[[], object]) -> list[Evaluation]:
        async with room:
            found = await engine.evaluate_trace(trace, with_signals, earlier=earlier.get(trace.id, ()))
        done()
        return found

    with progress("scoring", len(traces)) as done:
        of_traces = await asyncio.gather(*(one(trace, done) for trace in traces))
    signals = {
        trace.id: {evaluation.metric: evaluation for evaluation in found}
        for trace, found in zip(traces, of_traces, strict=True)
    }

    async def whole(session: Session) -> list[Evaluation]:
        async with room:
            return await engine.evaluate_session(session, signals, overrides)

    of_sessions = await asyncio.gather(*map(whole, recorded.sessions(traces)))
    wanted = overrides.metrics
    return [x for found in (*of_traces, *of_sessions) for x in found if wanted is None or x.metric in wanted]


def _with_signals(overrides: Overrides) -> Overrides:
    """`overrides` with the trace metrics that a session metric among the wanted ones rests on."""
    names = [name for name in overrides.metrics or () if not is_rubric(name)]
    if not any(issubclass(named(name), SessionMetric) for name in names):
        return overrides
    return replace(overrides, metrics=tuple(dict.fromkeys((*(overrides.metrics or ()), *SIGNAL_WEIGHTS))))


def _print(settings: Settings, traces: Sequence[AgentTrace], evaluations: Sequence[Evaluation]) -> None:
    rows: defaultdict[tuple[str, str], list[score_blocks.Row]] = defaultdict(list)
    for evaluation in evaluations:
        if not unscored.is_not_set_up(evaluation):
            rows[evaluation.scope, evaluation.subject_id].append(score_blocks.Row.of(evaluation))
    output = console()
    for trace in traces:
        if of_trace := rows["trace", trace.id]:
            score_blocks.print_block(output, f"trace {trace.trace_ids[0]}", trace.user_input, of_trace)
    for session in recorded.sessions(traces):
        if of_session := rows["session", session.session_id]:
            held = "1 trace" if len(session.traces) == 1 else f"{len(session.traces)} traces"
            score_blocks.print_block(output, f"session {session.session_id}", held, of_session)
    aggregates.print_means(output, evaluations)
    for line in aggregates.corrections(settings, evaluations):
        output.print(line)
    output.print(f"\n{judges(evaluations)}")


def judges(evaluations: Sequence[Evaluation]) -> str:
    """Who judged, and at what cost."""
    usage = sum((x.usage for x in evaluations), JudgeUsage())
    models = ", ".join(sorted({x.evaluator.model for x in evaluations if x.evaluator.model}))
    if models or usage.calls:
        cost = "at a price that is not known" if usage.cost_usd is None else f"for {usage.cost_usd:.4f} USD"
        asked = f"{usage.calls:,} calls, {usage.cached:,} from the cache"
        tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
        if not (models or usage.input_tokens or usage.output_tokens):
            return f"No model gave an answer: {usage.calls:,} {'call' if usage.calls == 1 else 'calls'} in vain."
        return f"Judged by {models or 'a model'}: {asked}; {tokens}; {cost}."
    unjudged = {x.metric for x in evaluations if isinstance(x.outcome, Skip) and x.outcome.cause == "no_judge"}
    if unjudged:
        return (
            f"No model judges, so {', '.join(sorted(unjudged))} {'is' if len(unjudged) == 1 else 'are'} skipped; "
            "--model, judge.model or SPANSCORE_JUDGE_MODEL names one."
        )
    return "No judge was asked."


def _verdict(gates: Sequence[tuple[str, float]], evaluations: Sequence[Evaluation], *, any_failed: bool) -> int:
    """The exit code; what is not met is said on standard error."""
    unmet = []
    for name, least in gates:
        mean = summary.mean([x for x in evaluations if x.metric == name])
        if mean is None:
            unmet.append(f"{name} has no score to hold against {least:g}")
        elif not reaches(mean.value, least):
            limits = aggregates.told(mean)[1]
            unmet.append(f"the mean of {name} is {mean.value:.4f} {limits}, n = {mean.n}, below {least:g}")
    failed = sum(x.status == "failed" for x in evaluations)
    if any_failed and failed:
        unmet.append(f"measuring failed {failed} times")
    for text in unmet:
        print(f"spanscore: {text}", file=sys.stderr)
    return 1 if unmet or unscored.no_score(evaluations) else 0
