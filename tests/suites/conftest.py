"""Lets the tests in this folder import what they share, and gives them recordings and suites to vary."""

import asyncio
import sys
from pathlib import Path

import pytest

from spanscore import config, suites
from spanscore.model.trace import Trial

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "judge")]


@pytest.fixture
def said(make_trace):
    """A recorded turn: what the user said and the agent answered; `case`, `run` and `status` are its test's."""

    def make(
        number, user_input="hi", answer="Rome is sunny", *, case=None, run=None, status=None, suite=None, **fields
    ):
        named = any((case, run, status, suite))
        trial = Trial(suite, run, case, status) if named else None
        given = {"started_ns": number, "ended_ns": number + 10**9, "tool_calls": (), **fields}
        return make_trace(number, user_input=user_input, final_output=answer, trial=trial, **given)

    return make


@pytest.fixture
def suite():
    """A suite of cases given as dicts; a case that is a text is one that is found by this id and expects sun."""

    def make(*cases, **keys):
        given = [x if isinstance(x, dict) else {"id": x, "expected_answer": "sunny"} for x in cases]
        return suites.Suite.model_validate({"name": "weather", "cases": given, **keys})

    return make


@pytest.fixture
def run_of():
    """A run of a suite over traces, judged by the rules unless `settings` say otherwise."""

    def run(suite, traces, settings=None, **options):
        prepared = suites.prepare(suite, traces, **options)
        return asyncio.run(suites.run(prepared, settings or config.default({})))

    return run
