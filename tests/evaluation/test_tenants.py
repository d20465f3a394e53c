"""No judge's answer and no vector that one tenant's trace was given is given to another
tenant's.
"""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from rubric_judge import RubricJudge

from spanscore.embed.port import Recent
from spanscore.model.span import TENANT, with_headers
from spanscore.model.trace import Session

EMBEDDED = {"coherence": {}}


def of_tenant(trace, tenant):
    return replace(
        trace, target=replace(trace.target, resource=with_headers({}, ((TENANT, tenant),)))
    )


def tenants_asked_for(judge):
    return {prompt.tenant for prompt, _, _ in judge.asked}


@pytest.mark.parametrize("plan", ["staged", "fused"])
def test_all_that_is_asked_about_a_trace_says_whose_it_is(make_engine, make_trace, scripted, plan):
    judge = scripted()
    asyncio.run(make_engine(judge, plan).evaluate_trace(of_tenant(make_trace(), "acme")))
    assert tenants_asked_for(judge) == {"acme"}


def test_all_that_is_asked_about_a_session_says_whose_it_is(make_engine, make_trace, scripted):
    judge = scripted()
    turns = tuple(
        of_tenant(make_trace(x, session_id="s1", user_input="hi"), "acme") for x in (1, 2)
    )
    asyncio.run(make_engine(judge).evaluate_session(Session("s1", turns), {}))
    assert tenants_asked_for(judge) == {"acme"}


def test_all_that_the_rubric_asks_says_whose_it_is(make_engine, make_trace):
    judge = RubricJudge()
    session = Session("s1", (of_tenant(make_trace(session_id="s1"), "acme"),))
    engine = make_engine(judge, rubric={}, metrics={})
    asyncio.run(engine.evaluate_rubric(session))
    assert tenants_asked_for(judge) == {"acme"}


def test_the_texts_of_one_tenant_are_embedded_for_it_alone(make_engine, make_trace):
    class Counting:
        name, asked = "counting", 0

        async def embed(self, texts):
            self.asked += 1
            return np.ones((len(texts), 1), dtype=np.float32)

    inner = Counting()
    engine = make_engine(embedder=Recent(inner, max_texts=100, max_chars=100), metrics=EMBEDDED)

    async def run():
        counts = []
        for tenant in ("acme", "acme", "blue"):
            await engine.evaluate_trace(of_tenant(make_trace(), tenant))
            counts.append(inner.asked)
        return counts

    first, again, other = asyncio.run(run())
    assert (again - first, other - again) == (0, first)
