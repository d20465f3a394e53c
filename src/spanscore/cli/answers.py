"""The options of commands that ask a judge: where its answers are kept from one run to the next."""

import argparse
from pathlib import Path

from spanscore.config import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--cache` and `--no-cache`."""
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--cache",
        metavar="FILE",
        type=Path,
        help=(
            "keep the judge's answers in this file, so that no run pays for them again; default: in"
            " the user's cache folder"
        ),
    )
    chosen.add_argument(
        "--no-cache",
        action="store_true",
        help="ask the judge anew, and keep its answers for this run only",
    )


def applied(settings: Settings, args: argparse.Namespace) -> Settings:
    """The settings with what the options say in place of what they say."""
    changed: dict[str, object] = {}
    if args.cache is not None:
        changed = {"path": args.cache, "between_runs": True}
    elif args.no_cache:
        changed = {"between_runs": False}
    cache = settings.judge.cache.model_copy(update=changed)
    return settings.model_copy(update={"judge": settings.judge.model_copy(update={"cache": cache})})
