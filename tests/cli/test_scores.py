"""`spanscore scores`: scores listed, and what exporters could not deliver, to be sent again."""

import json
from dataclasses import replace

import pytest

from spanscore.cli import server
from spanscore.cli.main import main
from spanscore.model.score import Evaluation, Evaluator, Score, Skip, Undelivered
from spanscore.model.span import TENANT, with_headers
from spanscore.model.trace import Target
from spanscore.store.config import Config
from spanscore.store.store import Store, StoredTrace
from spanscore.testing.traces import agent_trace

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
    store.set_cursor(
        exporter, 2, [Undelivered(exporter, x, ("traces",), "fault", error, 10**18) for x in seqs]
    )


def test_what_is_undelivered_is_listed_beside_a_server(store, run):
    _missed(store, 1)
    code, out, _ = run("--undelivered")
    title, error, _, row, *_ = out.splitlines()
    assert (code, title, error) == (
        0,
        "otlp_grpc: 1 score, the backend failed at them",
        "INTERNAL: shard is full",
    )
    assert row.split() == [
        "2001-09-09",
        "01:46",
        "task_completion",
        "0.25",
        "fail",
        _TRACE,
        "traces",
    ]


def test_nothing_undelivered_is_said(store, run):
    assert run("--undelivered") == (0, "nothing is undelivered\n", "")


def test_json_lines_hold_the_score_and_why(store, run):
    _missed(store, 2)
    found = json.loads(run("--undelivered", "--json")[1])
    assert (found["exporter"], found["reason"], found["error"]) == (
        "otlp_grpc",
        "fault",
        "INTERNAL: shard is full",
    )
    assert (found["score"]["metric"], found["score"]["trace_id"]) == ("plan_adherence", _TRACE)


def test_resend_leaves_a_note_for_the_server(store, run):
    _missed(store, 1, 2)
    code, out, _ = run("--resend")
    assert (code, out.startswith("2 scores are to be sent again")) == (0, True)
    assert store.undelivered() == {"otlp_grpc": (2, 2)}


@pytest.mark.slow
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


def test_without_any_option_the_scores_are_listed(store, run):
    code, out, _ = run()
    assert code == 0
    assert [line.split()[1:4] for line in out.splitlines() if "trace" in line] == [
        ["fail", "plan_adherence", "0.25"],
        ["fail", "task_completion", "0.25"],
    ]


def test_below_each_score_stands_its_reason(store, run):
    assert run("--metric", "task_completion")[1].splitlines()[1].strip() == "because"


def test_json_lines_are_scores_as_eval_prints_them(store, run):
    scores = [json.loads(line) for line in run("--json")[1].splitlines()]
    assert [(x["metric"], x["value"], x["label"]) for x in scores] == [
        ("plan_adherence", 0.25, "fail"),
        ("task_completion", 0.25, "fail"),
    ]


def test_json_lines_name_the_score_its_agent_and_its_service(store, run):
    [first, *_] = [json.loads(line) for line in run("--json")[1].splitlines()]
    known = store.score(first["uid"])
    assert (first["agent_name"], first["service_name"]) == (known.agent_name, known.service_name)


@pytest.mark.parametrize(
    "moment", ["9999-12-31", "0001-01-01", "1000000d", "1969-12-31T23:59+01:00"]
)
def test_a_time_that_no_store_can_keep_is_the_nearest_one_that_it_can(moment):
    assert 0 <= server.since_ns(moment) < 2**63


@pytest.mark.parametrize(
    "words",
    [
        ("--service", "other"),
        ("--session", "other"),
        ("--source", "human"),
        ("--since", "2200-01-01"),
    ],
)
def test_where_nothing_meets_the_conditions_that_is_said(store, run, words):
    assert run(*words)[1] == "No matching scores.\n"


def test_where_only_skipped_ones_match_their_number_is_said(store, run):
    skipped = replace(_score("faithfulness"), outcome=Skip("no model is configured"))
    store.commit([], [skipped])
    assert run("--metric", "faithfulness")[1] == "No matching scores (1 skipped: --skipped).\n"


def test_the_scores_of_a_trace_are_listed_with_what_was_skipped(store, run):
    skipped = replace(_score("faithfulness"), outcome=Skip("no model is configured"))
    store.commit(
        [],
        [
            skipped,
            replace(_score("x"), target=Target("e" * 32, "0b" * 8, 1, 2), subject_id="d" * 32),
        ],
    )
    code, out, _ = run("--trace", _TRACE.upper())
    named = [line.split()[1:3] for line in out.splitlines() if "trace" in line]
    assert (code, sorted(named)) == (
        0,
        [["fail", "plan_adherence"], ["fail", "task_completion"], ["skipped", "faithfulness"]],
    )


def test_a_trace_without_scores_says_why(store, run, tmp_path):
    trace = agent_trace()
    store.commit([StoredTrace(trace, 1, "")], [])
    with (tmp_path / "spanscore.yaml").open("a") as file:
        file.write("evaluation: {sampling: 0}\n")
    found = run("--trace", trace.trace_ids[0])
    assert found == (
        0,
        "No score: left out of the sample: evaluation.sampling has 0 of the traces evaluated\n",
        "",
    )


def test_a_trace_that_is_not_stored_may_be_known_to_a_server(store, run):
    code, _, err = run("--trace", "f" * 32)
    assert (code, "nothing is stored under it" in err, "--server" in err) == (2, True, True)


def test_a_server_says_why_a_trace_has_no_score(serving, capsys):
    assert main(["scores", "--server", serving.address, "--trace", serving.ids[0]]) == 0
    assert capsys.readouterr().out.startswith("No score: nothing was measured when it was stored")


def test_the_limit_says_that_there_may_be_more(store, run):
    assert run("--limit", "1")[1].splitlines()[-1] == "the newest 1; --limit shows more"


def test_a_store_can_be_named_by_its_file(store, tmp_path, capsys):
    assert main(["scores", "--store", str(tmp_path / "spanscore.db"), "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--since", "yesterday"), "give a duration such as 24h"),
        (("--limit", "-1"), "0 shows all"),
        (("--token-file", "x"), "go with --server"),
        (("--exporter", "phoenix"), "goes with --undelivered"),
        (("--server", "127.0.0.1:1"), "is a server running there"),
    ],
)
def test_what_cannot_be_is_said_with_what_to_do(store, run, words, hint):
    code, out, err = run(*words)
    assert (code in {1, 2}, out) == (True, "")
    assert hint in err


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


def test_the_scores_of_a_tenant_are_listed_by_its_name(store, run):
    target = replace(_score("").target, resource=with_headers({}, ((TENANT, "acme"),)))
    store.commit([], [replace(_score("goal_accuracy"), target=target)])

    def metrics(*words):
        return {json.loads(line)["metric"] for line in run("--json", *words)[1].splitlines()}

    assert metrics("--tenant", "acme") == {"goal_accuracy"}
    assert metrics() == {"task_completion", "plan_adherence"}
    assert metrics("--tenant", "blue") == set()


def test_scores_of_a_run_that_there_is_not_are_an_error(run, store):
    code, out, err = run("--run", "nope")
    assert (code, out) == (2, "")
    assert "--run nope: there is no such run" in err


def test_the_scores_of_a_run_that_was_deleted_are_listed(run, store):
    store.commit([], [replace(_score("goal_accuracy"), run="a1")])
    code, out, _ = run("--run", "a1", "--json")
    assert (code, json.loads(out)["metric"]) == (0, "goal_accuracy")
