"""`spanscore scores`: what exporters could not deliver, listed and noted to be sent again."""

import json

import pytest

from spanscore.cli.main import main
from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.model.trace import Target
from spanscore.model.undelivered import Undelivered
from spanscore.store.config import Config
from spanscore.store.store import Store

_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def _score(metric):
    return Evaluation(
        scope="trace",
        subject_id="c" * 32,
        metric=metric,
        outcome=Score(0.25, "because"),
        threshold=0.5,
        scale=(0.0, 1.0),
        evaluator=Evaluator("CODE", metric, "1"),
        target=Target(_TRACE, "0b" * 8, 1, 2),
        session_id="s-1",
        agent_name="clerk",
        service_name="shop",
    )


@pytest.fixture
def store(tmp_path):
    """A store with two scores, open as by a server."""
    opened = Store.open(Config(url=f"sqlite:///{tmp_path}/spanscore.db"))
    opened.commit([], [_score("task_completion"), _score("plan_adherence")])
    yield opened
    opened.close()


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Run `scores`: exit code, standard output, standard error."""
    monkeypatch.setenv("COLUMNS", "120")
    file = tmp_path / "spanscore.yaml"
    file.write_text(
        f"store: {{url: 'sqlite:///{tmp_path}/spanscore.db'}}\n"
        "export: {exporters: {otlp_grpc: {}, phoenix: {}}}\n"
    )

    def command(*words):
        code = main(["scores", "-c", str(file), *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def _missed(store, *seqs, exporter="otlp_grpc", error="INTERNAL: shard is full"):
    store.set_cursor(exporter, 2, [Undelivered(exporter, x, ("traces",), "fault", error, 10**18) for x in seqs])


def test_what_is_undelivered_is_listed_beside_a_server(store, run):
    _missed(store, 1)
    code, out, _ = run("--undelivered")
    title, error, _, row, *_ = out.splitlines()
    assert (code, title, error) == (0, "otlp_grpc: 1 score, the backend failed at them", "INTERNAL: shard is full")
    assert row.split() == ["2001-09-09", "01:46", "task_completion", "0.25", "fail", _TRACE, "traces"]


def test_nothing_undelivered_is_said(store, run):
    assert run("--undelivered") == (0, "nothing is undelivered\n", "")


def test_json_lines_hold_the_score_and_why(store, run):
    _missed(store, 2)
    found = json.loads(run("--undelivered", "--json")[1])
    assert (found["exporter"], found["reason"], found["error"]) == ("otlp_grpc", "fault", "INTERNAL: shard is full")
    assert (found["score"]["metric"], found["score"]["trace_id"]) == ("plan_adherence", _TRACE)


def test_resend_leaves_a_note_for_the_server(store, run):
    _missed(store, 1, 2)
    code, out, _ = run("--resend")
    assert (code, out.startswith("2 scores are to be sent again")) == (0, True)
    assert store.undelivered() == {"otlp_grpc": (2, 2)}


def test_what_is_to_be_sent_again_is_shown_so(store, run):
    _missed(store, 1)
    run("--resend")
    assert "to be sent again" in run("--undelivered")[1].splitlines()[3]


def test_resend_of_one_exporter_leaves_the_others_alone(store, run):
    _missed(store, 1)
    _missed(store, 1, exporter="phoenix")
    run("--resend", "--exporter", "phoenix")
    assert store.undelivered() == {"otlp_grpc": (1, 0), "phoenix": (1, 1)}


def test_an_exporter_that_is_not_configured_would_send_nothing(store, run):
    code, _, err = run("--resend", "--exporter", "otlp_htp")
    assert (code, "--exporter otlp_htp: the configuration has no such exporter" in err) == (2, True)


def test_forget_lists_them_no_more(store, run):
    _missed(store, 1)
    assert run("--forget")[1] == "1 score is forgotten as undelivered\n"
    assert store.undelivered() == {}


def test_what_a_backend_answered_cannot_speak_to_the_terminal(store, run):
    _missed(store, 1, error="\x1b[2J")
    assert "\x1b" not in run("--undelivered")[1]


def test_without_a_wish_it_says_which_there_are(run):
    code, _, err = run()
    assert (code, "--undelivered lists scores" in err) == (2, True)


def test_without_a_store_it_is_bad_input(run):
    code, _, err = run("--undelivered")
    assert (code, "no store there" in err) == (2, True)


@pytest.mark.parametrize("columns", [80, 100, 140])
def test_the_list_fits_the_terminal_and_loses_nothing(store, run, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    _missed(store, 1, 2)
    out = run("--undelivered")[1]
    assert max(map(len, out.splitlines())) <= columns
    assert "…" not in out
