"""Declare options, alone, in the groups that commands share, and those of the whole line."""

import argparse
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

Declare = Callable[[argparse.ArgumentParser], None]

SERVER: Final = ("server", "token_file", "ca_file", "tenant")
"""What a command takes that asks a running server."""
PLACE: Final = ("store", *SERVER)
"""What a command takes that reads a store, or asks a running server."""


class Action(NamedTuple):
    """What an action does, in a phrase for its help; its own options; what runs it; and which
    options of the whole line it takes.
    """

    summary: str
    add_arguments: Declare
    run: Callable[[argparse.Namespace], int]
    takes: Collection[str] = ()


_TYPES = {"FILE": Path, "FOLDER": Path, "N": int, "X": float, "SHARE": float}
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


_SHARED: Final = {
    "--server HOST:PORT": "its api.endpoint; default of what needs a server: 127.0.0.1:4329",
    "--token-file FILE": "a file with the bearer token",
    "--ca-file FILE": "use TLS, and trust what this PEM file contains",
    "--tenant NAME": "what this tenant has (tenancy); a tenant's own token needs no name",
    "--store URL": "read its store instead: a file, or a URL as store.url has it",
    "--json/--jsonl": "print JSON, one object a line",
    "--debug": "show the traceback of an error",
}
"""The options that may stand anywhere on the line; a command names those that it takes."""

_WITH_VALUE: Final = frozenset(x.partition(" ")[0] for x in _SHARED if " " in x)
_NAMES: Final = _WITH_VALUE | {name for x in _SHARED for name in x.split(" ")[0].split("/")}
_FOREIGN: Final = {
    "store": "reads no store",
    **dict.fromkeys(SERVER, "asks no server"),
    "json": "prints no JSON",
}


def explain_shared(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the whole line, with what they mean."""
    server = parser.add_argument_group(
        "a running server",
        "These stand before or after a command that takes them. SPANSCORE_SERVER,"
        " SPANSCORE_TOKEN_FILE, SPANSCORE_CA_FILE and SPANSCORE_TENANT stand for them.",
    )
    for number, (spec, text) in enumerate(_SHARED.items()):
        argument(server if number < len(PLACE) else parser, spec, text)


def add_shared(parser: argparse.ArgumentParser, takes: Collection[str] = ()) -> None:
    """Have a command's parser know the options of the whole line, and name those it `takes`."""
    for spec in _SHARED:
        argument(parser, spec, argparse.SUPPRESS, default=argparse.SUPPRESS)
    if takes:
        names = ", ".join(f"--{x.replace('_', '-')}" for x in _FOREIGN if x in takes)
        also = f"Also, as spanscore --help explains: {names}."
        parser.epilog = " ".join(filter(None, (parser.epilog, also)))


def refuse_foreign(args: argparse.Namespace, called: str, takes: Collection[str]) -> str | None:
    """What is wrong where an option of the whole line is given that the command does not take."""
    for name, why in _FOREIGN.items():
        if getattr(args, name) and name not in takes:
            may_ask = "server" in takes and name != "json"
            instead = "name a server by --server" if may_ask else "leave it out"
            return f"--{name.replace('_', '-')}: {called} {why}; {instead}"
    return None


def first_word(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The first word that is no option of the whole line, nor the value of one, and those after
    it; "" where another option comes before.
    """
    at = 0
    while at < len(words) and words[at].partition("=")[0] in _NAMES:
        at += 2 if words[at] in _WITH_VALUE else 1
    if at >= len(words) or words[at].startswith("-"):
        return "", ()
    return words[at], words[at + 1 :]


def add_config(parser: Any, text: str = "the configuration; without it, the defaults") -> None:
    """Declare `--config`."""
    argument(parser, "-c/--config FILE", text)


def add_judge(parser: Any) -> None:
    """Declare the options of commands that ask a judge."""
    add_config(parser)
    argument(parser, "--model MODEL", "the model that judges, in place of the configured one")
    argument(parser, "--no-cache", "ask the judge anew, and keep its answers for this run only")


def add_limit(parser: Any, default: int = 50) -> None:
    """Declare `--limit`."""
    text = "show so many at most, 0 for all; default: %(default)s"
    argument(parser, "-n/--limit N", text, default=default)


def sentence(summary: str) -> str:
    """A summary as a help begins."""
    return f"{summary[0].upper()}{summary[1:]}."


def add_command(commands: Any, name: str, summary: str) -> argparse.ArgumentParser:
    """Declare a command or an action."""
    added: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=sentence(summary)
    )
    return added


def add_actions(parser: argparse.ArgumentParser, actions: Mapping[str, Action]) -> None:
    """Declare a command's actions, each with its options."""
    found = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    for name, (summary, declare, _, takes) in actions.items():
        action = add_command(found, name, summary)
        declare(action)
        add_shared(action, takes)
