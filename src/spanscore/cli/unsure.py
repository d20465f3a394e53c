"""The scores on which another judge is worth asking, as `spanscore calibrate` finds, prints and
writes them.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spanscore import calibration
from spanscore.calibration import Matched
from spanscore.cli.aggregates import as_texts
from spanscore.cli.output_files import require_writable, write
from spanscore.errors import InputError
from spanscore.model.json import dumps
from spanscore.stats import NotEstimableError, Unsure


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--most-wrong",
        metavar="SHARE",
        type=float,
        default=0.05,
        help=(
            "scores are unsure where people contradict more of the verdicts than this share;"
            " default: %(default)g"
        ),
    )
    parser.add_argument(
        "--unsure",
        metavar="FILE",
        type=Path,
        help="write each metric's unsure scores as JSON, {METRIC: [LOW, HIGH]}",
    )


def require_usable(args: argparse.Namespace) -> None:
    """Refuse options that cannot be. Raises InputError."""
    require_writable(args.unsure)
    if not 0 < args.most_wrong < 1:
        raise InputError(
            f"--most-wrong {args.most_wrong:g}: give a share between 0 and 1, such as 0.05"
        )


def of(matched: Matched, args: argparse.Namespace) -> Unsure | str:
    """The unsure scores of a judge, or why they are not known."""
    try:
        return calibration.unsure(matched, args.level, args.most_wrong)
    except NotEstimableError as reason:
        return str(reason)


def as_json(unsure: Unsure | str) -> dict[str, Any]:
    """As `--json` has it."""
    return {"why_not": unsure} if isinstance(unsure, str) else unsure.to_json()


def line(unsure: Unsure | str) -> str:
    """As the output has it."""
    if isinstance(unsure, str):
        return f"unsure scores: cannot be told: {unsure}"
    low, high = unsure.limits
    if low == high:
        return "unsure scores: none"
    share = " ".join(as_texts(unsure.share))
    wrong = "no score is sure"
    if unsure.wrong is not None:
        wrong = (
            f"of the verdicts on the others people contradict {' '.join(as_texts(unsure.wrong))}"
        )
    return (
        f"unsure scores: from {low:.3g} to {high:.3g}, which are {share} of all; {wrong}"
        " (cross-validated)"
    )


def write_limits(path: Path | None, found: Mapping[str, Unsure | str]) -> None:
    """Write what is unsure by metric, if a file was asked for; where that cannot be told the metric
    is not in it.
    """
    limits = {name: list(x.limits) for name, x in found.items() if isinstance(x, Unsure)}
    write(path, lambda: f"{dumps(limits)}\n")
