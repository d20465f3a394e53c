"""The entry point of `spanscore`."""

import argparse
import importlib
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

import spanscore
from spanscore import local_files
from spanscore.cli import options, terminal
from spanscore.cli.terminal import printable
from spanscore.errors import InputError, OutputError, SpanscoreError, nearest

COMMANDS = {
    "serve": "receive OTLP, score agent traces, send the scores out",
    "run": "run a program, receive what it emits, and show the scores when it has ended",
    "eval": "score the agent traces in files",
    "test": "hold recorded traces against a suite of cases, as a gate in CI",
    "best-of": "find out which of several agents answers the conversations of a suite best",
    "compare": "say whether one run is better than another, and whether it is a regression",
    "report": (
        "write traces, scores and runs as an HTML page that shows what fails, and what each score"
        " rests on"
    ),
    "calibrate": (
        "hold a judge's scores against human labels, and correct later pass rates for its error"
    ),
    "inspect": "show the agent traces in files as they are rebuilt",
    "metrics": "list the metrics, or explain one",
    "config": "write a configuration file to start from, check one, or print the schema of one",
    "doctor": (
        "say whether everything works that a server depends on, and what to do where it does not"
    ),
    "scores": "list the scores of a server, and those that exporters could not deliver",
    "traces": "list the agent traces of a server, with their verdicts",
    "runs": "score what a server has stored: create runs, watch, pause, retry and delete them",
    "analytics": (
        "what the scores of a server come to: over time, by service, model or tool, between two"
        " versions"
    ),
    "monitors": (
        "watch scores of a server, or start runs there, at set times: create monitors, list their"
        " history"
    ),
    "quarantine": "list the requests that a server put aside since it could not read them",
    "repair": "save what can be read of a damaged journal or store, and put the damaged file aside",
    "demo": "replay recorded traces through a server of its own and show their scores",
}
"""Every command and what it does.

Its module (`-` is `_` there) has `add_arguments(parser)`, and `run(args) -> int` or `ACTIONS`, by
the word that follows the command.
"""

_OF_A_SERVER = ("grpc_health", "grpc_reflection")
"""What an import fails at where the extra `server` is missing."""

_FAILED, _INTERRUPTED, _PIPE_CLOSED = 1, 130, 141
_CODES = {InputError: 2, OutputError: 74}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns the exit code: 0 done, 1 failed (or a score did not reach what was asked), 2 bad input,
    74 what was to be printed or written does not fit, 130 interrupted, 141 when nobody reads the
    output any more.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    terminal.prepare_streams()
    try:
        code = _run(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        terminal.let_go_of_streams()
        return _PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 - the last stop: whatever went wrong is printed in one line
        return _explain(error, debug="--debug" in words)
    return code


def _run(words: Sequence[str]) -> int:
    try:
        args = _arguments(words)
    except SystemExit as done:  # argparse has printed its help, or the version
        return int(done.code or 0)
    return _acting(args.command, getattr(args, "action", "")).run(args)


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"spanscore.cli.{command.replace('-', '_')}")


def _acting(command: str, word: str = "") -> options.Action:
    """The action of a command that `word` names, else the command as one."""
    module = _module(command)
    run: Any = getattr(module, "run", None)
    takes = getattr(module, "TAKES", ())
    whole = options.Action(COMMANDS[command], module.add_arguments, run, takes)
    found: options.Action = getattr(module, "ACTIONS", {}).get(word, whole)
    return found


class _Parser(argparse.ArgumentParser):
    """Tells what is wrong with the arguments like every other error: in one line."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see {self.prog} --help")


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    """What `words` say.

    Raises InputError, which names the command whose help tells what there is.
    """
    args, unknown = _parser(words).parse_known_args(words)
    action = getattr(args, "action", "")
    called = f"spanscore {args.command} {action}".rstrip()
    if unknown:
        wrong = f"unrecognized arguments: {' '.join(unknown)}"
        raise InputError(f"{wrong}; see {called} --help")
    if foreign := options.refuse_foreign(args, called, _acting(args.command, action).takes):
        raise InputError(foreign)
    return args


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser, with the options of the one command that `words` name."""
    parser = _Parser(prog="spanscore", description=(spanscore.__doc__ or "").partition("\n")[0])
    parser.add_argument("--version", action="version", version=f"spanscore {spanscore.__version__}")
    options.explain_shared(parser)
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, title="commands"
    )
    named, following = options.first_word(words)
    if named and named not in COMMANDS:
        wrong = f"there is no command {printable(named)!r}; {nearest(named, COMMANDS)}"
        raise InputError(f"{wrong}; see spanscore --help")
    for name, summary in COMMANDS.items():
        command = options.add_command(commands, name, summary)
        if name == named:
            _declare(name, command, options.first_word(following)[0])
    return parser


def _declare(name: str, command: argparse.ArgumentParser, word: str) -> None:
    """Declare a command's options, or those of its action, where the next word names one."""
    acting = _acting(name, word)
    if word in getattr(_module(name), "ACTIONS", {}):
        command.prog = f"{command.prog} {word}"
        command.description = options.sentence(acting.summary)
        command.add_argument("action", choices=[word], metavar=word, help=argparse.SUPPRESS)
    acting.add_arguments(command)
    options.add_shared(command, acting.takes)


def _explain(error: Exception, *, debug: bool) -> int:
    """Say on standard error what went wrong, and give the exit code."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, OSError) and error.errno in local_files.NO_ROOM:
        terminal.let_go_of_streams()
        error = local_files.cannot_write(error.filename or "the output", error)
    if isinstance(error, ModuleNotFoundError) and error.name in _OF_A_SERVER:
        error = InputError("this takes what a server needs: pip install 'spanscore[server]'")
    lines = str(error).splitlines() or [type(error).__name__]
    if not isinstance(error, SpanscoreError):
        lines = [f"{type(error).__name__}: {' '.join(lines)} (this is a bug; --debug shows where)"]
    try:
        if debug:
            traceback.print_exception(error)
        for line in lines:
            terminal.say(f"error: {line}")
    except OSError:  # standard error is closed or full too
        terminal.let_go_of_streams()
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), _FAILED)


if __name__ == "__main__":
    sys.exit(main())
