"""Means that weight by the inverse of `sampling` have the truth as their expectation, whatever
shares the rules give.

Over many populations that differ in nothing but their ids, the mean of the estimates lies within
four standard errors of the truth; unweighted means do not.
"""

import asyncio
import math
import statistics
from dataclasses import replace

import pytest

from spanscore.evaluation import Config, Engine
from spanscore.metrics.own import metric
from spanscore.model.trace import Session
from spanscore.testing import agent_trace

RULES = [
    {"name": "failed", "when": {"error": True}, "sampling": 0.9},
    {"name": "long", "when": {"duration": {"at_least": "60s"}}, "sampling": 0.5},
    {"name": "idle", "when": {"user": "monitor"}, "metrics": "none"},
]
SHARE = 0.2
TURNS, POPULATIONS = 60, 120


@pytest.fixture
def engine():
    @metric(name="worth")
    def worth(trace):
        return (
            0.2 if is_failed(trace) else 0.6 if trace.ended_ns - trace.started_ns >= 60e9 else 1.0
        )

    return Engine(
        Config(metrics={"worth": {}}, default_metrics=False, sampling=SHARE, rules=RULES),
        None,
        None,
        clock_ns=lambda: 1,
    )


def is_failed(trace):
    return bool(trace.attributes)


def turn(population, number, session_id=None):
    """One of few failed, more long and many ordinary turns, and some that nothing is to be measured
    of.
    """
    kind = number % 10
    return agent_trace(
        trace_ids=(f"{population:016x}{number:016x}",),
        session_id=session_id,
        started_ns=10**9,
        ended_ns=10**9 * (100 if kind in {1, 2} else 2),
        user_id="monitor" if kind == 3 else None,
        attributes={"otel.status_code": ("ERROR",)} if kind == 0 else {},
    )


def truth(traces):
    measured = [x for x in traces if x.user_id is None]
    return len(measured), sum(
        0.2 if is_failed(x) else 0.6 if x.ended_ns > 60e9 else 1.0 for x in measured
    )


def holds(estimates, expected):
    error = statistics.stdev(estimates) / math.sqrt(len(estimates))
    return abs(statistics.fmean(estimates) - expected) < 4 * error


async def scores(engine, traces):
    return [y for x in traces for y in await engine.evaluate_trace(x) if y.value is not None]


def populations(engine):
    async def run():
        return [
            await scores(engine, [turn(number, x) for x in range(TURNS)])
            for number in range(POPULATIONS)
        ]

    return asyncio.run(run())


@pytest.mark.slow
def test_the_weighted_number_of_traces_is_that_of_the_population(engine):
    count, _ = truth([turn(0, x) for x in range(TURNS)])
    assert holds([sum(1 / x.sampling for x in found) for found in populations(engine)], count)


@pytest.mark.slow
def test_the_weighted_sum_of_scores_is_that_of_the_population(engine):
    _, total = truth([turn(0, x) for x in range(TURNS)])
    assert holds([sum(x.value / x.sampling for x in found) for found in populations(engine)], total)


@pytest.mark.slow
def test_an_unweighted_mean_is_not_that_of_the_population(engine):
    count, total = truth([turn(0, x) for x in range(TURNS)])
    assert not holds(
        [statistics.fmean(x.value for x in found) for found in populations(engine)], total / count
    )


@pytest.mark.slow
def test_it_holds_for_traces_in_sessions(engine):
    async def run():
        found = []
        for population in range(POPULATIONS):
            sessions = [f"{population}-{x}" for x in range(TURNS // 5)]
            traces = [turn(population, x, sessions[x // 5]) for x in range(TURNS)]
            found.append(await scores(engine, traces))
        return found

    _, total = truth([turn(0, x) for x in range(TURNS)])
    assert holds([sum(x.value / x.sampling for x in found) for found in asyncio.run(run())], total)


@pytest.mark.slow
def test_it_holds_for_sessions(make_engine):
    engine = make_engine(sampling=SHARE, rules=RULES, metrics={"agent_reliability": {}})

    async def run():
        found = []
        for population in range(POPULATIONS):
            sessions = []
            for number in range(20):
                name = f"{population}-{number}"
                sessions.append(
                    Session(name, tuple(turn(population, 3 * number + x, name) for x in range(3)))
                )
            scored = [await engine.evaluate_session(x, {}) for x in sessions]
            found.append([next(y for y in x if y.scope == "session") for x in scored if x])
        return found

    assert holds([sum(1 / x.sampling for x in found) for found in asyncio.run(run())], 20)


@pytest.mark.slow
def test_it_holds_where_late_spans_have_other_rules_take_the_traces(engine):
    """A third of the ordinary turns fail after their first evaluation, a third of the failed ones
    turn out not to.
    """

    async def run():
        found = []
        for population in range(POPULATIONS):
            newest = []
            for number in range(TURNS):
                first = turn(population, number)
                before = await engine.evaluate_trace(first)
                second = turned(first, number)
                now = await engine.evaluate_trace(second, revision=2, before=before)
                newest += [
                    x
                    for x in {x.metric: x for x in (*before, *now)}.values()
                    if x.value is not None
                ]
            found.append(newest)
        return found

    _, total = truth([turned(turn(0, x), x) for x in range(TURNS)])
    assert holds([sum(x.value / x.sampling for x in found) for found in asyncio.run(run())], total)


def turned(trace, number):
    if number % 3:
        return trace
    return replace(trace, attributes={} if trace.attributes else {"otel.status_code": ("ERROR",)})
