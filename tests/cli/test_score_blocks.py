"""Scores as a person reads them."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from spanscore.cli import score_summary
from spanscore.model.score import Skip
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


def _row(metric, status, value=None, label=None, reason="fine", outcome=None):
    return SimpleNamespace(
        metric=metric,
        status=status,
        value=value,
        shown_label=label,
        reason=reason,
        outcome=outcome,
        is_external=False,
    )


def _scored(metric, value, label="pass", reason="fine"):
    return _row(metric, "scored", value, label, reason)


def _skipped(metric, reason):
    return _row(metric, "skipped", reason=reason, outcome=Skip(reason, "missing_input"))


def test_no_line_is_wider_than_the_terminal(printed):
    rows = [
        _scored("argument_correctness", 0.5, reason="word " * 100),
        _skipped("coherence", "none"),
    ]
    text = printed(
        score_summary.print_block, "trace " + "a" * 32, "What is the weather? " * 20, rows
    )
    assert max(map(len, text.splitlines())) <= printed.width


def test_a_block_shows_metric_score_label_and_reason(printed):
    text = printed(score_summary.print_block, "trace abc", "Hi", [_scored("coherence", 0.756)])
    assert text.splitlines()[-2].split() == ["coherence", "0.76", "pass", "fine"]


@pytest.mark.parametrize(("given", "label"), [(True, "pass"), (False, "fail")])
def test_a_yes_or_no_of_a_person_is_shown_as_pass_or_fail(printed, given, label):
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
    text = printed(score_summary.print_block, "trace abc", None, read_external([], [event]))
    assert text.splitlines()[-2].split() == ["helpful", "(human)", f"{given:.2f}", label]


def test_a_skip_shows_its_reason_and_no_score(printed):
    text = printed(
        score_summary.print_block, "trace abc", None, [_skipped("coherence", "no output")]
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
    names = ("confidence", "plan_quality")
    rows = [_row(x, "failed", reason="no key") for x in names]
    console = Console(file=file, width=80, highlight=False)
    score_summary.print_block(console, "trace abc", None, [*rows, _scored("coherence", 1.0)])
    assert file.getvalue().splitlines()[-2:] == ["failed: confidence, plan_quality: no key", ""]
    assert "confidence" not in file.getvalue().splitlines()[2]
