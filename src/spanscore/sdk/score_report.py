"""`spanscore.evaluate`: recorded traces scored from Python."""

import html
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

from spanscore import config as configuration, dialects, local_files
from spanscore.config import Settings
from spanscore.errors import InputError, SpanscoreError, line_of
from spanscore.judge.port import Judge
from spanscore.model.json import dumps
from spanscore.model.score import Evaluation, Skip
from spanscore.model.trace import AgentTrace
from spanscore.offline import OfflineScoring
from spanscore.offline.recordings import Recordings
from spanscore.offline.summary import MetricSummary, summaries
from spanscore.otlp.files import Telemetry
from spanscore.sdk.in_process_settings import Measures, by_name, with_options
from spanscore.sdk.plain_turn import of_texts
from spanscore.sources import place
from spanscore.stats import Estimate
from spanscore.threads import waiting

_MAX_FAILING = 20
_MAX_REASON_CHARS = 240
_HEADINGS = ("metric", "mean", "95 %", "n", "passed", "pass rate", "95 %", "skipped", "failed")
_NOT_SET_UP = ("no_judge", "no_embedding")


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """The scores of recorded agent traces, as `spanscore.evaluate` gives them.

    `traces` are the agent traces by their start, `evaluations` what was measured on them and then
    on their sessions. `notes` are sentences about what was left out or is not recorded. Shown in a
    notebook or printed, it is a table of the metrics and a list of what fails.
    """

    traces: tuple[AgentTrace, ...]
    evaluations: tuple[Evaluation, ...]
    notes: tuple[str, ...] = ()

    @property
    def failing(self) -> list[Evaluation]:
        """The scores that do not pass, and the measurements that went wrong."""
        return [x for x in self.evaluations if x.passed is False or x.status == "failed"]

    @property
    def metrics(self) -> dict[str, MetricSummary]:
        """Of each metric how many scores there are, their mean and pass rate with intervals, by its
        name.
        """
        return {x.metric: x for x in summaries(self.evaluations)}

    def __len__(self) -> int:
        return len(self.evaluations)

    def __iter__(self) -> Iterator[Evaluation]:
        return iter(self.evaluations)

    def to_rows(self) -> list[dict[str, Any]]:
        """A flat row for each evaluation: what was scored, the outcome, and who measured at what
        cost.
        """
        by_id = {trace.id: trace for trace in self.traces}
        return [_row(x, by_id.get(x.subject_id)) for x in self.evaluations]

    def to_pandas(self) -> Any:
        """The rows as a `pandas.DataFrame`. Raises SpanscoreError where pandas is not installed."""
        try:
            from pandas import DataFrame  # noqa: PLC0415 - only who asks for a DataFrame has to have it
        except ImportError as error:
            raise SpanscoreError(
                "to_pandas needs pandas: pip install pandas; to_rows() needs nothing"
            ) from error
        return DataFrame(self.to_rows(), columns=list(_COLUMNS))

    def to_jsonl(self, path: str | Path) -> None:
        """Write a JSON object a line for each evaluation, as `spanscore eval --jsonl` prints it.

        Only its owner can read the file, since it contains what users said. Raises InputError where
        it cannot be written, OutputError where it does not fit.
        """
        text = "".join(f"{dumps(x.to_json())}\n" for x in self.evaluations)
        local_files.write(Path(path), text.encode(errors="replace"))

    def to_html(self, path: str | Path) -> None:
        """Write a page that opens from disk: what fails first, each turn's steps, and what its
        scores rest on.

        Only its owner can read the file. Raises InputError where it cannot be written, OutputError
        where it does not fit.
        """
        from spanscore import report  # noqa: PLC0415 - who wants a table alone does not wait for it

        name = Path(path).stem.replace("_", " ")
        results = report.Results(
            name=name, traces=self.traces, scores=self.evaluations, notes=self.notes
        )
        report.save(Path(path), results)

    def __repr__(self) -> str:
        shown = [_cells(x) for x in self._shown()]
        lines = [self._title(), *(["", *aligned([_HEADINGS, *shown])] if shown else [])]
        width = max(shutil.get_terminal_size((120, 24)).columns, 60)
        if failing := self.failing:
            shown_failing = failing[:_MAX_FAILING]
            lines += ["", f"failing: {len(failing):,} of {len(self.evaluations):,}"]
            lines += [cut(f"  {'  '.join(_failing_cells(x))}", width) for x in shown_failing]
            if len(failing) > _MAX_FAILING:
                lines.append(f"  and {len(failing) - _MAX_FAILING:,} more: .failing has them all")
        return "\n".join([*lines, *(["", *self._remarks()] if self._remarks() else [])])

    def _repr_html_(self) -> str:
        parts = [html_table(self._title(), _HEADINGS, map(_cells, self._shown()))]
        if failing := self.failing:
            rows = ((*x[:2], cut(x[2], _MAX_REASON_CHARS)) for x in map(_failing_cells, failing))
            listed = "".join(_html_row("td", x) for x in islice(rows, _MAX_FAILING))
            count = f"failing: {len(failing):,} of {len(self.evaluations):,}"
            parts.append(f"<p>{count}</p><table>{listed}</table>")
        parts += [f"<p>{html.escape(x)}</p>" for x in self._remarks()]
        return "".join(parts)

    def _shown(self) -> list[MetricSummary]:
        """The metrics that were measured: not those for which no model is configured."""
        without = self._not_set_up()
        return [x for name, x in self.metrics.items() if x.scored or name not in without]

    def _not_set_up(self) -> dict[str, str]:
        """By metric why nothing could be measured, where no judge or embedding is configured."""
        skips = ((x.metric, x.outcome) for x in self.evaluations)
        skipped = ((name, x) for name, x in skips if isinstance(x, Skip))
        return {name: x.reason for name, x in skipped if x.cause in _NOT_SET_UP}

    def _title(self) -> str:
        sessions = len({x.session_key for x in self.traces if x.session_key is not None})
        counts = (counted(len(self.traces), "trace"), counted(sessions, "session"))
        return f"{', '.join(counts)}, {counted(len(self.evaluations), 'score')}"

    def _remarks(self) -> list[str]:
        reasons: dict[str, list[str]] = {}
        for name, reason in self._not_set_up().items():
            reasons.setdefault(reason.replace(f" judges {name}:", " judges them:"), []).append(name)
        skipped = (f"skipped: {', '.join(names)}: {reason}" for reason, names in reasons.items())
        return [*skipped, *self.notes]


_COLUMNS = {
    "scope": "scope",
    "trace_id": "target.trace_id",
    "session_id": "session_id",
    "agent": "agent_name",
    "service": "service_name",
    "input": "trace.user_input",
    "output": "trace.final_output",
    "metric": "metric",
    "status": "status",
    "value": "value",
    "label": "label",
    "passed": "passed",
    "threshold": "threshold",
    "reason": "reason",
    "evaluator": "evaluator.name",
    "model": "evaluator.model",
    "cost_usd": "usage.cost_usd",
    "latency_s": "latency_s",
    "started_ns": "trace.started_ns",
    "subject_id": "subject_id",
    "uid": "uid",
}
"""Where each is in an evaluation, or in the trace that it is of."""


def _row(evaluation: Evaluation, trace: AgentTrace | None) -> dict[str, Any]:
    """The row of an evaluation; `trace` is the one that it is of, None for a session."""

    def fact(path: str) -> Any:
        if path.startswith("trace."):
            return getattr(trace, path.removeprefix("trace."), None)
        return attrgetter(path)(evaluation)

    return {name: fact(path) for name, path in _COLUMNS.items()}


def _cells(summary: MetricSummary) -> tuple[str, ...]:
    labelled = summary.passed + summary.failing
    return (
        summary.metric,
        *estimated(summary.mean),
        str(summary.mean.n) if summary.mean else "-",
        f"{summary.passed:,} of {labelled:,}" if labelled else "-",
        *estimated(summary.pass_rate),
        f"{summary.skipped:,}" if summary.skipped else "-",
        f"{summary.failed:,}" if summary.failed else "-",
    )


def estimated(estimate: Estimate | None) -> tuple[str, str]:
    """An estimate and its limits as cells."""
    if estimate is None:
        return "-", ""
    limits = estimate.interval
    return f"{estimate.value:.2f}", f"[{limits.low:.2f}, {limits.high:.2f}]" if limits else ""


def aligned(
    rows: Sequence[Sequence[str]], others: Callable[[str, int], str] = str.rjust
) -> list[str]:
    """The rows as lines, the first column to the left, the others to the right or as it says."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    filled = ([row[0].ljust(widths[0]), *map(others, row[1:], widths[1:])] for row in rows)
    return ["  ".join(cells).rstrip() for cells in filled]


def html_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The title, and the rows under their headings, where there are any."""
    body = "".join(_html_row("td", x) for x in rows)
    head = _html_row("th", headings)
    table = f"<table><thead>{head}</thead><tbody>{body}</tbody></table>" if body else ""
    return f"<p><b>{html.escape(title)}</b></p>{table}"


def _html_row(tag: str, cells: Sequence[str]) -> str:
    filled = (f'<{tag} style="text-align: left">{html.escape(x)}</{tag}>' for x in cells)
    return f"<tr>{''.join(filled)}</tr>"


def _failing_cells(evaluation: Evaluation) -> tuple[str, str, str]:
    """What fails, by which score, and why."""
    value = "failed" if evaluation.value is None else f"{evaluation.value:.2f}"
    is_session = evaluation.scope == "session"
    of = f"session {evaluation.session_id}" if is_session else ""
    of = of or f"trace {evaluation.target.trace_id[:8]}"
    return of, f"{evaluation.metric} {value}", evaluation.reason


def counted(count: int, what: str) -> str:
    """A count with its noun."""
    return f"1 {what}" if count == 1 else f"{count:,} {what}s"


def cut(text: str, width: int) -> str:
    """`text` on one line, cut to `width` with an ellipsis; what a terminal might obey is shown as
    its escape.
    """
    shown = (x if x.isprintable() or x.isspace() else repr(x)[1:-1] for x in text)
    return line_of("".join(shown), width)


PathLike: TypeAlias = str | os.PathLike[str]
Recorded: TypeAlias = (
    PathLike | Telemetry | Iterable[PathLike] | Iterable[AgentTrace] | Iterable[Mapping[str, str]]
)
"""Files or folders of OTLP, URLs of stored traces, what `spanscore.load` gives, agent traces, or
`{"input": text, "output": text}` for each turn without spans.
"""


async def evaluate_async(
    traces: Recorded,
    *,
    metrics: Measures | None = None,
    judge: str | Judge | None = None,
    threshold: float | None = None,
    config: Settings | PathLike | None = None,
) -> Report:
    """Score recorded agent traces and their sessions; `evaluate` waits for the scores, also inside
    a running event loop.

    `traces` is a file or folder of OTLP, the URL of a backend's stored traces, several of these,
    what `spanscore.load` gives, agent traces, or texts without spans: `{"input": ..., "output":
    ...}` for each turn. `metrics` are those to measure: names, functions
    that `@spanscore.metric` decorates, or a mapping from name to options; without it those of the
    configuration. `judge` is a model such as "gpt-4o-mini", or an object with `ask`. `threshold` is
    the score from which on the label is pass. `config` is a configuration file, or its settings;
    without it the defaults hold, and SPANSCORE_JUDGE_MODEL.

    Raises InputError where a file cannot be read or contains no agent trace, or a metric, model or
    threshold cannot be; ConfigError for the configuration; RetryableError where a backend cannot be
    reached. An error of a judge is no exception: it is an evaluation that failed.
    """
    model = judge if isinstance(judge, str) else None
    named = None if metrics is None else by_name(metrics)
    settings = with_options(settings_of(config), named or {})
    settings = settings.model_copy(update={"judge": settings.judge.or_model(model)})
    own = None if isinstance(judge, str) else judge
    scoring = OfflineScoring.prepared(
        settings, metrics=named, model=model, threshold=threshold, judge=own
    )
    notes: list[str] = []
    found: list[AgentTrace] = []
    evaluations: list[Evaluation] = []
    recorded = _recorded(traces, settings, notes.append)
    async for scored in scoring.run(
        [recorded] if isinstance(recorded, list) else recorded.batches(),
        (lambda _: ()) if isinstance(recorded, list) else recorded.given.of,
    ):
        if isinstance(scored.subject, AgentTrace):
            found.append(scored.subject)
        evaluations += scored.evaluations
    return Report(tuple(found), tuple(evaluations), tuple(notes))


evaluate = waiting(evaluate_async)
"""Score recorded agent traces, and wait for the scores; see `evaluate_async`."""


def settings_of(config: Settings | PathLike | None) -> Settings:
    """The settings that a caller gives, or has in a file; else the defaults."""
    if isinstance(config, Settings):
        return config
    return configuration.default() if config is None else configuration.load(Path(config))


def _recorded(
    traces: Recorded, settings: Settings, note: Callable[[str], None]
) -> Recordings | list[AgentTrace]:
    dialects.configure(settings.span_names)
    scope, attributes = settings.assemble.session_scope, settings.evaluation.span_attributes
    stitch_off = settings.assemble.stitch_off
    if isinstance(traces, Telemetry):
        return Recordings.of(traces, scope, note, attributes=attributes, stitch_off=stitch_off)
    given: list[Any] = [traces] if isinstance(traces, str | os.PathLike | Mapping) else list(traces)
    if given and all(isinstance(x, Mapping) for x in given):
        return [of_texts(x, number) for number, x in enumerate(given)]
    if all(isinstance(x, AgentTrace) for x in given):
        return given
    if not all(isinstance(x, str | os.PathLike) for x in given):
        wrong = next(x for x in given if not isinstance(x, str | os.PathLike))
        raise InputError(
            f"traces: {type(wrong).__name__} is neither a path nor an AgentTrace: give files,"
            " folders, what spanscore.load gives, agent traces, or texts as {'input': ...,"
            " 'output': ...}"
        )
    places = [place(x) if isinstance(x, str) else Path(x) for x in given]
    return Recordings(places, scope, note, attributes=attributes, stitch_off=stitch_off)
