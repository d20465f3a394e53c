"""What waits for its result does so inside a running event loop, too, as of a notebook."""

import asyncio

import pytest

import spanscore
from spanscore.errors import InputError
from spanscore.suites import Suite


async def within_a_loop(work):
    return work()


@pytest.fixture
def passed(make_trace):
    """A suite of one case, and a turn that passes it."""
    case = {"id": "a", "thresholds": {"check.answer_present": 1.0}}
    trace = make_trace(trial=spanscore.model.trace.Trial(case="a"))
    return Suite.model_validate({"name": "one", "cases": [case]}), [trace]


def test_a_suite_runs_inside_a_running_loop(passed):
    run = asyncio.run(within_a_loop(lambda: spanscore.run_suite(*passed)))
    assert run.count("pass") == spanscore.run_suite(*passed).count("pass") == 1


def test_a_suite_can_be_awaited(passed):
    assert asyncio.run(spanscore.run_suite_async(*passed)).count("pass") == 1


def test_what_is_wrong_is_raised_inside_a_running_loop(make_trace):
    with pytest.raises(InputError):
        asyncio.run(within_a_loop(lambda: spanscore.run_suite("no-such-file.yaml", [make_trace()])))


def test_a_tournament_without_conversations_waits_inside_a_running_loop():
    found = asyncio.run(within_a_loop(lambda: spanscore.best_of([], judge=None)))
    assert found == asyncio.run(spanscore.best_of_async([], judge=None))
