"""`spanscore eval` with a model: who is asked, what a dry run promises, and the exit codes."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from judged_harness import STAGES
from obliging_model import ObligingModel, asked_for, question_of
from scripted_server import ScriptedServer, declined, refusal

from spanscore.cli.main import main
from spanscore.cli.measurement import ScoreFile
from spanscore.judge.transcript import estimate_tokens

RECORDING = str(Path(__file__).parents[2] / "examples" / "recordings" / "pydantic-ai")
TRACES, SESSIONS = 4, 2
MODEL = "openai/gpt-4o-mini"
NOWHERE = "http://127.0.0.1:9/v1"


@pytest.fixture
def model():
    """A server whose model answers everything, counting arguments as wrong so that all stages are
    asked.
    """
    with ScriptedServer(ObligingModel(verdict="no")) as server:
        yield server


@pytest.fixture
def evaluated(monkeypatch, capsys, tmp_path):
    """Run `eval` on the recording with a provider at an address: exit code, standard output,
    standard error.
    """
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")

    def run(server, *words, **settings):
        monkeypatch.setenv("OPENAI_BASE_URL", server if isinstance(server, str) else server.url)
        monkeypatch.setenv("OPENAI_API_BASE", server if isinstance(server, str) else server.url)
        file = tmp_path / "spanscore.yaml"
        file.write_text(yaml.safe_dump(settings))
        code = main(["eval", RECORDING, *words, *(("-c", str(file)) if settings else ())])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def longest(calls):
    """The most tokens of the calls that ask for the same."""
    found = {}
    for asked, tokens in calls:
        found[frozenset(asked)] = max(tokens, found.get(frozenset(asked), 0))
    return found


@pytest.mark.slow
def test_a_model_on_the_command_line_judges_where_none_is_configured(evaluated, model):
    code, out, _ = evaluated(model, "--jsonl", "--model", MODEL, judge={"model": None})
    judged = [x for x in lines(out) if x["metric"] in STAGES]

    assert (
        code,
        {(x["status"], x["evaluator"]["kind"], x["evaluator"]["model"]) for x in judged},
    ) == (0, {("scored", "LLM", MODEL)})


def test_the_environment_names_the_model(evaluated, model, monkeypatch):
    monkeypatch.setenv("SPANSCORE_JUDGE_MODEL", MODEL)
    evaluated(model, "--metric", "confidence")

    assert [call["model"] for call in model.calls] == ["gpt-4o-mini"] * TRACES


def test_the_key_of_the_environment_is_sent(evaluated, model):
    evaluated(model, "--metric", "confidence", "--model", MODEL)

    assert {x["authorization"] for x in model.headers} == {"Bearer a-key"}


def test_a_session_metric_alone_has_the_signals_judged_that_it_rests_on(evaluated, model):
    out = evaluated(model, "--jsonl", "--model", MODEL, "--metric", "agent_consistency")[1]

    assert [x["status"] for x in lines(out)] == ["scored"] * SESSIONS
    assert len(model.calls) == TRACES


@pytest.mark.slow
def test_the_last_line_says_who_judged_and_at_what_cost(evaluated, model):
    text = evaluated(model, judge={"model": MODEL, "plan": "staged"})[1].rstrip().splitlines()[-1]

    assert text.startswith(f"Judged by {MODEL}: {len(model.calls)} calls, 12 from the cache; ")


def test_a_model_that_lets_nobody_in_has_not_judged(evaluated):
    with ScriptedServer(refusal(401, "wrong key")) as server:
        _, out, _ = evaluated(server, "--model", MODEL, "--metric", "confidence")

    assert f"No model gave an answer: {TRACES} calls in vain." in out
    assert "Judged by" not in out


def test_what_a_model_declined_to_judge_has_its_cost_all_the_same(evaluated):
    with ScriptedServer(declined("I cannot help with that.")) as server:
        _, out, _ = evaluated(server, "--model", MODEL, "--metric", "confidence")

    assert f"No model gave an answer: {TRACES} calls in vain; 400 tokens in, 80 out; for" in out


def test_the_table_counts_scores_and_gives_their_mean(evaluated, model):
    text = evaluated(model, "--model", MODEL, "--metric", "confidence")[1]

    (row,) = [
        x
        for x in map(str.split, text.splitlines())
        if x[:1] == ["confidence"] and "[" in "".join(x)
    ]
    assert (row[:2], row[4]) == (["confidence", "0.80"], str(SESSIONS))
    assert " ".join(row[-4:]) == f"{TRACES} of {TRACES} passed"


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["staged", "fused"])
def test_a_dry_run_sends_nothing(evaluated, model, plan):
    for words in ((), ("-v",), ("--jsonl", "-v")):
        assert evaluated(model, "--dry-run", *words, judge={"model": MODEL, "plan": plan})[0] == 0

    assert model.calls == []


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["staged", "fused"])
def test_a_dry_run_plans_the_calls_that_are_then_made(evaluated, model, plan):
    judge = {"model": MODEL, "plan": plan}
    calls = lines(evaluated(model, "--dry-run", "--jsonl", "-v", judge=judge)[1])
    evaluated(model, "--jsonl", judge=judge)

    assert sorted(map(sorted, (call["schema"]["properties"] for call in calls))) == sorted(
        map(sorted, map(asked_for, model.calls))
    )


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["staged", "fused"])
def test_a_dry_run_shows_first_stages_as_they_are_sent(evaluated, model, plan):
    judge = {"model": MODEL, "plan": plan}
    calls = lines(evaluated(model, "--dry-run", "--jsonl", "-v", judge=judge)[1])
    evaluated(model, "--jsonl", judge=judge)
    shown = {
        f"{x['prompt']['transcript']}\n\n{x['prompt']['question']}"
        for x in calls
        if not x["placeholders"]
    }

    assert shown <= {question_of(call) for call in model.calls}


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["staged", "fused"])
def test_what_is_sent_is_within_the_bounds_of_the_dry_run(evaluated, plan):
    judge = {"model": MODEL, "plan": plan, "max_output_tokens": 1000}
    with ScriptedServer(ObligingModel(task="x" * 2900, verdict="no")) as server:
        calls = lines(evaluated(server, "--dry-run", "--jsonl", "-v", judge=judge)[1])
        evaluated(server, "--jsonl", judge=judge)
    bounds = longest((x["schema"]["properties"], x["max_input_tokens"]) for x in calls)
    sent = longest(
        (asked_for(x), sum(estimate_tokens(y["content"]) for y in x["messages"]))
        for x in server.calls
    )

    assert {
        asked: (tokens, bounds[asked]) for asked, tokens in sent.items() if tokens > bounds[asked]
    } == {}


def test_a_dry_run_of_many_traces_adds_up_what_is_alike(evaluated, model, monkeypatch):
    monkeypatch.setattr("spanscore.cli.eval._MAX_ROWS", 3)
    text = evaluated(model, "--dry-run", "--metric", "confidence", "--model", MODEL)[1]

    assert [line.split()[:3] for line in text.splitlines()[:2]] == [
        ["calls", "stage", "metrics"],
        ["4", "1", "confidence"],
    ]


def test_a_dry_run_of_a_session_metric_has_the_signals_it_rests_on(evaluated, model):
    calls = lines(
        evaluated(model, "--dry-run", "--jsonl", "--model", MODEL, "--metric", "agent_reliability")[
            1
        ]
    )

    assert {name for call in calls for name in call["metrics"]} == {
        "confidence",
        "tool_correctness",
    }


def test_a_dry_run_without_the_cache_counts_every_question(evaluated, model):
    judge = {"model": MODEL, "plan": "staged", "cache": {"enabled": False}}
    calls = lines(evaluated(model, "--dry-run", "--jsonl", judge=judge)[1])

    conversations = [x for x in calls if x["session_id"] is not None]
    assert {tuple(x["metrics"]) for x in conversations} == {("conversation_completion",)}
    assert len(calls) - len(conversations) == TRACES * sum(STAGES.values())


@pytest.mark.parametrize("columns", ["80", "120"])
def test_a_dry_run_fits_the_terminal(evaluated, model, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    metrics = {**dict.fromkeys(STAGES), "confidence": {"model": "openai/a-model-with-a-long-name"}}
    only = {"default_metrics": False, "metrics": metrics}
    text = evaluated(model, "--dry-run", judge={"model": MODEL, "plan": "fused"}, evaluation=only)[
        1
    ]

    assert max(map(len, text.splitlines())) <= int(columns)
    assert all(name in text for name in (*STAGES, "openai/a-model-with-a-long-name"))


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
@pytest.mark.parametrize("name", ["nosuch/model", "nosuch"])
def test_a_model_of_an_unknown_provider_is_bad_input(evaluated, words, name):
    code, out, err = evaluated(NOWHERE, "--model", name, *words)

    assert (code, out) == (2, "")
    assert err.startswith(f"spanscore: error: {name}: there is no such provider; ")


def test_the_provider_of_a_model_that_nobody_asks_does_not_matter(evaluated):
    assert evaluated(NOWHERE, "--model", "nosuch/model", "--metric", "coherence")[0] == 0


UNREACHABLE = {"model": MODEL, "api_base": NOWHERE, "max_retries": 0}


@pytest.mark.slow
def test_a_server_that_is_gone_gives_failures_and_exit_code_1(evaluated):
    code, out, _ = evaluated(NOWHERE, "--jsonl", judge=UNREACHABLE)
    judged = [x for x in lines(out) if x["metric"] in STAGES]

    assert (code, {(x["status"], x["value"], x["error"]["type"]) for x in judged}) == (
        1,
        {("failed", None, "JudgeUnavailableError")},
    )


def test_failures_exit_1_where_that_is_asked_for(evaluated):
    code, _, err = evaluated(
        NOWHERE, "--metric", "confidence", "--fail-on", "failed", judge=UNREACHABLE
    )

    assert (code, err.splitlines()[-1]) == (1, f"spanscore: measuring failed {TRACES} times")


def test_a_mean_that_was_never_measured_is_below_any(evaluated):
    code, _, err = evaluated(
        NOWHERE, "--metric", "confidence", "--fail-under", "confidence=0", judge=UNREACHABLE
    )

    assert (code, err.splitlines()[-1]) == (
        1,
        "spanscore: confidence has no score to hold against 0",
    )


def test_sessions_whose_signals_failed_are_skipped(evaluated):
    out = evaluated(NOWHERE, "--jsonl", "--metric", "agent_consistency", judge=UNREACHABLE)[1]

    assert [(x["status"], "confidence" in x["reason"]) for x in lines(out)] == [
        ("skipped", True)
    ] * SESSIONS


def test_the_table_shows_why_a_metric_failed(evaluated):
    with ScriptedServer(refusal(401, "no such key")) as server:
        text = evaluated(server, "--model", MODEL, "--metric", "confidence")[1]

    assert "failed   openai/gpt-4o-mini: AuthenticationError: no such key (calls made: 1)" in text


def test_a_run_whose_judge_gave_no_score_is_no_success(evaluated):
    with ScriptedServer(refusal(401, "Incorrect API key")) as server:
        code, _, err = evaluated(server, "--model", MODEL, "--metric", "confidence")
    told = [x for x in err.splitlines() if "the judge gave no score" in x]
    assert (code, len(told)) == (1, 1)
    assert f"all {TRACES} judged scores failed" in told[0]
    assert "Incorrect API key" in told[0]


def test_a_run_that_failed_in_part_says_so_and_succeeds(evaluated):
    model = ObligingModel()
    asked = []

    def sometimes(request):
        asked.append(request)
        return model(request) if len(asked) > 1 else refusal(401, "Incorrect API key")

    with ScriptedServer(sometimes) as server:
        code, _, err = evaluated(
            server, "--model", MODEL, "--metric", "confidence", judge={"max_concurrent": 1}
        )
    assert code == 0
    assert "spanscore: 1 score failed, most of them so: openai/gpt-4o-mini" in err


def test_a_run_without_a_key_is_no_success(evaluated, model, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    code, _, err = evaluated(model, "--model", MODEL, "--metric", "confidence")
    assert (code, "the judge gave no score" in err, model.calls) == (1, True, [])


@pytest.mark.slow
def test_an_interrupt_while_a_model_is_asked_keeps_what_was_answered(
    evaluated, monkeypatch, tmp_path
):
    obliging, write = ObligingModel(verdict="no"), ScoreFile.write
    held = "Move the booking to 20:00."

    def holding_back_one_trace(request):
        return replace(obliging(request), delay_s=60 if held in question_of(request) else 0)

    def interrupting(self, scores):
        write(self, scores)
        # once: a second one ends the program at once
        monkeypatch.setattr(ScoreFile, "write", write)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(ScoreFile, "write", interrupting)
    file = tmp_path / "scores.jsonl"
    with ScriptedServer(holding_back_one_trace) as server:
        code, _, err = evaluated(server, "--model", MODEL, "--no-cache", "--output", str(file))
    found = [json.loads(line) for line in file.read_text().splitlines()]
    assert code == 130
    assert "interrupted: these are the scores that were finished" in err
    assert {x["status"] for x in found if x["metric"] in STAGES} == {"scored"}
