"""`spanscore eval`: score the agent traces in files."""

import argparse
import asyncio
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from spanscore import sources
from spanscore.cli import measurement, score_summary, stored, terminal, trace_files
from spanscore.cli.measurement import INTERRUPTED, Display, ScoreFile, Shown, stop_on_interrupt
from spanscore.cli.options import PLACE, add_judge, argument
from spanscore.cli.terminal import (
    Output,
    console,
    on_one_line,
    plain_table,
    print_json,
    printable,
    progress,
)
from spanscore.config import Settings, available_cpus
from spanscore.errors import InputError
from spanscore.evaluation import Engine, Overrides, PlannedCall
from spanscore.evaluation.inquiry import costed
from spanscore.evaluation.rubric import OVERALL, require_on_scale
from spanscore.judge import Config, Estimate, Prompt
from spanscore.metrics import available
from spanscore.model.json import dumps
from spanscore.model.score import reaches
from spanscore.model.trace import AgentTrace
from spanscore.offline import (
    OfflineScoring,
    Scored,
    measurable,
    metric_names,
)
from spanscore.offline.recordings import Recordings
from spanscore.offline.selection import open_engine, require_providers, uses_models
from spanscore.offline.summary import RunSummary
from spanscore.offline.workers import ScoringInWorkers, Setup
from spanscore.worker_processes import MAX_WORKERS, WorkerPool

TAKES = (*PLACE, "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    argument(parser, "path PATH", trace_files.PLACE_HELP, type=sources.place, nargs="*")
    stored.add_arguments(parser)
    add_judge(parser)
    argument(parser, "--metric NAME", "measure only this, such as rubric", repeated=True)
    argument(parser, "--threshold X", "the score from which on the label is pass")
    argument(parser, "--failing", "show only what does not pass or was not measured")
    argument(parser, "--output FILE", "also write each score there as JSON, as it is made")
    argument(parser, "--dry-run", "show what a judge would be asked and its cost; send nothing")
    argument(parser, "-v/--verbose", "say what backends are asked, and show whole prompts")
    argument(parser, "--fail-under METRIC=VALUE", "exit 1 if its mean is below that", repeated=True)
    workers = min(available_cpus(), MAX_WORKERS)
    text = "processes that read and score large files; default: one for each core"
    argument(parser, "--workers N", text, type=_workers, default=workers)
    argument(parser, "--fail-on", "exit 1 if measuring failed for any score", choices=["failed"])


def run(args: argparse.Namespace) -> int:
    """Score every trace and session.

    Returns the exit code: 1 where a gate is not met, 130 where Ctrl-C ended it; what was scored by
    then is printed.
    """
    if args.verbose:
        trace_files.print_requests()
    stored.check(args)
    settings = configured(args)
    gates = [_gate(text, settings) for text in args.fail_under]
    wanted = _wanted(args.metric, args, settings)
    if args.threshold is not None:
        require_on_scale("--threshold", args.threshold, wanted.metrics)
    require_providers(settings, measurable(wanted, settings.evaluation))
    terminal.require_writable(args.output)
    if args.dry_run:
        traces = _traces(args, settings)
        engine = open_engine(settings)
        return print_plan(
            engine,
            settings,
            measurable(wanted, settings.evaluation),
            traces,
            jsonl=args.json,
            verbose=args.verbose,
        )
    summary, is_stopped = asyncio.run(_stream(args, settings, wanted))
    if is_stopped:
        print("spanscore: interrupted: these are the scores that were finished", file=sys.stderr)
    # the table's last line is about that
    score_summary.print_unscored(summary.outcomes, but=None if args.json else "no_judge")
    verdict = _verdict(gates, summary, settings, any_failed=args.fail_on == "failed")
    return INTERRUPTED if is_stopped else verdict


def _traces(args: argparse.Namespace, settings: Settings) -> list[AgentTrace]:
    if not args.path:
        return stored.read(args).traces
    return trace_files.agent_traces(args.path, settings)


def _workers(text: str) -> int:
    """The number of processes that `--workers` asks for."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes; write 1 or more")
    if int(text) > MAX_WORKERS:
        raise argparse.ArgumentTypeError(
            f"{text} is too many processes; write {MAX_WORKERS} or less"
        )
    return int(text)


def _pool(workers: int) -> AbstractContextManager[WorkerPool | None]:
    """The worker processes, which start when there is something to do for them; None: this process
    does it all.
    """
    return nullcontext() if workers == 1 else WorkerPool(workers)


def configured(args: argparse.Namespace) -> Settings:
    """The configuration, with a judge where `--model` asks for one and none is configured."""
    settings = measurement.configured(args)
    return settings.model_copy(update={"judge": settings.judge.or_model(args.model)})


def _wanted(names: Sequence[str] | None, args: argparse.Namespace, settings: Settings) -> Overrides:
    metrics = (
        None if not names else tuple(x for name in names for x in metric_names(name, settings))
    )
    return Overrides(metrics, args.model, args.threshold)


async def _stream(
    args: argparse.Namespace, settings: Settings, wanted: Overrides
) -> tuple[RunSummary, bool]:
    """Print scores as they are made, and then their summary.

    Returns the summary, and whether Ctrl-C ended the run.
    """
    summary = RunSummary()
    engine = open_engine(settings)
    with (
        ScoreFile(args.output) as file,
        Display(jsonl=args.json, only_failing=args.failing) as display,
        _pool(args.workers) as pool,
    ):
        recordings = _recordings(args, settings, pool, display)
        workers = (
            None
            if pool is None or not recordings.are_large
            else _workers_of(args, settings, wanted, pool, display)
        )
        scoring = OfflineScoring(engine, wanted, workers)
        stop_on_interrupt(recordings.stop, scoring.stop)
        async for found in scoring.run(recordings.batches(), recordings.given.of):
            _print(_with_external(found, recordings), file, display)
            summary.add(found.evaluations)
        if not scoring.is_stopped:
            file.write(recordings.given.not_shown)
            display.print_given(recordings.given.not_shown)
    if not args.json:
        score_summary.print_summary(display.output, settings, summary)
    return summary, scoring.is_stopped


def _recordings(
    args: argparse.Namespace, settings: Settings, pool: WorkerPool | None, display: Display
) -> Recordings:
    if not args.path:
        found = stored.read(args)
        given = [x for x in found.scores if x.evaluator.source is not None]
        return Recordings.of_traces(found.traces, given)
    return trace_files.recordings(
        args.path, settings, warn=display.print_line, progress=display.read, pool=pool
    )


def _workers_of(
    args: argparse.Namespace,
    settings: Settings,
    wanted: Overrides,
    pool: WorkerPool,
    display: Display,
) -> ScoringInWorkers | None:
    """What scores in worker processes; None where a model has a part in the scores, or a terminal
    shows them.
    """
    show = display.showing(to_file=args.output is not None)
    if show is None or uses_models(settings, wanted):
        return None
    folder = args.config.parent if args.config else Path()
    return ScoringInWorkers(pool, Setup(settings, folder.absolute(), wanted, show))


def _print(found: Scored, file: ScoreFile, display: Display) -> None:
    if isinstance(found.shown, Shown):
        file.write_lines(found.shown.lines)
    else:
        file.write(found.evaluations)
    display.print(found)


def _with_external(found: Scored, recordings: Recordings) -> Scored:
    """With what others gave, which is shown and counts in no mean and no gate."""
    external = recordings.given.show(found.subject)
    return Scored(found.subject, [*found.evaluations, *external]) if external else found


def _gate(text: str, settings: Settings) -> tuple[str, float]:
    """The metric and the least mean of a `--fail-under`."""
    name, given, number = text.partition("=")
    how = "write METRIC=VALUE, such as {}=0.7"
    if not given:
        raise InputError(
            f"--fail-under {text}: {how.format(name if name in available() else 'confidence')}"
        )
    [metric, *more] = metric_names(name, settings)
    if more:
        raise InputError(f"--fail-under {text}: name one score, such as {OVERALL}=75")
    try:
        least = float(number)
    except ValueError:
        least = math.nan
    if math.isnan(least):
        raise InputError(f"--fail-under {text}: {how.format(name)}")
    require_on_scale("--fail-under", least, [name])
    return metric, least


def _verdict(
    gates: Sequence[tuple[str, float]], summary: RunSummary, settings: Settings, *, any_failed: bool
) -> int:
    """The exit code; what is not met is printed on standard error."""
    unmet = []
    for name, least in gates:
        mean = summary.mean(name)
        if mean is None:
            unmet.append(f"{name} has no score to hold against {least:g}")
        elif not reaches(mean.value, least):
            limits = score_summary.as_texts(mean)[1]
            note = f" ({printable(mean.note)})" if mean.note else ""
            unmet.append(
                f"the mean of {name} is {mean.value:.4f} {limits}, n = {mean.n}{note}, below"
                f" {least:g}"
            )
    failed = sum(counts.failed for counts in summary.counts.values())
    if any_failed and failed:
        unmet.append(f"measuring failed {failed} times")
    held = {name for name, _ in gates}
    gated = [x.evaluation for x in summary.outcomes if x.evaluation.metric in held]
    are_met = score_summary.are_met(unmet, score_summary.uncertified(settings, gated), settings)
    return 0 if are_met and not score_summary.no_score(summary.outcomes) else 1


_MAX_ROWS = 60
"""With more calls than that, a row stands for all that ask the same about different traces."""


class _Call(NamedTuple):
    """A planned call with the model that would get it and its size; tokens and cost are upper
    bounds.

    `session_id` is set where a whole session is judged; `trace_id` is then that of its last trace.
    """

    trace_id: str
    session_id: str | None
    rule: str | None
    planned: PlannedCall
    model: str
    prompt: Prompt
    estimate: Estimate

    @property
    def subject(self) -> str:
        """What is judged, in few letters."""
        return self.trace_id[:8] if self.session_id is None else on_one_line(self.session_id, 24)

    def to_json(self, *, with_prompt: bool) -> dict[str, Any]:
        prompt = _sent(self.prompt)
        schema = self.planned.schema.model_json_schema()
        return {
            "trace_id": self.trace_id,
            "session_id": self.session_id,
            "rule": self.rule,
            "metrics": list(self.planned.metrics),
            "stage": self.planned.stage,
            "model": self.model,
            "placeholders": bool(self.planned.placeholders),
            "max_input_tokens": self.estimate.input_tokens,
            "max_output_tokens": self.estimate.max_output_tokens,
            "max_cost_usd": self.estimate.cost_usd,
            **({"prompt": prompt, "schema": schema} if with_prompt else {}),
        }


def print_plan(
    engine: Engine,
    settings: Settings,
    overrides: Overrides,
    traces: Sequence[AgentTrace],
    *,
    jsonl: bool,
    verbose: bool,
) -> int:
    """Print the calls that a judge would get. Returns the exit code."""
    calls = _planned(engine, settings, overrides, traces)
    if jsonl:
        for call in calls:
            print_json(call.to_json(with_prompt=verbose))
        return 0
    output = console()
    if verbose:
        for number, call in enumerate(calls, start=1):
            _print_prompt(output, number, call)
    if calls:
        _print_calls(output, calls)
    if settings.evaluation.rules:
        _print_rules(output, engine, settings, traces)
    output.print(_summary(calls) if calls else _nothing(settings))
    if settings.embedding.chosen == "litellm":
        output.print(
            "An embedding provider would be sent inputs and outputs besides; see embedding.model."
        )
    return 0


def _print_rules(
    output: Output, engine: Engine, settings: Settings, traces: Sequence[AgentTrace]
) -> None:
    """Which rule takes how many traces."""
    taken = Counter(engine.rules.decide(trace).rule for trace in traces)
    names = [*(x.name for x in settings.evaluation.rules), None]
    shown = ", ".join(f"{'no rule' if x is None else x} {taken[x]:,}" for x in names)
    output.print(f"Traces by the rule that takes them: {shown}.")


def _planned(
    engine: Engine, settings: Settings, overrides: Overrides, traces: Sequence[AgentTrace]
) -> list[_Call]:
    """The calls for each trace, then those for each session."""
    found: list[_Call] = []
    judges: dict[str | None, Config] = {
        x.name: settings.judge_of(x) for x in settings.evaluation.rules
    }
    judges[None] = settings.judge
    before = trace_files.turns_before(traces)

    def add(calls: Sequence[PlannedCall], last: AgentTrace, rule: str | None, *of: str) -> None:
        session = of[0] if of else None
        for x in costed(calls, judges[rule]):
            facts = (last.trace_ids[0], session, rule)
            found.append(_Call(*facts, x.planned, x.model, x.prompt, x.estimate))

    with progress("planning", len(traces)) as done:
        for trace in traces:
            planned = engine.plan(trace, overrides, earlier=before.get(trace.id, ()))
            add(planned, trace, engine.rules.decide(trace).rule)
            done()
    for session in trace_files.sessions(traces):
        rule = engine.rules.decide_session(session.traces).rule
        add(engine.plan(session, overrides), session.traces[-1], rule, session.session_id)
    return found


def _sent(prompt: Prompt) -> dict[str, str]:
    """The parts of a prompt that are sent, by name."""
    return {name: getattr(prompt, name) for name in ("instructions", "transcript", "question")}


def _print_prompt(output: Output, number: int, call: _Call) -> None:
    output.print(
        f"Call {number}: {', '.join(call.planned.metrics)}, stage {call.planned.stage}",
        style="bold",
    )
    parts = {name: printable(text) for name, text in _sent(call.prompt).items()}
    parts["schema of the answer"] = dumps(call.planned.schema.model_json_schema())
    for name, text in parts.items():
        output.print(f"[{name}]", style="dim")
        output.print(text, end="\n\n", soft_wrap=True)


def _print_calls(output: Output, calls: Sequence[_Call]) -> None:
    models = dict.fromkeys(call.model for call in calls)
    for model in models:
        if len(models) > 1:
            output.print(on_one_line(model, 80), style="bold")
        own = [call for call in calls if call.model == model]
        if len(calls) <= _MAX_ROWS:
            _print_table(output, "trace", [(call.subject, [call]) for call in own])
        else:
            _print_table(output, "calls", _alike(own))
        output.print()


def _print_table(output: Output, first: str, rows: Iterable[tuple[str, Sequence[_Call]]]) -> None:
    """Print calls of one model; each row has what stands under the heading `first`, and the calls
    it adds up.
    """
    figures = (*(() if first == "trace" else (first,)), "stage", "tokens in", "out", "USD")
    columns = (first, "stage", "metrics", "tokens in", "out", "USD")
    table = plain_table(columns, figures, wrapped={"metrics"})
    for which, group in rows:
        cost = _cost(group)
        at_most = "<" if group[0].planned.placeholders else ""
        table.add_row(
            which,
            str(group[0].planned.stage),
            ", ".join(group[0].planned.metrics),
            f"{at_most}{sum(call.estimate.input_tokens for call in group):,}",
            f"<{sum(call.estimate.max_output_tokens for call in group):,}",
            "?" if cost is None else f"<{cost:.4f}",
        )
    output.print(table)


def _alike(calls: Sequence[_Call]) -> list[tuple[str, list[_Call]]]:
    """The calls of one model that ask the same about different traces, with their number."""
    groups: defaultdict[object, list[_Call]] = defaultdict(list)
    for call in calls:
        groups[call.planned.stage, call.planned.metrics].append(call)
    return [(f"{len(group):,}", group) for group in groups.values()]


def _cost(calls: Sequence[_Call]) -> float | None:
    """What the calls cost at most, in USD; None where one has no known price."""
    costs = [call.estimate.cost_usd for call in calls if call.estimate.cost_usd is not None]
    return sum(costs) if len(costs) == len(calls) else None


def _nothing(settings: Settings) -> str:
    """Why there is no call."""
    unjudged = not any(x.models for x in settings.judges)
    why = (
        "no model is configured; --model or judge.model names one"
        if unjudged
        else "nothing is left to judge"
    )
    return f"No judge would be asked: {why}. Nothing was sent."


def _summary(calls: Sequence[_Call]) -> str:
    tokens_in = sum(call.estimate.input_tokens for call in calls)
    tokens_out = sum(call.estimate.max_output_tokens for call in calls)
    models = ", ".join(sorted({on_one_line(call.model, 80) for call in calls}))
    cost = _cost(calls)
    price = "at a price that is not known for all" if cost is None else f"at most {cost:.4f} USD"
    each = "" if len(calls) <= _MAX_ROWS else " --jsonl lists each call."
    return (
        f"{len(calls):,} call{'s' if len(calls) > 1 else ''} of {models}, at most {tokens_in:,}"
        f" tokens in and {tokens_out:,} out, {price}. A later stage quotes the answers before it,"
        " and is counted with the longest that there can be. Retries and repairs come on"
        f" top.{each} Nothing was sent."
    )
