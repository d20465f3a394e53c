"""Recorded telemetry of each dialect against the agent traces that it stands for, and those of our
own recordings against what was said in them: nothing missing, nothing invented.
"""

import gzip
import json
import random
import re
from pathlib import Path

import pytest
from described import frameworks
from truth import untrue

from spanscore import dialects
from spanscore.dialects import all_dialects
from spanscore.model.trace import AgentTrace
from spanscore.otlp import files
from spanscore.rebuild import rebuild_all

CASES = sorted(x.parent for x in Path(__file__).parent.glob("*/*/SOURCE"))
OURS = {f"{x.dialect}/{y.name}": (x, y) for x in frameworks() for y in x.cases}
MACHINE = re.compile(
    rb"(?<![\w.-])/(?:root/|Users/|tmp/|home/(?!app/))|\\Users\\|Linux-[0-9]|host\.name|process\.pid"
)


def name(case):
    return f"{case.parent.name}/{case.name}"


def as_json(traces):
    return json.loads(json.dumps([x.to_json() for x in traces]))


def elsewhere(spans, targets):
    """The targets of scores that are recorded spans, and not at the times of these."""
    recorded = {(x.trace_id, x.span_id): (x.start_ns, x.end_ns) for x in spans}
    return [
        x
        for x in targets
        if recorded.get((x.trace_id, x.span_id), (x.start_ns, x.end_ns)) != (x.start_ns, x.end_ns)
    ]


def otherwise(case, telemetry, rebuilt):
    """What is rebuilt otherwise from the same spans and log records, twice and in any order."""
    spans, logs = telemetry.spans * 2, telemetry.logs * 2
    chance = random.Random(name(case))  # an order, no secret
    chance.shuffle(spans)
    chance.shuffle(logs)
    shuffled = as_json(rebuild_all(spans, logs))
    return [] if shuffled == rebuilt else [x for x in shuffled if x not in rebuilt] or shuffled


@pytest.mark.parametrize("case", CASES, ids=name)
def test_a_recording_gives_its_agent_traces(case, hold):
    telemetry = files.load(sorted(case.glob("*.pb.gz")))
    traces = rebuild_all(telemetry.spans, telemetry.logs)
    rebuilt = as_json(traces)
    requests = {x: gzip.decompress(x.read_bytes()) for x in case.glob("*.pb.gz")}
    claims = {
        "it gives what expected.json contains": hold(
            name(case),
            case / "expected.json",
            json.dumps(rebuilt, indent=1, ensure_ascii=False) + "\n",
        ),
        "order and repetition change nothing": otherwise(case, telemetry, rebuilt),
        "scores are put on a recorded span at its own times": elsewhere(
            telemetry.spans, [x.target for x in traces]
        ),
        "an agent trace survives JSON": [
            x for x, told in zip(traces, rebuilt, strict=True) if AgentTrace.from_json(told) != x
        ],
        "its traces show that they are GenAI": [
            path.name
            for path, body in requests.items()
            if path.name == "traces.pb.gz" and not dialects.shows_genai(body)
        ],
        "it contains nothing of a machine": [
            y for x in requests.values() for y in MACHINE.findall(x)
        ],
        **(untrue(rebuilt, *OURS[name(case)]) if name(case) in OURS else {}),
    }
    wrong = [f"{claim}, but: {difference}" for claim, difference in claims.items() if difference]
    assert not wrong, "\n\n".join(("", *wrong))


def test_every_dialect_has_a_case():
    assert {x.parent.name for x in CASES} == {x.name for x in all_dialects()}
