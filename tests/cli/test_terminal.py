"""What is printed can do nothing to a terminal."""

import json

import pytest
from hypothesis import given, strategies as st

from spanscore.cli import terminal


@given(st.text())
def test_printable_text_starts_no_escape_sequence_and_can_be_encoded(text):
    shown = terminal.printable(text)
    assert not any((ord(x) < 32 and x not in "\n\t") or 0x7F <= ord(x) <= 0x9F for x in shown)
    shown.encode()


@pytest.mark.parametrize(
    "character", ["\x1b", "\r", "\x9b", "\x07", "\u202e", "\u2066", "\u200b", "\ud800"]
)
def test_a_character_that_could_deceive_is_shown_as_its_escape(character):
    assert terminal.printable(character) == ascii(character)[1:-1]


@pytest.mark.parametrize("text", ["naïve café", "東京", "👩\u200d💻", "a\tb\nc"])
def test_what_people_write_stays_as_it_is(text):
    assert terminal.printable(text) == text


@given(st.text())
def test_json_lines_are_one_line_without_control_characters_and_lose_nothing(text):
    with pytest.MonkeyPatch.context() as patch:
        printed = []
        patch.setattr("builtins.print", printed.append)
        terminal.print_json({"text": text})
    assert "\n" not in printed[0]
    assert terminal.printable(printed[0]) == printed[0]
    assert json.loads(printed[0]) == {"text": text}


@given(st.text(), st.integers(1, 40))
def test_one_line_is_never_longer_than_asked(text, most):
    line = terminal.on_one_line(text, most)
    assert len(line) <= most
    assert "\n" not in line


def test_without_a_terminal_there_are_no_colours_and_lines_are_120_wide():
    console = terminal.console()
    assert (console.color_system, console.width) == (None, 120)


def test_columns_sets_the_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert terminal.console().width == 80


def test_no_color_takes_the_colours_off_a_terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.console().color_system is None


def test_progress_is_silent_without_a_terminal(capsys):
    with terminal.progress("scoring", 2) as done:
        done()
    assert capsys.readouterr().err == ""


def test_a_piped_table_has_no_trailing_blanks(capsys):
    from rich.table import Table

    table = Table(box=None)
    table.add_column("short")
    table.add_column("long")
    table.add_row("a", "")
    terminal.console().print(table)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines == [line.rstrip() for line in lines]
