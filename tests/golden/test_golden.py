"""Recorded telemetry of each dialect against the agent traces that it stands for."""

import json
import random
from pathlib import Path

import pytest

from spanscore import dialects
from spanscore.dialects import all_dialects
from spanscore.model.trace import AgentTrace
from spanscore.otlp import files
from spanscore.rebuild import rebuild_all

CASES = sorted(x.parent for x in Path(__file__).parent.glob("*/*/SOURCE"))


def name(case):
    return f"{case.parent.name}/{case.name}"


def recorded(case):
    return files.load(sorted(case.glob("*.pb.gz")))


def as_json(traces):
    return json.loads(json.dumps([x.to_json() for x in traces]))


@pytest.mark.parametrize("case", CASES, ids=name)
def test_a_recording_gives_its_agent_traces(case, hold):
    telemetry = recorded(case)
    rebuilt = as_json(rebuild_all(telemetry.spans, telemetry.logs))
    hold(
        name(case), case / "expected.json", json.dumps(rebuilt, indent=1, ensure_ascii=False) + "\n"
    )


@pytest.mark.parametrize("case", CASES, ids=name)
def test_scores_are_put_on_a_recorded_span_at_its_own_times(case):
    telemetry = recorded(case)
    recorded_ns = {(x.trace_id, x.span_id): (x.start_ns, x.end_ns) for x in telemetry.spans}
    targets = [x.target for x in rebuild_all(telemetry.spans, telemetry.logs)]
    known = [x for x in targets if (x.trace_id, x.span_id) in recorded_ns]
    assert [(x.start_ns, x.end_ns) for x in known] == [
        recorded_ns[x.trace_id, x.span_id] for x in known
    ]


@pytest.mark.parametrize("case", CASES, ids=name)
def test_order_and_repetition_change_nothing(case):
    telemetry = recorded(case)
    once = as_json(rebuild_all(telemetry.spans, telemetry.logs))
    spans, logs = telemetry.spans * 2, telemetry.logs * 2
    for seed in range(5):
        chance = random.Random(seed)  # an order, no secret
        chance.shuffle(spans)
        chance.shuffle(logs)
        assert as_json(rebuild_all(spans, logs)) == once


@pytest.mark.parametrize("case", CASES, ids=name)
def test_an_agent_trace_survives_json(case):
    telemetry = recorded(case)
    for trace in rebuild_all(telemetry.spans, telemetry.logs):
        assert AgentTrace.from_json(json.loads(json.dumps(trace.to_json()))) == trace


@pytest.mark.parametrize("case", CASES, ids=name)
def test_a_recording_shows_that_it_is_genai(case):
    import gzip

    for path in case.glob("traces.pb.gz"):
        assert dialects.shows_genai(gzip.decompress(path.read_bytes()))


def test_every_dialect_has_a_case():
    assert {x.parent.name for x in CASES} == {x.name for x in all_dialects()}
