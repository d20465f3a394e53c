"""Scores of a run as a person reads them: a block for each trace and session, then what they add up
to.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spanscore.cli import aggregates, recorded, score_blocks, unscored
from spanscore.config import Settings
from spanscore.model.score import Evaluation, Failure, JudgeUsage, Skip
from spanscore.model.trace import AgentTrace, Session
from spanscore.offline.summary import RunSummary

if TYPE_CHECKING:
    from rich.console import Console


def print_all(
    output: "Console",
    settings: Settings,
    traces: Sequence[AgentTrace],
    evaluations: Sequence[Evaluation],
    *,
    only_failing: bool = False,
) -> None:
    """Print the traces with their scores, their sessions with theirs, and the summary."""
    by_subject: dict[tuple[str, str], list[Evaluation]] = {}
    for evaluation in evaluations:
        by_subject.setdefault((evaluation.scope, evaluation.subject_id), []).append(evaluation)
    for trace in traces:
        print_subject(
            output, trace, by_subject.get(("trace", trace.id), ()), only_failing=only_failing
        )
    for session in recorded.sessions(traces):
        print_subject(
            output, session, by_subject.get(("session", session.id), ()), only_failing=only_failing
        )
    print_summary(output, settings, RunSummary.of(evaluations))


def print_subject(
    output: "Console",
    subject: AgentTrace | Session,
    evaluations: Sequence[Evaluation],
    *,
    only_failing: bool = False,
) -> None:
    """Print the scores of a trace or session, but for what no judge or embedding is configured for.

    `only_failing`: only what does not pass or could not be measured. Nothing is printed where
    nothing is left.
    """
    shown = [x for x in evaluations if not unscored.is_not_set_up(x)]
    if only_failing:
        shown = [x for x in shown if x.is_failing]
    if not shown:
        return
    rows = [score_blocks.Row.of(x) for x in shown]
    if isinstance(subject, AgentTrace):
        score_blocks.print_block(output, f"trace {subject.trace_ids[0]}", subject.user_input, rows)
    else:
        count = "1 trace" if len(subject.traces) == 1 else f"{len(subject.traces)} traces"
        score_blocks.print_block(output, f"session {subject.session_id}", count, rows)


def print_given(
    output: "Console", evaluations: Sequence[Evaluation], *, only_failing: bool
) -> None:
    """Print scores that others gave, by the trace or the session that they name."""
    by_title: dict[str, list[score_blocks.Row]] = {}
    for evaluation in evaluations:
        title = (
            f"session {evaluation.session_id}"
            if evaluation.scope == "session"
            else f"trace {evaluation.target.trace_id}"
        )
        if evaluation.is_failing or not only_failing:
            by_title.setdefault(title, []).append(score_blocks.Row.of(evaluation))
    for title, rows in by_title.items():
        score_blocks.print_block(output, title, None, rows)


def print_summary(output: "Console", settings: Settings, summary: RunSummary) -> None:
    """Print the means, what calibrations make of them, and who judged."""
    aggregates.print_means(output, summary)
    for line in aggregates.corrections(settings, summary):
        output.print(line)
    output.print(f"\n{judges(summary)}")


def judges(summary: RunSummary) -> str:
    """Who judged, and at what cost."""
    usage, evaluations = summary.usage, [x.evaluation for x in summary.outcomes]
    answered = [x for x in evaluations if not isinstance(x.outcome, Failure)]
    models = ", ".join(sorted({x.evaluator.model for x in answered if x.evaluator.model}))
    if models or usage.calls:
        return _judged(models, usage)
    unjudged = {
        x.metric
        for x in evaluations
        if isinstance(x.outcome, Skip) and x.outcome.cause == "no_judge"
    }
    if unjudged:
        return (
            f"No model judges, so {', '.join(sorted(unjudged))}"
            f" {'is' if len(unjudged) == 1 else 'are'} skipped; --model, judge.model or"
            " SPANSCORE_JUDGE_MODEL names one."
        )
    return "No judge was asked."


def _judged(models: str, usage: JudgeUsage) -> str:
    """What the calls of these models, none where none gave an answer, used and cost."""
    in_vain = (
        f"No model gave an answer: {usage.calls:,}"
        f" {'call' if usage.calls == 1 else 'calls'} in vain"
    )
    if not (models or usage.input_tokens or usage.output_tokens):
        return f"{in_vain}."
    cost = "at a price that is not known"
    if usage.cost_usd is not None:
        cost = f"for {usage.cost_usd:.4f} USD"
    calls = f"{usage.calls:,} calls, {usage.cached:,} from the cache"
    tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    return f"{f'Judged by {models}: {calls}' if models else in_vain}; {tokens}; {cost}."
