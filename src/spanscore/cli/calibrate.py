"""`spanscore calibrate`: hold a judge's scores against human labels, and keep its error for later pass rates."""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spanscore import calibration
from spanscore.calibration import Label, Matched, Measure, Verdict
from spanscore.cli import eval as scoring
from spanscore.cli import recorded
from spanscore.cli.terminal import console, on_one_line, print_json
from spanscore.errors import InputError
from spanscore.model.score import Evaluation
from spanscore.stats import Estimate
from spanscore.store import calibrations

if TYPE_CHECKING:
    from rich.console import Console

_MAX_BYTES = 512 * 2**20
_Seen = list[tuple[str, bool, str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("labels", metavar="LABELS", type=Path, help="human labels, as JSON Lines or CSV")
    parser.add_argument(
        "path",
        metavar="PATH",
        nargs="+",
        type=Path,
        help=f"scores as `spanscore eval --jsonl` prints them, or what to score: {recorded.PATH_HELP}",
    )
    parser.add_argument("-c", "--config", metavar="FILE", type=Path, help="the configuration; without it, the defaults")
    parser.add_argument("--model", metavar="MODEL", help="the model that judges, in place of the configured one")
    parser.add_argument("--threshold", metavar="X", type=float, help="the score from which on the judge passes")
    parser.add_argument("--level", metavar="SHARE", type=float, default=0.95, help="the level of all intervals")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each metric and judge")
    parser.add_argument("--no-store", action="store_true", help="keep nothing: only report")


def run(args: argparse.Namespace) -> int:
    """Compare, report and keep. Returns the exit code."""
    if not 0 < args.level < 1:
        raise InputError(f"--level {args.level:g}: give a share between 0 and 1, such as 0.95")
    settings = scoring.configured(args)
    labels = calibration.read_labels(args.labels)
    verdicts, seen = _verdicts(args, labels)
    found = calibration.match(args.labels, labels, verdicts, seen)
    now_ns = time.time_ns()
    kept = [calibration.calibration(x, now_ns) for x in found if x.pairs]
    if not kept:
        raise InputError(
            f"{args.labels}: the judge passed or failed nothing that is labelled; there is nothing to compare"
        )
    output = console()
    for matched in found:
        measures = calibration.measures(matched, args.level)
        if args.json:
            print_json(_as_json(matched, measures))
        else:
            _print(output, matched, measures)
    if not args.no_store:
        calibrations.keep(settings.store, {x.key: x.to_json() for x in kept}, now_ns)
        if not args.json:
            output.print(
                f"Kept in {settings.store.url.rpartition('@')[2]}; pass rates by the same judge are now corrected."
            )
    return 0


def _verdicts(args: argparse.Namespace, labels: Sequence[Label]) -> tuple[list[Verdict], _Seen]:
    """The verdicts in score files, or of what the other files hold; and everything that was to be scored."""
    are_scores = [_is_score_file(path) for path in args.path]
    if not any(are_scores):
        names = list(dict.fromkeys(x.metric for x in labels))
        scores = [(_place(x), x.to_json()) for x in scoring.measured(scoring.configured(args), names, args)]
    elif all(are_scores):
        scores = [x for path in args.path for x in _scores_in(path)]
    else:
        other = args.path[are_scores.index(False)]
        raise InputError(
            f"{other}: not scores as `spanscore eval --jsonl` prints them, as the other files are; give one kind"
        )
    verdicts, seen = [], []
    for place, score in scores:
        verdict, key = _read(place, score)
        verdicts += [verdict] if verdict else []
        seen.append(key)
    return verdicts, seen


def _place(evaluation: Evaluation) -> str:
    return f"{evaluation.metric} of {evaluation.subject_id}"


def _read(place: str, score: dict[str, Any]) -> tuple[Verdict | None, tuple[str, bool, str]]:
    try:
        is_session = score["scope"] == "session"
        subject = score["session_id" if is_session else "trace_id"]
        return Verdict.of_json(score), (str(subject), is_session, str(score["metric"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{place}: no score as `spanscore eval --jsonl` prints it ({error})") from None


def _is_score_file(path: Path) -> bool:
    """Whether the first line of a file is a score."""
    if not path.is_file():
        return False
    try:
        with path.open(encoding="utf-8") as file:
            line = next((x for x in iter(lambda: file.readline(2**20), "") if x.strip()), "")
        first = json.loads(line)
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and {"metric", "status", "evaluator"} <= first.keys()


def _scores_in(path: Path) -> list[tuple[str, dict[str, Any]]]:
    if path.stat().st_size > _MAX_BYTES:
        raise InputError(f"{path}: larger than {_MAX_BYTES >> 20} MiB; give fewer scores at a time")
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append((f"{path}:{number}", json.loads(line)))
        except (ValueError, RecursionError):
            raise InputError(f"{path}:{number}: not JSON; give what `spanscore eval --jsonl` wrote") from None
    return found


def _as_json(matched: Matched, measures: Sequence[Measure]) -> dict[str, Any]:
    names = ("metric", "name", "version", "model", "prompt_hash", "embedding", "threshold")
    table = calibration.calibration(matched, 0).to_json()["confusion"]
    return {
        "judge": dict(zip(names, matched.judge, strict=True)),
        "n": len(matched.pairs),
        "scored": len(matched.pairs) + len(matched.others),
        "tied": matched.tied,
        "unscored": matched.unscored,
        "annotators": sorted(matched.annotators),
        "confusion": table,
        "measures": {x.name: {"why_not": x.why_not} if x.estimate is None else x.estimate.to_json() for x in measures},
    }


def _print(output: "Console", matched: Matched, measures: Sequence[Measure]) -> None:
    from rich.table import Table  # noqa: PLC0415 - --json needs no rich
    from rich.text import Text  # noqa: PLC0415 - likewise

    output.print(Text(on_one_line(_title(matched), 300), "bold"))
    output.print(_counts(matched))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("", "value", "interval", "n", ""):
        table.add_column(heading, justify="right" if heading in {"value", "n"} else "left", no_wrap=heading != "")
    for measure in measures:
        table.add_row(on_one_line(measure.name, 60), *_cells(measure.estimate, measure.why_not))
    output.print(table)
    output.print()


def _title(matched: Matched) -> str:
    metric, name, version, model, prompt_hash, _, threshold = matched.judge
    by = model or name
    prompt = f", prompt {prompt_hash[:12]}" if prompt_hash else ""
    passes = f", passes from {threshold:g}" if threshold is not None else ""
    return f"{metric} by {by} (version {version}{prompt}){passes}"


def _counts(matched: Matched) -> str:
    table = calibration.calibration(matched, 0).confusion
    left_out = [
        f"{n} {what}" for n, what in ((matched.tied, "on which annotators tie"), (matched.unscored, "not scored")) if n
    ]
    return (
        f"{table.n} labels: people pass {table.true_pass + table.false_fail}, of which the judge passes "
        f"{table.true_pass}; people fail {table.false_pass + table.true_fail}, of which it fails {table.true_fail}"
        + (f"; left out: {', '.join(left_out)}" if left_out else "")
    )


def _cells(estimate: Estimate | None, why_not: str) -> tuple[str, str, str, str]:
    if estimate is None:
        return "-", "", "", f"cannot be told: {why_not}"
    limits = estimate.interval
    shown = f"[{limits.low:.2f}, {limits.high:.2f}]" if limits else ""
    return f"{estimate.value:.2f}", shown, str(estimate.n), estimate.note
