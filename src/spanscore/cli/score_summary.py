"""Scores of a run as text, with totals."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from spanscore import calibration
from spanscore.calibration import Calibration, PassRate, Verdict
from spanscore.cli import terminal, trace_files
from spanscore.cli.terminal import Output, counted, first_of, on_one_line, printable, say, styled
from spanscore.config import Settings
from spanscore.errors import SpanscoreError, shortened
from spanscore.evaluation.rubric import is_rubric
from spanscore.metrics import Judged, available
from spanscore.model.score import Evaluation, Failure, JudgeUsage, Skip, SkipCause
from spanscore.model.trace import AgentTrace, Session
from spanscore.offline.summary import Counted, Counts, RunSummary
from spanscore.stats import Estimate


def failing(evaluations: Iterable[Evaluation], *, only: bool = True) -> list[Evaluation]:
    """What does not pass or could not be measured; without `only`, everything."""
    return [x for x in evaluations if x.is_failing or not only]


def print_subjects(
    output: Output, traces: Sequence[AgentTrace], evaluations: Iterable[Evaluation]
) -> None:
    """Print the traces with their scores, then their sessions with theirs."""
    by_subject: defaultdict[tuple[str, str], list[Evaluation]] = defaultdict(list)
    for evaluation in evaluations:
        by_subject[evaluation.scope, evaluation.subject_id].append(evaluation)
    subjects: list[AgentTrace | Session] = [*traces, *trace_files.sessions(traces)]
    for subject in subjects:
        scope = "trace" if isinstance(subject, AgentTrace) else "session"
        print_subject(output, subject, by_subject[scope, subject.id])


def print_subject(
    output: Output, subject: AgentTrace | Session, evaluations: Iterable[Evaluation]
) -> None:
    """Print the scores of a trace or session, but for what no judge or embedding is configured for;
    nothing where nothing is left.
    """
    rows = [x for x in evaluations if not is_not_set_up(x)]
    if rows and isinstance(subject, AgentTrace):
        print_block(output, f"trace {subject.trace_ids[0]}", subject.user_input, rows)
    elif rows and isinstance(subject, Session):
        count = counted(len(subject.traces), "trace")
        print_block(output, f"session {subject.session_id}", count, rows)


def print_given(output: Output, evaluations: Iterable[Evaluation]) -> None:
    """Print scores that others gave, by the trace or the session that they name."""
    by_title: defaultdict[str, list[Evaluation]] = defaultdict(list)
    for x in evaluations:
        name = x.session_id if x.scope == "session" else x.target.trace_id
        by_title[f"{x.scope} {name}"].append(x)
    for title, rows in by_title.items():
        print_block(output, title, None, rows)


def print_summary(output: Output, settings: Settings, summary: RunSummary) -> None:
    """Print the means, what calibrations make of them, and who judged."""
    print_means(output, summary)
    for line in corrections(settings, summary):
        output.print(line)
    output.print(f"\n{judges(summary)}")


def judges(summary: RunSummary) -> str:
    """Who judged, and at what cost."""
    usage, evaluations = summary.usage, [x.evaluation for x in summary.outcomes]
    answered = [x for x in evaluations if not isinstance(x.outcome, Failure)]
    models = ", ".join(sorted({x.evaluator.model for x in answered if x.evaluator.model}))
    if models or usage.calls:
        return _judged(models, usage)
    unjudged = {x.metric for x in evaluations if _cause_of(x) == "no_judge"}
    if unjudged:
        are = "is" if len(unjudged) == 1 else "are"
        return (
            f"No model judges, so {', '.join(sorted(unjudged))} {are} skipped; --model, judge.model"
            " or SPANSCORE_JUDGE_MODEL names one. --metric check runs all checks, which need none."
        )
    return "No judge was asked."


def _judged(models: str, usage: JudgeUsage) -> str:
    """What the calls of these models, none where none gave an answer, used and cost."""
    in_vain = f"No model gave an answer: {counted(usage.calls, 'call')} in vain"
    if not (models or usage.input_tokens or usage.output_tokens):
        return f"{in_vain}."
    cost = "at a price that is not known"
    if usage.cost_usd is not None:
        cost = f"for {usage.cost_usd:.4f} USD"
    calls = f"{usage.calls:,} calls, {usage.cached:,} from the cache"
    tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    return f"{f'Judged by {models}: {calls}' if models else in_vain}; {tokens}; {cost}."


_HEADINGS = ("metric", "mean, 95 %", "n", "pass rate, 95 %", "traces or sessions")


def with_interval(estimate: Estimate | None, digits: int = 2) -> str:
    """A value and its interval."""
    if estimate is None:
        return "-"
    limits = estimate.interval
    return ranged(estimate.value, (limits.low, limits.high) if limits else None, digits)


def ranged(value: float, limits: tuple[float, float] | None, digits: int = 2) -> str:
    """A value and the limits of its interval."""
    shown = f" [{limits[0]:.{digits}f}, {limits[1]:.{digits}f}]" if limits else ""
    return f"{value:.{digits}f}{shown}"


def print_means(output: Output, summary: RunSummary) -> None:
    """Print, for each metric, the mean, how many pass, and what became of the others.

    `n` counts what is independent: sessions, and traces that belong to none. A metric for which no
    judge or embedding is configured is left out. A session that makes intervals wide is named
    below.
    """
    unset = Counter[str]()
    for found in summary.outcomes:
        if is_not_set_up(found.evaluation):
            unset[found.evaluation.metric] += found.count
    rows, notes = [], []
    for name, counts in summary.counts.items():
        own = replace(counts, skipped=counts.skipped - unset[name])
        if own.scored or own.skipped or own.failed:
            mean, rate, shown = summary.mean(name), summary.pass_rate(name), on_one_line(name, 40)
            n = str(mean.n) if mean else "-"
            rows.append((shown, with_interval(mean), n, with_interval(rate), _counts(own)))
            named = dict.fromkeys(x.note for x in (mean, rate) if x and x.note)
            notes += [f"{shown}: {printable(note)}" for note in named]
    if rows:
        terminal.print_rows(_HEADINGS, ("n",), rows, output=output)
    for note in notes:
        output.print(styled(note))


def _counts(own: Counts) -> str:
    passed = f"{own.passed} of {own.scored} passed" if own.has_labels else f"{own.scored} scored"
    others = {"skipped": own.skipped, "failed": own.failed}
    parts = [passed] if own.scored else []
    return "; ".join([*parts, *(f"{count} {name}" for name, count in others.items() if count)])


def corrections(settings: Settings, summary: RunSummary) -> list[str]:
    """A line for each pass rate of a metric that was ever calibrated, corrected or why not."""
    if not (kept := _kept(settings)):
        return []
    verdicts = summary.verdicts({x.judge[0] for x in kept})
    return [corrected_line(rate) for rate in calibration.pass_rates(verdicts, kept) if rate.note]


def calibrated(settings: Settings, evaluations: Sequence[Evaluation]) -> list[PassRate]:
    """The pass rates of metrics that were ever calibrated."""
    verdicts = [verdict for x in evaluations if (verdict := Verdict.of(x)) is not None]
    return by_calibrations(settings, verdicts)[0]


def by_calibrations(settings: Settings, *runs: Sequence[Verdict]) -> list[list[PassRate]]:
    """For each of `runs` the pass rates of metrics that were ever calibrated."""
    kept = _kept(settings)
    rates = (calibration.pass_rates(verdicts, kept) if kept else () for verdicts in runs)
    return [[rate for rate in own if rate.note] for own in rates]


def uncertified(settings: Settings, evaluations: Iterable[Evaluation]) -> list[str]:
    """A line for each judge without a certificate whose verdicts are among these."""
    without = (x for x in evaluations if x.evaluator.certified is False)
    judges = dict.fromkeys(map(calibration.judge_of, without))
    found = calibration.certificates_in(settings.store, settings.judge) if judges else None
    if found is None:
        return []
    known = {f"{x[0]} is judged by {x[3] or x[1]}": found.why_not(x) for x in judges}
    return [f"{by} without a certificate: {why_not}" for by, why_not in known.items()]


def are_met(unmet: Sequence[str], without: Sequence[str], settings: Settings) -> bool:
    """Whether gates are met; what is not, and the lines of `uncertified`, go to standard error."""
    refuses = settings.judge.refuses_uncertified
    for text in (*unmet, *(x if refuses else f"warning: {x}" for x in without)):
        say(text)
    return not (unmet or (without and refuses))


def corrected_line(rate: PassRate) -> str:
    """A pass rate by the judge, and corrected, in a line."""
    figures = f"{with_interval(rate.judged)}, n = {rate.judged.n}"
    judged = f"{printable(rate.metric)}: pass rate by the judge {figures}"
    if rate.corrected is None:
        return f"{judged}; {rate.note}"
    return f"{judged}; corrected {with_interval(rate.corrected)} ({rate.note})"


def _kept(settings: Settings) -> list[Calibration]:
    """The calibrations in the configured store; where it cannot be read that is said, and rates
    stay as they are.
    """
    from spanscore.store import calibrations  # noqa: PLC0415 - SQLAlchemy, which few runs need

    try:
        records = calibrations.kept(settings.store)
    except SpanscoreError as error:
        say(f"warning: pass rates are not corrected: {error}")
        return []
    operators = (x.record for x in records if not x.tenant)
    return [found for x in operators if (found := Calibration.from_json(x)) is not None]


_MAX_REASON_CHARS = 600
_NO_OCCASION = "not_applicable"
STYLES = {"pass": "green", "fail": "red", "failed": "bold red", "skipped": "yellow"}


def print_block(
    output: Output, title: str, subtitle: str | None, rows: Sequence[Evaluation]
) -> None:
    """Print the scores of one trace or session under its title, and which metrics had no occasion
    there.

    Metrics that failed for the same reason share one line below the table.
    """
    output.print(styled(on_one_line(title, 300), "bold"))
    if subtitle:
        output.print(styled(on_one_line(subtitle, output.width - 2), "italic"))
    failed_alike = _failed_alike(rows)
    idle = [_name(row) for row in rows if _cause_of(row) == _NO_OCCASION]
    apart = [row for row in rows if row.status != "failed" or row.reason not in failed_alike]
    cells = [_cells(row) for row in apart if _cause_of(row) != _NO_OCCASION]
    if cells:
        columns = ("metric", "score", "label", "reason")
        table = terminal.plain_table(columns, ("score",), cells, wrapped={"reason"})
        for column, width in zip(table.columns, (20, 4, 7, 4), strict=True):
            column.min_width = width
        output.print(table)
    for why, names in failed_alike.items():
        output.print(styled(f"failed: {names}: {_reason(why)}", STYLES["failed"]))
    if idle:
        output.print(styled(f"not applicable: {', '.join(idle)}", "dim"))
    output.print()


def _cells(row: Evaluation) -> Sequence[Any]:
    word = on_one_line(row.shown_label or "", 24) if row.status == "scored" else row.status
    label = styled(word, STYLES.get(word, ""))
    return _name(row), number(row.value), label, styled(_reason(row.reason))


def _name(row: Evaluation) -> str:
    """The metric, and whoever else gave the score."""
    by = f" ({row.evaluator.author or row.evaluator.source})" if row.is_external else ""
    return on_one_line(f"{row.metric}{by}", 40)


def _failed_alike(rows: Sequence[Evaluation]) -> dict[str, str]:
    """The reasons for which several rows failed, each with the names of their metrics."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.status == "failed":
            names[row.reason].append(_name(row))
    return {reason: ", ".join(found) for reason, found in names.items() if len(found) > 1}


def _reason(text: str) -> str:
    return printable(shortened(text, _MAX_REASON_CHARS))


def number(value: float | None) -> str:
    """A value as tables have it."""
    return "-" if value is None else f"{value:.2f}"


_NOT_SET_UP: tuple[SkipCause, ...] = ("no_judge", "no_embedding")
_MAX_CHARS = 500
_MAX_NAMES = 12


def print_unscored(outcomes: Sequence[Counted], *, but: SkipCause | None = None) -> None:
    """Say on standard error what could not be scored, but for what was skipped for the cause
    `but`.
    """
    nothing = no_score(outcomes)
    shown = [x for x in outcomes if but is None or _cause_of(x.evaluation) != but]
    for line in (*notices(shown), *([nothing] if nothing else [])):
        say(line)


def is_not_set_up(evaluation: Evaluation) -> bool:
    """Whether it was skipped for want of a judge or an embedding, as it is for every trace."""
    return _cause_of(evaluation) in _NOT_SET_UP


def notices(outcomes: Sequence[Counted]) -> list[str]:
    """What is missing, a line for each cause."""
    found = []
    for cause in _NOT_SET_UP:
        if of_cause := _skipped(outcomes, cause):
            reason = on_one_line(_of_all(of_cause), _MAX_CHARS)
            names = list(dict.fromkeys(x.evaluation.metric for x in of_cause))
            are = "is" if len(names) == 1 else "are"
            found.append(f"{first_of(names, _MAX_NAMES)} {are} skipped: {reason}")
    if over_budget := _skipped(outcomes, "budget"):
        reason = on_one_line(over_budget[0].evaluation.reason, _MAX_CHARS)
        found.append(f"{counted(_count(over_budget), 'score is', 'scores are')} skipped: {reason}")
    if (failed := _failed(outcomes)) and no_score(outcomes) is None:
        count = counted(_count(failed), "score")
        found.append(f"{count} failed, most of them so: {_most_common(failed)}")
    return found


def no_score(outcomes: Sequence[Counted]) -> str | None:
    """Why the run is no success where all that a model was to judge failed; None where anything was
    judged.
    """
    judged = [x for x in outcomes if _is_judged(x.evaluation)]
    failed = _failed(judged)
    scored = [x for x in judged if x.evaluation.status == "scored"]
    if not failed or any(x.evaluation.evaluator.kind == "LLM" for x in scored):
        return None
    most = "" if len({x.evaluation.reason for x in failed}) == 1 else ", most of them so"
    all_failed = f"all {_count(failed)} judged scores failed{most}: {_most_common(failed)}"
    return f"the judge gave no score: {all_failed}; `spanscore doctor` says what to do"


def _is_judged(evaluation: Evaluation) -> bool:
    metric = available().get(evaluation.metric)
    is_judged = metric is not None and issubclass(metric, Judged)
    return is_judged or evaluation.evaluator.kind == "LLM" or is_rubric(evaluation.metric)


def _cause_of(evaluation: Evaluation) -> SkipCause | None:
    return evaluation.outcome.cause if isinstance(evaluation.outcome, Skip) else None


def _count(outcomes: Iterable[Counted]) -> int:
    return sum(x.count for x in outcomes)


def _skipped(outcomes: Iterable[Counted], cause: SkipCause) -> list[Counted]:
    return [x for x in outcomes if _cause_of(x.evaluation) == cause]


def _failed(outcomes: Iterable[Counted]) -> list[Counted]:
    return [x for x in outcomes if x.evaluation.status == "failed"]


def _of_all(skipped: Sequence[Counted]) -> str:
    """The reason of the first, in which its metric stands for all of them."""
    reason, metric = skipped[0].evaluation.reason, skipped[0].evaluation.metric
    if all(x.evaluation.metric == metric for x in skipped):
        return reason
    return reason.replace(f" judges {metric}:", " judges them:")


def _most_common(failed: Iterable[Counted]) -> str:
    by_reason = Counter[str]()
    for x in failed:
        by_reason[x.evaluation.reason] += x.count
    return on_one_line(by_reason.most_common(1)[0][0], _MAX_CHARS)
