"""A server with two worker processes gives each golden recording the agent traces that its files
give, and their scores.
"""

import gzip
import json
from collections import defaultdict

import grpc
import pytest
import yaml
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from recorded import GOLDEN, KINDS, one_of_each_dialect

from spanscore import metrics
from spanscore.cli.main import main
from spanscore.metrics.check import Check
from spanscore.otlp.signal import WIRE
from spanscore.store.config import Config
from spanscore.store.listing import TraceQuery
from spanscore.store.store import Store

CHAINED = GOLDEN / "semconv/chained-responses"  # its traces are one session in files alone
ALL = sorted({x.parent for x in GOLDEN.glob("*/*/SOURCE")} - {CHAINED})
SCORED = {*KINDS, *one_of_each_dialect()}
"""Agent traces that are alike are scored alike, whichever dialect they are of; a few show it."""

TENANT = "spanscore.header.:tenant"
STUBS = {"traces": TraceServiceStub, "logs": LogsServiceStub}
CHECKS = {name: metric for name, metric in metrics.available().items() if issubclass(metric, Check)}
MEASURED = {
    "every check": (list(CHECKS), ALL),
    "checks of a trace alone": (
        [name for name, metric in CHECKS.items() if not metric.looks_back],
        KINDS,
    ),
}
"""Beside the default metrics, and the recordings that are sent. A worker process evaluates traces
only where all are of the second kind.
"""

AS_SCORED = (
    "scope",
    "metric",
    "status",
    "value",
    "label",
    "reason",
    "metadata",
    "trace_id",
    "span_id",
    "session_id",
)
"""What a score is, but for when it was made, and for ids, which the tenant is part of."""


def send_each(running, cases):
    """Send each recording as a tenant of its own, so that none is joined with another."""
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        for case in cases:
            for signal, stub in STUBS.items():
                for file in sorted(case.glob(f"{signal}*.pb.gz")):
                    request = WIRE[signal].request.FromString(gzip.decompress(file.read_bytes()))
                    stub(channel).Export(request, metadata=(("x-scope-orgid", tenant(case)),))


def tenant(case):
    return f"{case.parent.name}.{case.name}"


def facts(trace):
    """All of an AgentTrace but what the tenant is part of, how it was known to be complete, and the
    attributes with tags, which a server keeps beside the facts.
    """
    apart = {"id", "session_key", "completeness", "attributes"}
    kept = {name: value for name, value in trace.items() if name not in apart}
    resource = {k: v for k, v in trace["target"]["resource"].items() if k != TENANT}
    return json.dumps(kept | {"target": trace["target"] | {"resource": resource}}, sort_keys=True)


def scored(evaluation):
    return json.dumps({x: evaluation[x] for x in AS_SCORED}, sort_keys=True)


def found_by_server(running, cases):
    """What a server has stored of each recording: its agent traces, and the newest of their scores.

    What a trace gave before it was known to be part of a turn is not there any more.
    """
    running.stop_clock().start()
    send_each(running, cases)
    running.run_clock()
    running.wait_until_finished(len(cases))
    assert running.stop() == 0
    store = Store.open(Config(url=f"sqlite:///{running.folder}/store.db"))
    of_cases = {
        case: [x.trace for x in store.list_traces(TraceQuery(tenant=tenant(case)), 10_000).items]
        for case in cases
    }
    kept = {(tenant(case), x.id) for case in cases for x in of_cases[case]}
    newest = {
        (x.tenant, x.subject_id, x.metric): scored(x.to_json())
        for _, x in store.outbox(0, 1_000_000)
        if x.scope == "session" or (x.tenant, x.subject_id) in kept
    }
    store.close()
    scores = defaultdict(list)
    for (of, *_), score in newest.items():
        scores[of].append(score)
    return (
        {case: sorted(facts(x.to_json()) for x in of_cases[case]) for case in cases},
        {case: sorted(scores[tenant(case)]) for case in cases},
    )


def scores_of_files(capsys, config, case):
    capsys.readouterr()
    main(["eval", "--jsonl", "--workers", "1", "-c", str(config), str(case)])
    scores = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    # a server keeps what others gave by itself
    return sorted(scored(x) for x in scores if x["evaluator"]["source"] is None)


@pytest.mark.slow
@pytest.mark.parametrize(("measured", "cases"), MEASURED.values(), ids=MEASURED)
def test_each_recording_gives_what_its_files_give(server, tmp_path, capsys, measured, cases):
    evaluation = {"metrics": {name: {} for name in measured}}
    running = server(
        workers=2,
        tenancy={"enabled": True},
        assemble={"stitch_window": "2s"},
        evaluation=evaluation,
        export={"exporters": {}},
    )
    traces, scores = found_by_server(running, cases)
    config = tmp_path / "eval.yaml"
    config.write_text(
        yaml.safe_dump({"evaluation": evaluation, "embedding": {"provider": "ngrams"}})
    )
    expected = {
        case: sorted(map(facts, json.loads((case / "expected.json").read_text()))) for case in cases
    }
    assert [case for case in cases if traces[case] != expected[case]] == []
    of_files = {case: scores_of_files(capsys, config, case) for case in SCORED.intersection(cases)}
    assert [case for case, x in of_files.items() if scores[case] != x] == []
    assert all(scores.values())
