"""Every configuration in examples/collector, run by a real collector."""

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.collector

TURNS = 6
DROP_IN = "collector-config.yaml"
FOLDER = "examples/collector"
PLAIN = {"GET /health", "SELECT 1"}
"""The names of the spans that an agent without GenAI sends."""


def ids(spans):
    return {x.span_id for x in spans}


def attributes(span):
    return {x.key: x.value for x in span.attributes}


def assert_no_orphans(line):
    """Every score at the backend lies in a trace that the backend has, under a span of it."""
    spans, scores = line.backend_spans()
    assert scores
    assert {x.parent_span_id for x in scores} <= ids(spans)


def test_only_whole_services_go_to_spanscore(pipeline):
    line = pipeline(
        DROP_IN, f"{FOLDER}/services.yaml", environ={"AGENT_SERVICES": "weather-agent"}
    ).start()
    line.spanscore.start()
    line.run_agent(TURNS, "--plain")
    line.run_agent(TURNS)
    line.wait_for_spans()
    line.wait_for_scores(TURNS)
    of_agents = [x for x in line.sent_spans() if x.name not in PLAIN]
    assert line.spanscore.state()["counters"]["receiver_accepted_spans"] == len(of_agents)


def test_a_sampler_before_the_fork_leaves_no_score_without_its_trace(pipeline):
    environ = {"DECISION_WAIT": "1s", "SAMPLING_PERCENTAGE": "0"}
    line = pipeline(DROP_IN, f"{FOLDER}/tail-sampling.yaml", environ=environ).start()
    line.spanscore.start()
    line.run_agent(TURNS, "--plain")
    line.run_agent(TURNS)
    line.wait_for_scores(TURNS)
    spans, _ = line.backend_spans()
    assert ids(spans) == ids(x for x in line.sent_spans() if x.name not in PLAIN)
    assert_no_orphans(line)


def test_two_shards_score_each_trace_once(pipeline):
    line = pipeline(DROP_IN, f"{FOLDER}/sharded.yaml", shards=2).start()
    for shard in line.shards:
        shard.start()
    line.run_agent(4 * TURNS)
    line.wait_for_spans()
    line.wait_for_scores(4 * TURNS)
    scored = [{x.target.trace_id for x in shard.committed().values()} for shard in line.shards]
    assert all(scored)
    assert scored[0].isdisjoint(scored[1])
    assert_no_orphans(line)


def test_inline_every_span_leaves_once_and_the_agents_with_their_scores(pipeline):
    line = pipeline(f"{FOLDER}/inline.yaml", mode="inline").start()
    line.spanscore.stop_clock().start()
    line.run_agent_whole(TURNS)
    line.wait_for_spans()
    line.spanscore.wait_until_finished(0)
    spans, _ = line.backend_spans()
    assert Counter(x.span_id for x in spans) == dict.fromkeys(ids(line.sent_spans()), 1)
    agents = [x for x in spans if x.name == "invoke_agent weather"]
    assert all("spanscore.coherence.score" in attributes(x) for x in agents)


def test_inline_spanscore_may_be_killed_and_started_again(pipeline):
    line = pipeline(f"{FOLDER}/inline.yaml", mode="inline").start()
    line.spanscore.start()
    line.run_agent(TURNS)
    line.spanscore.kill()
    line.spanscore.start()
    line.wait_for_spans()
    spans, _ = line.backend_spans()
    assert Counter(x.span_id for x in spans if x.name == "invoke_agent weather").total() == TURNS


def test_a_first_collector_shows_the_scores_in_its_own_output(pipeline, until):
    line = pipeline(f"{FOLDER}/first-collector.yaml").start()
    line.spanscore.start()
    line.run_agent(TURNS)
    log = line.folder / "collector.log"
    until(lambda: log.read_text().count(": coherence\n") == TURNS, log.read_text)


@pytest.mark.parametrize("overlay", ["services", "tail-sampling", "sharded", None])
def test_the_drop_in_and_its_overlays_are_valid_as_they_are(collector, tmp_path, overlay, request):
    root = request.config.rootpath
    configs = [DROP_IN] + ([f"{FOLDER}/{overlay}.yaml"] if overlay else [])
    command = [str(collector), "validate", *(f"--config={root / x}" for x in configs)]
    subprocess.run(command, check=True, cwd=tmp_path, env={})


@pytest.mark.parametrize("name", ["inline", "first-collector"])
def test_the_other_examples_are_valid_as_they_are(collector, tmp_path, name, request):
    config = request.config.rootpath / FOLDER / f"{name}.yaml"
    subprocess.run(
        [str(collector), "validate", f"--config={config}"], check=True, cwd=tmp_path, env={}
    )


def test_the_drop_in_runs_in_an_empty_folder(collector, tmp_path, until, ports):
    shutil.copy(Path(__file__).parents[3] / DROP_IN, tmp_path)
    names = ("HEALTH_ENDPOINT", "OTLP_GRPC_ENDPOINT", "OTLP_HTTP_ENDPOINT", "SCORES_ENDPOINT")
    free = ports(len(names))  # others may run beside it
    environ = {name: f"127.0.0.1:{port}" for name, port in zip(names, free, strict=True)}
    log = tmp_path / "log"
    with log.open("wb") as output:
        running = subprocess.Popen(
            [str(collector), "--config", DROP_IN],
            cwd=tmp_path,
            env=environ | {"TELEMETRY_PORT": "0"},
            stdout=output,
            stderr=output,
        )
    try:
        until(lambda: "Everything is ready" in log.read_text(), log.read_text)
    finally:
        running.kill()
        running.wait()
    assert list((tmp_path / "otelcol-queues").iterdir())
