"""`spanscore eval`: score the agent traces in files."""

import argparse
import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spanscore import sources
from spanscore.cli import measurement, score_summary, stored, terminal, trace_files
from spanscore.cli.measurement import INTERRUPTED, Display, ScoreFile, Shown, stop_on_interrupt
from spanscore.cli.options import PLACE, add_judge, argument
from spanscore.cli.terminal import Output, console, counted, on_one_line, print_json, printable
from spanscore.config import Settings, available_cpus
from spanscore.errors import InputError
from spanscore.evaluation import Engine, Overrides, PlannedCall
from spanscore.evaluation.inquiry import CostedCall, costed
from spanscore.evaluation.rubric import OVERALL, require_on_scale
from spanscore.judge import Config, Prompt
from spanscore.metrics import available
from spanscore.model.json import dumps
from spanscore.model.score import reaches
from spanscore.model.trace import AgentTrace
from spanscore.offline import OfflineScoring, Scored, measurable, metric_names
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
    settings = measurement.configured(args)
    gates = [_gate(text, settings) for text in args.fail_under]
    names = tuple(x for name in args.metric for x in metric_names(name, settings))
    wanted = Overrides(names or None, args.model, args.threshold)
    if args.threshold is not None:
        require_on_scale("--threshold", args.threshold, wanted.metrics)
    require_providers(settings, measurable(wanted, settings.evaluation))
    terminal.require_writable(args.output)
    if args.dry_run:
        _print_plan(args, settings, measurable(wanted, settings.evaluation))
        return 0
    summary, is_stopped = asyncio.run(_stream(args, settings, wanted))
    if is_stopped:
        terminal.say("interrupted: these are the scores that were finished")
    # the table's last line is about that
    score_summary.print_unscored(summary.outcomes, but=None if args.json else "no_judge")
    verdict = _verdict(gates, summary, settings, any_failed=args.fail_on == "failed")
    return INTERRUPTED if is_stopped else verdict


def _workers(text: str) -> int:
    """The number of processes that `--workers` asks for."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes; write 1 or more")
    if int(text) > MAX_WORKERS:
        problem = f"{text} is too many processes; write {MAX_WORKERS} or less"
        raise argparse.ArgumentTypeError(problem)
    return int(text)


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
        nullcontext() if args.workers == 1 else WorkerPool(args.workers) as pool,
    ):
        recordings = _recordings(args, settings, pool, display)
        workers = None
        if pool is not None and recordings.are_large:
            workers = _workers_of(args, settings, wanted, pool, display)
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
    how = {"warn": display.print_line, "progress": display.read, "pool": pool}
    return trace_files.recordings(args.path, settings, **how)


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
        example = name if name in available() else "confidence"
        raise InputError(f"--fail-under {text}: {how.format(example)}")
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
            limits = score_summary.with_interval(mean).partition(" ")[2]
            note = f" ({printable(mean.note)})" if mean.note else ""
            figures = f"{mean.value:.4f} {limits}, n = {mean.n}{note}"
            unmet.append(f"the mean of {name} is {figures}, below {least:g}")
    failed = sum(counts.failed for counts in summary.counts.values())
    if any_failed and failed:
        unmet.append(f"measuring failed {failed} times")
    held = {name for name, _ in gates}
    gated = [x.evaluation for x in summary.outcomes if x.evaluation.metric in held]
    are_met = score_summary.are_met(unmet, score_summary.uncertified(settings, gated), settings)
    return 0 if are_met and not score_summary.no_score(summary.outcomes) else 1


_MAX_ROWS = 60
"""With more calls than that, a row stands for all that ask the same about different traces."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that would be made; its tokens and cost are upper bounds.

    `session_id` is set where a whole session is judged; `trace_id` is then that of its last trace.
    """

    trace_id: str
    session_id: str | None
    rule: str | None
    of: CostedCall

    @property
    def subject(self) -> str:
        """What is judged, in few letters."""
        return self.trace_id[:8] if self.session_id is None else on_one_line(self.session_id, 24)

    def to_json(self, *, with_prompt: bool) -> dict[str, Any]:
        """As `--json` has it."""
        planned, estimate = self.of.planned, self.of.estimate
        whole = {"prompt": _sent(self.of.prompt), "schema": planned.schema.model_json_schema()}
        return {
            "trace_id": self.trace_id,
            "session_id": self.session_id,
            "rule": self.rule,
            "metrics": list(planned.metrics),
            "stage": planned.stage,
            "model": self.of.model,
            "placeholders": bool(planned.placeholders),
            "max_input_tokens": estimate.input_tokens,
            "max_output_tokens": estimate.max_output_tokens,
            "max_cost_usd": estimate.cost_usd,
            **(whole if with_prompt else {}),
        }


def _print_plan(args: argparse.Namespace, settings: Settings, overrides: Overrides) -> None:
    """Print the calls that a judge would get."""
    given = bool(args.path)
    traces = trace_files.agent_traces(args.path, settings) if given else stored.read(args).traces
    engine = open_engine(settings)
    calls = _planned(engine, settings, overrides, traces)
    if args.json:
        for call in calls:
            print_json(call.to_json(with_prompt=args.verbose))
        return
    output = console()
    for number, call in enumerate(calls if args.verbose else (), start=1):
        _print_prompt(output, number, call.of)
    if calls:
        _print_calls(output, calls)
    if rules := [x.name for x in settings.evaluation.rules]:
        taken = Counter(engine.rules.decide(trace).rule for trace in traces)
        shown = ", ".join(f"{x or 'no rule'} {taken[x]:,}" for x in (*rules, None))
        output.print(f"Traces by the rule that takes them: {shown}.")
    output.print(_summary(calls) if calls else _nothing(settings))
    if settings.embedding.chosen == "litellm":
        also = "An embedding provider would be sent inputs and outputs besides"
        output.print(f"{also}; see embedding.model.")


def _planned(
    engine: Engine, settings: Settings, overrides: Overrides, traces: Sequence[AgentTrace]
) -> list[_Call]:
    """The calls for each trace, then those for each session."""
    found: list[_Call] = []
    judges: dict[str | None, Config] = {None: settings.judge}
    judges |= {x.name: settings.judge_of(x) for x in settings.evaluation.rules}
    before = trace_files.turns_before(traces)

    def add(
        calls: Sequence[PlannedCall], last: AgentTrace, rule: str | None, session: str | None = None
    ) -> None:
        found.extend(
            _Call(last.trace_ids[0], session, rule, x) for x in costed(calls, judges[rule])
        )

    with terminal.progress("planning", len(traces)) as done:
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


def _print_prompt(output: Output, number: int, call: CostedCall) -> None:
    metrics = ", ".join(call.planned.metrics)
    output.print(f"Call {number}: {metrics}, stage {call.planned.stage}", style="bold")
    parts = {name: printable(text) for name, text in _sent(call.prompt).items()}
    parts["schema of the answer"] = dumps(call.planned.schema.model_json_schema())
    for name, text in parts.items():
        output.print(f"[{name}]", style="dim")
        output.print(text, end="\n\n", soft_wrap=True)


def _print_calls(output: Output, calls: Sequence[_Call]) -> None:
    """Print a table for each model; where there are many calls, a row for all that are alike."""
    models = dict.fromkeys(call.of.model for call in calls)
    for model in models:
        if len(models) > 1:
            output.print(on_one_line(model, 80), style="bold")
        own = [call for call in calls if call.of.model == model]
        if len(calls) <= _MAX_ROWS:
            _print_table(output, "trace", [(call.subject, [call]) for call in own])
            continue
        groups: defaultdict[object, list[_Call]] = defaultdict(list)
        for call in own:
            groups[call.of.planned.stage, call.of.planned.metrics].append(call)
        _print_table(output, "calls", [(f"{len(x):,}", x) for x in groups.values()])


def _print_table(output: Output, first: str, rows: Iterable[tuple[str, Sequence[_Call]]]) -> None:
    """Print calls of one model; each row has what stands under the heading `first`, and the calls
    it adds up.
    """
    columns = (first, "stage", "metrics", "tokens in", "out", "USD")
    figures = [x for x in columns if x not in {"trace", "metrics"}]
    table = terminal.plain_table(columns, figures, wrapped={"metrics"})
    for which, group in rows:
        cost, planned = _cost(group), group[0].of.planned
        tokens_in, tokens_out = _tokens(group)
        table.add_row(
            which,
            str(planned.stage),
            ", ".join(planned.metrics),
            f"{'<' if planned.placeholders else ''}{tokens_in:,}",
            f"<{tokens_out:,}",
            "?" if cost is None else f"<{cost:.4f}",
        )
    output.print(table)
    output.print()


def _tokens(calls: Sequence[_Call]) -> tuple[int, int]:
    """How many tokens the calls read and write at most."""
    estimates = [call.of.estimate for call in calls]
    return sum(x.input_tokens for x in estimates), sum(x.max_output_tokens for x in estimates)


def _cost(calls: Sequence[_Call]) -> float | None:
    """What the calls cost at most, in USD; None where one has no known price."""
    costs = [x for call in calls if (x := call.of.estimate.cost_usd) is not None]
    return sum(costs) if len(costs) == len(calls) else None


def _nothing(settings: Settings) -> str:
    """Why there is no call."""
    why = "no model is configured; --model or judge.model names one"
    if any(x.models for x in settings.judges):
        why = "nothing is left to judge"
    return f"No judge would be asked: {why}. Nothing was sent."


def _summary(calls: Sequence[_Call]) -> str:
    models = ", ".join(sorted({on_one_line(call.of.model, 80) for call in calls}))
    cost, (tokens_in, tokens_out) = _cost(calls), _tokens(calls)
    price = "at a price that is not known for all" if cost is None else f"at most {cost:.4f} USD"
    each = "" if len(calls) <= _MAX_ROWS else " --jsonl lists each call."
    return (
        f"{counted(len(calls), 'call')} of {models}, at most {tokens_in:,} tokens in and"
        f" {tokens_out:,} out, {price}. A later stage quotes the answers before it,"
        " and is counted with the longest that there can be. Retries and repairs come on"
        f" top.{each} Nothing was sent."
    )
