"""Declare options, alone and in the groups that commands share."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

Declare = Callable[[argparse.ArgumentParser], None]


class Action(NamedTuple):
    """What an action does, in a phrase for its help; its options; and what runs it."""

    summary: str
    add_arguments: Declare
    run: Callable[..., Any]


_TYPES: dict[str, Callable[[str], Any]] = {
    "FILE": Path,
    "FOLDER": Path,
    "N": int,
    "X": float,
    "SHARE": float,
}
"""What the words of a value are read as; all others are texts."""


def argument(parser: Any, spec: str, text: str, *, repeated: bool = False, **how: Any) -> None:
    """Declare an option such as `-n/--limit N`, one without a value such as `--json`, or what is
    given by its place, such as `path PATH`.

    `repeated`: it may be given several times. `how` is as argparse has it.
    """
    names, _, value = spec.partition(" ")
    if value:
        how = {"metavar": value, **({"type": x} if (x := _TYPES.get(value)) else {}), **how}
    elif "choices" not in how:
        how["action"] = "store_true"
    if repeated:
        how, text = {**how, "action": "append", "default": []}, f"{text}; may be repeated"
    parser.add_argument(*names.split("/"), help=text, **how)


def add_config(parser: Any, text: str = "the configuration; without it, the defaults") -> None:
    """Declare `--config`."""
    argument(parser, "-c/--config FILE", text)


def add_judge(parser: Any) -> None:
    """Declare the options of commands that ask a judge."""
    add_config(parser)
    argument(parser, "--model MODEL", "the model that judges, in place of the configured one")
    argument(parser, "--no-cache", "ask the judge anew, and keep its answers for this run only")


def add_json(parser: Any, text: str = "print JSON, one object a line") -> None:
    """Declare `--json`."""
    argument(parser, "--json", text)


def add_limit(parser: Any, default: int = 50) -> None:
    """Declare `--limit`."""
    text = "show so many at most, 0 for all; default: %(default)s"
    argument(parser, "-n/--limit N", text, default=default)


def add_actions(
    parser: argparse.ArgumentParser, actions: Mapping[str, Action], common: Declare
) -> None:
    """Declare a command's actions, each with its options beside `common`."""
    found = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    for name, (summary, declare, _) in actions.items():
        action = found.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
        )
        common(action)
        declare(action)
