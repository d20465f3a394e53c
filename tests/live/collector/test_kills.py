"""Kills at random for some time, of everything but the agents: `SPANSCORE_KILLS=SECONDS`, not part
of CI.

What a killed process had sent and not yet noted leaves again, byte for byte the same: so here
copies are allowed, and losses, other contents and second evaluations are not.
"""

import os
import random
import time

import pytest

SECONDS = float(os.environ.get("SPANSCORE_KILLS", "0"))

pytestmark = [
    pytest.mark.collector,
    pytest.mark.skipif(not SECONDS, reason="set SPANSCORE_KILLS to seconds"),
    pytest.mark.timeout(3 * SECONDS + 900),
]

TURNS = 4


def kill_at_random(line, seed):
    """Agents send all the time, and every now and then something dies."""
    chance, agents, deadline = random.Random(seed), [], time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        agents.append(line.agent(TURNS, *chance.choice([[], ["--nested"], ["--twice"]])))
        time.sleep(chance.uniform(0.2, 3))
        part = chance.choice([line.spanscore, line.spanscore, line.collector])
        part.kill()
        time.sleep(chance.uniform(0, 1.5))
        part.start()
    for agent in agents:
        assert agent.wait(120) == 0


def own(span):
    kept = type(span)()
    kept.CopyFrom(span)
    del kept.attributes[:]
    kept.attributes.extend(
        x for x in span.attributes if not x.key.startswith(("spanscore.", "evaluations."))
    )
    return kept.SerializeToString(deterministic=True)


@pytest.mark.parametrize("seed", [1, 2])
def test_branch(pipeline, until, seed):
    line = pipeline().start()
    line.spanscore.start()
    kill_at_random(line, seed)
    line.wait_for_spans()
    line.wait_for_scores(len({x.trace_id for x in line.sent_spans()}))
    until(
        lambda: (
            line.committed() == line.scored_at_backend()
            and not line.spanscore.state()["open_traces"]
        )
    )
    spans, scores = line.backend_spans()
    sent = {x.SerializeToString(deterministic=True) for x in line.sent_spans()}
    assert sent <= {x.SerializeToString(deterministic=True) for x in spans}
    assert {x.span_id.hex() for x in scores} == line.committed() == set(line.events())
    assert len({x.SerializeToString(deterministic=True) for x in scores}) == len(line.committed())


@pytest.mark.parametrize("seed", [1, 2])
def test_inline(pipeline, seed):
    line = pipeline("examples/collector/inline.yaml", mode="inline").start()
    line.spanscore.start()
    kill_at_random(line, seed)
    line.wait_for_spans()
    line.spanscore.wait_until_finished(0)
    spans, _ = line.backend_spans()
    sent = {own(x) for x in line.sent_spans()}
    assert sent <= {own(x) for x in spans}
    roots = [x for x in spans if not x.parent_span_id]
    contents = {(x.span_id, x.SerializeToString(deterministic=True)) for x in roots}
    assert len({x.span_id for x in roots}) == len(contents)
    unscored = [
        x for x in roots if not any(a.key == "spanscore.coherence.score" for a in x.attributes)
    ]
    assert not unscored
