"""Scores as a person reads them."""

import io

import pytest
from rich.console import Console

from spanscore.cli import score_summary
from spanscore.cli.score_summary import Row
from spanscore.model.span import LogRecord, Resource, Scope
from spanscore.received_scores import read_external


@pytest.fixture(params=[80, 120])
def printed(request):
    """A function that prints on a console of that width, and what was printed."""
    file = io.StringIO()
    console = Console(file=file, width=request.param, markup=False, emoji=False, highlight=False)

    def run(function, *args):
        function(console, *args)
        return file.getvalue()

    run.width = request.param
    return run


def _scored(metric, value, label="pass", reason="fine"):
    return Row(metric, "scored", value, label, reason)


def test_no_line_is_wider_than_the_terminal(printed):
    rows = [
        _scored("argument_correctness", 0.5, reason="word " * 100),
        Row("coherence", "skipped", None, "", "none"),
    ]
    text = printed(
        score_summary.print_block, "trace " + "a" * 32, "What is the weather? " * 20, rows
    )
    assert max(map(len, text.splitlines())) <= printed.width


def test_a_block_shows_metric_score_label_and_reason(printed):
    text = printed(score_summary.print_block, "trace abc", "Hi", [_scored("coherence", 0.756)])
    assert text.splitlines()[-2].split() == ["coherence", "0.76", "pass", "fine"]


@pytest.mark.parametrize(("given", "label"), [(True, "pass"), (False, "fail")])
def test_a_yes_or_no_of_a_person_is_shown_as_pass_or_fail(given, label):
    event = LogRecord(
        time_ns=1,
        trace_id="a" * 32,
        span_id="b" * 16,
        event_name="gen_ai.evaluation.result",
        body=None,
        attributes={
            "gen_ai.evaluation.name": "helpful",
            "gen_ai.evaluation.score.value": given,
            "spanscore.score.source": "human",
        },
        resource=Resource({}),
        scope=Scope("", ""),
    )
    [score] = read_external([], [event])
    assert (Row.of(score).value, Row.of(score).label) == (float(given), label)


def test_a_skip_shows_its_reason_and_no_score(printed):
    text = printed(
        score_summary.print_block,
        "trace abc",
        None,
        [Row("coherence", "skipped", None, "", "no output")],
    )
    assert text.splitlines()[-2].split() == ["coherence", "-", "skipped", "no", "output"]


def test_an_endless_reason_is_cut(printed):
    text = printed(
        score_summary.print_block,
        "trace abc",
        None,
        [_scored("coherence", 1.0, reason="x " * 10_000)],
    )
    assert len(text) < 3000


def test_a_reason_is_neither_markup_nor_an_escape_sequence(printed):
    rows = [_scored("coherence", 1.0, reason="[red]\x1b[2J[/red]")]
    text = printed(score_summary.print_block, "\x1b[2J", "\x1b[2J", rows)
    assert "\x1b" not in text
    assert "[red]\\x1b[2J[/red]" in text


def test_metrics_that_failed_for_the_same_reason_share_one_line():
    file = io.StringIO()
    rows = [Row(metric, "failed", None, "", "no key") for metric in ("confidence", "plan_quality")]
    console = Console(file=file, width=80, highlight=False)
    score_summary.print_block(console, "trace abc", None, [*rows, _scored("coherence", 1.0)])
    assert file.getvalue().splitlines()[-2:] == ["failed: confidence, plan_quality: no key", ""]
    assert "confidence" not in file.getvalue().splitlines()[2]
