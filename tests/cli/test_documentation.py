"""Every command, and every option of it, is in docs/cli.md."""

import argparse
from pathlib import Path

import pytest

from spanscore.cli import main

_DOCUMENT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


def _section(command):
    """The command's own, after the head, which has the options of many commands."""
    head, _, rest = _DOCUMENT.partition("\n## ")
    return head + f"\n## {rest}".split(f"\n## {command}\n")[1].split("\n## ")[0]


def _subparser(command):
    subparsers = next(
        x for x in main._parser([command])._actions if isinstance(x, argparse._SubParsersAction)
    )
    return subparsers.choices[command]


def _words(parser):
    """What a user can write: options, sub-commands, and the names of what is to be given."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, nested in action.choices.items():
                yield name
                yield from _words(nested)
        elif action.help != argparse.SUPPRESS and action.dest != "help":
            yield from action.option_strings
            if action.metavar:
                yield action.metavar


@pytest.mark.parametrize("command", main.COMMANDS)
def test_a_command_is_documented_with_all_its_options(command):
    section = _section(command)
    assert [word for word in _words(_subparser(command)) if word not in section] == []


@pytest.mark.parametrize("command", main.COMMANDS)
def test_the_help_of_a_command_is_a_sentence_that_starts_with_what_it_does(command):
    assert _subparser(command).description.endswith(".")


def test_no_command_is_documented_that_is_not_there():
    headings = [
        line.removeprefix("## ") for line in _DOCUMENT.splitlines() if line.startswith("## ")
    ]
    assert headings == list(main.COMMANDS)


@pytest.mark.parametrize("option", ["--version", "--debug"])
def test_the_options_of_every_command_are_documented(option):
    assert option in _DOCUMENT.split("\n## ")[0]
