"""The line in which a server says how its work goes."""

import io

import pytest

from spanscore.cli import serve as status_line
from spanscore.telemetry import Meter, declared

QUIET = {
    "open_traces": 0,
    "waiting_traces": 0,
    "waiting_parts": 0,
    "scores_to_export": {"otlp_grpc": 0},
    "scores_undelivered": {"otlp_grpc": 0},
}


@pytest.fixture
def meter():
    counted = Meter()
    counted.add(declared.AGENT_TRACES, 1200)
    counted.add(declared.EVALUATIONS_SCORED, 40, metric="coherence", label="fail")
    counted.add(declared.EVALUATIONS_SCORED, 60, metric="coherence", label="pass")
    return counted


def test_it_has_traces_scores_what_fails_and_where_scores_go(meter):
    assert status_line.status(meter, QUIET, ["otlp_grpc"]) == (
        "1,200 traces, 100 scores, 40 failing, 0 traces waiting; scores go to otlp_grpc"
    )


def test_all_that_waits_is_one_figure(meter):
    waiting = {**QUIET, "open_traces": 1, "waiting_traces": 2, "waiting_parts": 3}
    assert "6 traces waiting" in status_line.status(meter, waiting, ["otlp_grpc"])


def test_an_exporter_that_is_behind_is_named_with_what_it_has_not_sent(meter):
    behind = {**QUIET, "scores_to_export": {"otlp_grpc": 5}, "scores_undelivered": {"otlp_grpc": 2}}
    text = status_line.status(meter, behind, ["otlp_grpc", "phoenix"])
    assert text.endswith("scores go to otlp_grpc (5 to send, 2 undelivered), phoenix")


def test_what_could_not_be_measured_is_counted_where_there_is_any(meter):
    counts = dict.fromkeys(declared.EVALUATIONS_FAILED.labels, "x")
    meter.add(declared.EVALUATIONS_FAILED, 3, **counts)
    assert "3 not measured" in status_line.status(meter, QUIET, [])


def test_without_an_exporter_scores_stay_in_the_store(meter):
    assert status_line.status(meter, QUIET, []).endswith(
        "scores stay in the store: no exporter is configured"
    )


def test_log_lines_stand_above_the_line_which_stays(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    stream = io.StringIO()
    line = status_line._Line(stream)
    line.show("1 traces")
    line.write("a log line\n")
    line.end()
    assert stream.getvalue() == "\r\x1b[2K1 traces\r\x1b[2Ka log line\n1 traces\n"


def test_the_line_fits_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    stream = io.StringIO()
    status_line._Line(stream).show("x" * 200)
    assert len(stream.getvalue().removeprefix("\r\x1b[2K")) == 29
