"""What commands print fits terminals of 80, 100 and 140 columns, and nothing in it is cut or broken
within a word.
"""

import json
import random
import re
from pathlib import Path

import pytest
from rich.text import Text

from spanscore.cli import terminal
from spanscore.cli.main import main

_ROOT = Path(__file__).parents[2]
_RECORDINGS = _ROOT / "examples" / "recordings"
_RECORDING = str(_RECORDINGS / "pydantic-ai")
_SUITE = str(_ROOT / "examples" / "suite" / "travel.yaml")
_LONG = ("rubric.instruction_following_and_tone", "company_policy_adherence_of_refund_agents")
_WIDTHS = [80, 100, 140]


@pytest.fixture
def printed(monkeypatch, capsys, tmp_path):
    """`printed(columns, *words)`: what a command prints in a terminal as wide as that."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recorded.yaml").write_text(
        f"judge: {{recorded_answers: {_RECORDINGS / 'pydantic-ai.answers'}}}\nembedding:"
        " {provider: ngrams}\n"
    )

    def run(columns, *words):
        monkeypatch.setenv("COLUMNS", str(columns))
        main(words)
        return capsys.readouterr().out

    return run


@pytest.fixture
def two_runs(tmp_path):
    """Two files of scores by metrics with long names, of which one is worse."""
    chance = random.Random(1)
    for name, loss in (("a.jsonl", 0.0), ("b.jsonl", 0.25)):
        scores = [
            _score(metric, number, round(max(0.0, chance.random() - loss), 2))
            for number in range(12)
            for metric in ("task_completion", *_LONG)
        ]
        (tmp_path / name).write_text("".join(f"{json.dumps(x)}\n" for x in scores))


def _score(metric, number, value):
    return {
        "scope": "trace",
        "status": "scored",
        "metric": metric,
        "value": value,
        "scale": [0.0, 1.0],
        "label": "pass" if value >= 0.5 else "fail",
        "threshold": 0.5,
        "trace_id": f"{number:032x}",
        "session_id": None,
        "evaluator": {
            "kind": "LLM",
            "name": metric,
            "version": "1",
            "model": "x",
            "prompt_hash": "h",
        },
    }


@pytest.mark.slow
@pytest.mark.parametrize("columns", _WIDTHS)
@pytest.mark.parametrize(
    "words",
    [
        ("eval", "-c", "recorded.yaml", _RECORDING),
        ("eval", "-c", "recorded.yaml", "--dry-run", _RECORDING),
        ("inspect", _RECORDING),
        ("inspect", "--explain", _RECORDING),
        ("inspect", "--unread", _RECORDING),
        ("test", _SUITE, _RECORDING),
        ("best-of", _SUITE, f"a={_RECORDING}", f"b={_RECORDING}", "--dry-run"),
        ("metrics",),
        ("doctor", "--no-judge"),
        ("compare", "a.jsonl", "b.jsonl"),
    ],
    ids=lambda words: " ".join(x for x in words if "/" not in x),
)
@pytest.mark.usefixtures("two_runs")
def test_no_line_is_too_long_and_nothing_is_cut(printed, words, columns):
    out = printed(columns, *words)
    assert [line for line in out.splitlines() if len(line) > columns] == []
    assert "…" not in out


@pytest.mark.slow
@pytest.mark.parametrize("columns", _WIDTHS)
def test_the_closing_table_of_eval_has_its_names_labels_and_intervals_whole(printed, columns):
    table = printed(columns, "eval", "-c", "recorded.yaml", _RECORDING).split("\nmetric ")[-1]
    assert "conversation_completion" in table
    assert "1 of 2 passed" in table or columns >= 116
    assert table.count("[") == len(re.findall(r"\[\d\.\d\d, \d\.\d\d\]", table))


@pytest.mark.parametrize("columns", _WIDTHS)
@pytest.mark.usefixtures("two_runs")
def test_long_names_of_metrics_are_broken_after_a_separator_only(printed, columns):
    words = printed(columns, "compare", "a.jsonl", "b.jsonl").split()
    pieces = {
        x for name in _LONG for x in (name, *name.replace("_", "_ ").replace(".", ". ").split())
    }
    starts = [x for x in words if x.startswith(("rubric", "company"))]
    assert starts
    assert all(x in pieces or x.endswith(("_", ".")) for x in starts)


def test_json_is_broken_at_its_separators_and_goes_on_under_its_beginning(printed):
    lines = printed(80, "inspect", _RECORDING).splitlines()
    at = next(number for number, line in enumerate(lines) if "2 restaurant_booking" in line)
    column = lines[at].index("{")
    assert [x[column:] for x in lines[at : at + 2]] == [
        '{"city": "Tokyo", "cuisine": "sushi",',
        '"party_size": 2}',
    ]
    assert set(lines[at + 1][:column]) <= set("│ ")


@pytest.mark.parametrize("columns", _WIDTHS)
def test_json_and_addresses_without_blanks_are_broken_after_a_separator(monkeypatch, columns):
    text = f'found {{"name":"an orchid","at":"https://shop.example/{"flowers/" * 30}"}} 接客係'
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = _lines_of(terminal.branch(Text("result  "), text))
    assert "".join(x.strip() for x in lines).replace(" ", "") == f"result{text}".replace(" ", "")
    assert all(len(line) <= columns for line in lines)
    assert all(x.endswith((",", ":", "/", " ", "found", "an")) for x in lines[:-1])


def test_a_word_longer_than_a_line_is_broken_where_the_line_ends(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    lines = _lines_of(terminal.branch(Text("x"), "y" * 70))
    assert [x.count("y") for x in lines] == [27, 27, 16]


def _lines_of(shown):
    output = terminal.console()
    with output.capture() as captured:
        output.print(shown)
    return [x.rstrip() for x in captured.get().splitlines()]


def test_a_long_text_in_json_is_cut_with_its_length():
    assert terminal.shown({"page": "x" * 5000}).endswith('x… (5,000 characters)"}')


def test_a_long_list_in_json_is_cut_with_its_length():
    assert terminal.shown(list(range(100))).endswith('29, "… (100 items)"]')


def test_a_long_object_in_json_is_cut_with_its_length():
    assert terminal.shown({str(n): n for n in range(100)}).endswith('"…": "100 keys"}')


def test_what_is_shown_of_a_value_is_bounded():
    assert len(terminal.shown([["x" * 290] * 30] * 30)) < 1100


def test_a_broken_name_has_as_many_terminal_cells_as_there_is_room_for():
    assert terminal.broken("订单_退款_取消", 10) == "订单_退款_\n取消"


@pytest.mark.parametrize("name", ["a" * 50, "a_" * 50, "a b", "", "__", "a\nb_c"])
def test_a_broken_name_loses_nothing_but_the_blanks_where_it_is_broken(name):
    assert terminal.broken(name, 10).replace("\n", "").replace(" ", "") == name.replace(
        "\n", ""
    ).replace(" ", "")
