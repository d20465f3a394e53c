"""A judge earns its certificate by labels, and without it what rests on its labels says so."""

import json
from pathlib import Path

import grpc
import pytest
import yaml
from obliging_model import ObligingModel
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from scripted_server import ScriptedServer

from spanscore.calibration import Calibration, Certificate
from spanscore.cli.main import main
from spanscore.stats import Confusion
from spanscore.store import calibrations
from spanscore.store.config import Config

RECORDING = str(Path(__file__).parents[2] / "examples" / "recordings" / "pydantic-ai")
METRIC = "task_completion"
TRACES = 4
GOOD = Confusion(75, 0, 0, 75)
NAMES = ("name", "version", "model", "prompt_hash", "embedding")


@pytest.fixture
def model():
    """A server whose model answers everything."""
    with ScriptedServer(ObligingModel()) as server:
        yield server


@pytest.fixture
def ran(monkeypatch, capsys, tmp_path, model):
    """Run a command in a folder with a store, by a judge that needs a certificate: exit code,
    standard output, standard error.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")

    def run(*words, **certificate):
        judge = {"model": "openai/gpt-4o-mini", "api_base": model.url, "require": "certified"}
        settings = {"judge": {**judge, "certificate": certificate}}
        Path("spanscore.yaml").write_text(yaml.safe_dump(settings))
        code = main([*map(str, words), "-c", "spanscore.yaml"])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def scored(ran):
    """The scores of the recording, as JSON."""
    return lambda: [
        json.loads(x) for x in ran("eval", RECORDING, "--jsonl", "--metric", METRIC)[1].splitlines()
    ]


def certify(score, table=GOOD, store=None):
    """Keep a certificate of the judge that made a score."""
    by = score["evaluator"]
    judge = (METRIC, *(by[x] for x in NAMES), score["threshold"])
    made = Calibration(judge, table, 1, certificate=Certificate(table, (1.0, 1.0), int(table.n)))
    calibrations.keep(store or Config(), {made.key: made.to_json()}, 1)


def verdicts(running):
    """The scores of the metric in a server's store."""
    return [x for x in running.committed().values() if x.metric == METRIC and x.status == "scored"]


def export(running, request):
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        TraceServiceStub(channel).Export(request, timeout=30)


def test_scores_of_a_judge_that_was_never_calibrated_are_not_certified(scored):
    assert {x["evaluator"]["certified"] for x in scored()} == {False}


def test_scores_of_a_judge_with_a_certificate_are_certified(scored):
    certify(scored()[0])

    assert {x["evaluator"]["certified"] for x in scored()} == {True}


def test_a_judge_whose_bounds_are_too_low_has_no_certificate(scored):
    certify(scored()[0], Confusion(75, 0, 10, 65))

    assert {x["evaluator"]["certified"] for x in scored()} == {False}


def test_a_gate_on_the_scores_of_a_judge_without_a_certificate_says_so(ran):
    code, _, err = ran("eval", RECORDING, "--metric", METRIC, "--fail-under", f"{METRIC}=0.1")

    assert code == 0
    assert err.startswith(f"spanscore: warning: {METRIC} is judged by openai/gpt-4o-mini without a")
    assert err.endswith(" certificate: it was not calibrated\n")


def test_a_gate_is_not_met_where_the_configuration_refuses_such_scores(ran):
    words = ("eval", RECORDING, "--metric", METRIC, "--fail-under", f"{METRIC}=0.1")

    assert ran(*words, uncertified="refuse")[0] == 1


def test_a_suite_is_refused_by_the_verdicts_of_a_judge_without_a_certificate(ran):
    case = {"id": "flight", "input": "Move the booking to 20:00.", "thresholds": {METRIC: 0.1}}
    Path("suite.yaml").write_text(yaml.safe_dump({"name": "travel", "cases": [case]}))
    codes = [ran("test", "suite.yaml", RECORDING, uncertified=x)[0] for x in ("say", "refuse")]

    assert codes == [0, 1]


@pytest.mark.slow
def test_a_server_knows_which_judges_are_certified(server, model, recording):
    judge = {
        "model": "openai/gpt-4o-mini",
        "api_base": model.url,
        "api_key": "a-key",
        "try_at_start": False,
        "require": "certified",
    }
    running = server(judge=judge).start()
    export(running, recording("pydantic_ai/openai").traces)
    running.wait_until_finished(TRACES)
    first = verdicts(running)
    store = Config(url=f"sqlite:///{running.folder}/store.db")
    certify(first[0].to_json(), store=store)
    assert running.stop() == 0
    running.start()
    export(running, recording("openinference/langgraph").traces)
    running.wait_until_finished(TRACES)
    second = [x for x in verdicts(running) if x.uid not in {y.uid for y in first}]
    assert {x.evaluator.certified for x in first} == {False}
    assert {x.evaluator.certified for x in second} == {True}
    assert running.stop() == 0
