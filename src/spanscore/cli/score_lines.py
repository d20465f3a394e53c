"""Lists of scores and of traces, two lines each."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from spanscore.api.convert import decode_score
from spanscore.api.v1.trace_service_pb2 import TraceSummary
from spanscore.cli.score_summary import STYLES
from spanscore.cli.terminal import console, first_of, on_one_line, styled, utc
from spanscore.model.score import Evaluation

if TYPE_CHECKING:
    from rich.console import Console


_INDENT = 13
_MAX_NAMES = 6


def print_scores(scores: Iterable[Evaluation], limit: int, trace_url: str = "") -> int:
    """Print the scores, and return how many; `limit` is how many were asked for, 0: all;
    `trace_url` as configured.
    """
    output, count = console(), 0
    for score in scores:
        _print_score(output, score)
        _print_link(output, trace_url, score.target.trace_id)
        count += 1
    if count == limit != 0:
        _print_newest(output, count)
    return count


def print_traces(traces: Iterable[TraceSummary], limit: int, trace_url: str = "") -> None:
    """Print the traces; `limit` and `trace_url` are as of `print_scores`."""
    output, count = console(), 0
    for trace in traces:
        _print_trace(output, trace)
        _print_link(output, trace_url, trace.trace_ids[0] if trace.trace_ids else "")
        count += 1
    if not count:
        output.print("no trace is there that meets the conditions")
    elif count == limit:
        _print_newest(output, count)


def _print_score(output: "Console", score: Evaluation) -> None:
    word = score.shown_label or score.status
    value = "" if score.value is None else f"{score.value:.2f}"
    parts = (
        (_when(score.evaluated_at_ns), "dim"),
        (on_one_line(word, 12).ljust(7), STYLES.get(word, "")),
        (on_one_line(score.metric, 40).ljust(22), "bold"),
        (value.rjust(5), ""),
        (_of(score), "dim"),
        (on_one_line(score.service_name or "", 40), "dim"),
        (_source(score), "cyan"),
    )
    _print_line(output, parts)
    _print_below(output, score.reason)


def _print_trace(output: "Console", trace: TraceSummary) -> None:
    scores = [decode_score(x) for x in trace.scores]
    failing = [x for x in scores if x.is_failing]
    passing = [x for x in scores if x.passed]
    seconds = max(trace.ended_ns - trace.started_ns, 0) / 1e9
    parts = (
        (_when(trace.started_ns), "dim"),
        (
            _verdict(len(scores), len(failing), len(passing)).ljust(14),
            "red" if failing else "green" if passing else "yellow",
        ),
        (f"{seconds:.1f} s".rjust(8), ""),
        (f"trace {trace.trace_ids[0] if trace.trace_ids else trace.id}", "dim"),
        (on_one_line(trace.agent_name or trace.service_name, 40), ""),
        (on_one_line(f"session {trace.session_id}" if trace.session_id else "", 60), "dim"),
    )
    _print_line(output, parts)
    _print_below(output, trace.user_input)
    if failing:
        names = first_of([on_one_line(x.metric, 40) for x in failing], _MAX_NAMES)
        _print_below(output, f"failing: {names}", "red")
    if trace.unscored:
        _print_below(output, f"no score: {trace.unscored}", "yellow")


def _verdict(scores: int, failing: int, passing: int) -> str:
    if failing:
        return f"{failing} of {failing + passing} failing"
    if passing:
        return f"{passing} pass"
    return "no verdict" if scores else "no scores"


def _print_line(output: "Console", parts: Iterable[tuple[str, str]]) -> None:
    line = styled("  ").join(styled(text, style) for text, style in parts if text)
    output.print(line, soft_wrap=True)


def _print_below(output: "Console", text: str, style: str = "") -> None:
    if text:
        room = max(output.width - _INDENT, 20)
        output.print(styled(" " * _INDENT + on_one_line(text, room), style), soft_wrap=True)


def _print_link(output: "Console", trace_url: str, trace_id: str) -> None:
    """Print the address of a trace on a line by itself, whole, however long it is."""
    if trace_url and trace_id:
        url = trace_url.replace("{trace_id}", on_one_line(trace_id, 64))
        output.print(styled(" " * _INDENT + url, "dim"), soft_wrap=True)


def _print_newest(output: "Console", count: int) -> None:
    output.print(f"the newest {count:,}; --limit shows more")


def _of(score: Evaluation) -> str:
    if score.scope == "session":
        return on_one_line(f"session {score.session_id or score.subject_id}", 60)
    if not score.target.trace_id and score.target.response_id:
        return on_one_line(f"response {score.target.response_id}", 60)
    return f"trace {score.target.trace_id or score.subject_id}"


def _source(score: Evaluation) -> str:
    if score.evaluator.source is None:
        return ""
    return on_one_line(
        "by " + ", ".join(filter(None, (score.evaluator.source, score.evaluator.author))), 60
    )


def _when(moment_ns: int) -> str:
    """Month, day and time in UTC; as wide whatever it is."""
    moment = utc(moment_ns)
    return f"{moment:%m-%d %H:%M}" if moment_ns else "-".ljust(11)
