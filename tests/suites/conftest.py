"""Lets the tests in this folder import what they share, and gives them recordings and suites to
vary.
"""

import asyncio
import sys
from pathlib import Path

import pytest

from spanscore import config, suites
from spanscore.model.trace import Trial

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "judge")]

from comparing_model import compare  # noqa: E402 - the path has only now its folder
from judge_harness import KEY  # noqa: E402 - likewise
from scripted_server import ScriptedServer  # noqa: E402 - likewise


@pytest.fixture
def said(make_trace):
    """A recorded turn: what the user said and the agent answered; `case`, `run` and `status` are
    its test's.
    """

    def make(
        number,
        user_input="hi",
        answer="Rome is sunny",
        *,
        case=None,
        run=None,
        status=None,
        suite=None,
        **fields,
    ):
        named = any((case, run, status, suite))
        trial = Trial(suite, run, case, status) if named else None
        given = {"started_ns": number, "ended_ns": number + 10**9, "tool_calls": (), **fields}
        return make_trace(number, user_input=user_input, final_output=answer, trial=trial, **given)

    return make


@pytest.fixture
def suite():
    """A suite of cases given as dicts; a case that is a text is one that is found by this id and
    expects sun.
    """

    def make(*cases, **keys):
        given = [x if isinstance(x, dict) else {"id": x, "expected_answer": "sunny"} for x in cases]
        return suites.Suite.model_validate({"name": "weather", "cases": given, **keys})

    return make


@pytest.fixture(scope="session")
def comparing():
    """Settings under which a model judges that compares answers by their words."""
    with ScriptedServer(compare) as server:
        given = {
            "model": "openai/scripted",
            "api_base": server.url,
            "api_key": KEY,
            "max_retries": 0,
        }
        judge = config.Judge.model_validate(given)
        yield config.parse("embedding: {provider: ngrams}", environ={}).model_copy(
            update={"judge": judge}
        )


@pytest.fixture
def run_of(comparing):
    """A run of a suite over traces, whose answers are compared by their words unless `settings` say
    otherwise.
    """

    def run(suite, traces, settings=None, **options):
        prepared = suites.prepare(suite, traces, **options)
        return asyncio.run(suites.run(prepared, settings or comparing))

    return run
