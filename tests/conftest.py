"""What all tests share: an agent trace to vary, and property tests without a stop-watch."""

import gc
import logging
import os
import re
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import programs
import pytest
from hypothesis import settings

from spanscore import dialects
from spanscore.metrics.own import registry
from spanscore.model.trace import AgentTrace, Target, Tool, ToolCall
from spanscore.store.config import Config
from spanscore.store.store import Store

settings.register_profile("spanscore", deadline=None)  # a busy machine must not fail a test
settings.load_profile("spanscore")

Make = Callable[..., AgentTrace]

WEATHER = Tool(
    "get_weather",
    "The weather of a city",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city"],
    },
)


_OF_A_SHELL = re.compile(
    "(FORCE|NO|PY|PYTHON)_COLORS?|CLICOLOR.*|COLORTERM|TERM|TTY_.*|COLUMNS|LINES"
    "|(OTEL|OPENAI|SPANSCORE(?!_CACHE$|_KILLS$))_.*|.*_(API_KEY|API_BASE|BASE_URL)"
    "|GRPC_VERBOSITY|MALLOC_ARENA_MAX|PYTHONUNBUFFERED"
)
"""Variables that change what is printed, asked or sent; tests set what they need."""


@pytest.hookimpl(trylast=True)
def pytest_configure():
    """Take them away for all tests and what they start, once pytest knows its own colours.

    A proxy stays, for tests with a package registry, but none leads back to this machine.
    """
    gc.disable()
    for name in filter(_OF_A_SHELL.fullmatch, list(os.environ)):
        del os.environ[name]
    for name in ("NO_PROXY", "no_proxy"):
        others = os.environ.get(name, "").split(",")
        os.environ[name] = ",".join(filter(None, ["localhost", "127.0.0.1", "::1", *others]))
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    os.environ.setdefault("SPANSCORE_CACHE", f"{caches}/spanscore")  # what is built once stays so


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark `program` what needs more than Python, so that a run can leave all of it out."""
    for item in items:
        if _needed(item):
            item.add_marker(pytest.mark.program)


def pytest_collection_finish():
    """Spare the collector of garbage what stays: collecting takes two thirds of the time so."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip what cannot run here, with the reason and how to get what it lacks."""
    for name in _needed(item):
        if reason := programs.lacking(name):
            pytest.skip(reason)


def _needed(item):
    return programs.NEEDED.keys() & {x.name for x in item.iter_markers()}


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Collect no doctests here: each file would be imported, also a script."""
    collected = yield
    return [x for x in collected if type(x) is pytest.Module]


@pytest.fixture(autouse=True)
def answers_of_no_other_test(monkeypatch, tmp_path_factory):
    """What a judge answered is kept for later runs, but neither for other tests nor for whoever
    runs them.
    """
    monkeypatch.setenv(
        "XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / f"cache-{uuid.uuid4().hex}")
    )


@pytest.fixture(autouse=True)
def metrics_of_no_other_test(monkeypatch):
    """A metric that a test makes is known to no other test."""
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))


@pytest.fixture(autouse=True)
def span_names_of_no_other_test():
    """The names by which a test has traces read are those of no other test."""
    yield
    dialects.configure(dialects.SpanNames())


@pytest.fixture(autouse=True)
def logging_as_it_was():
    """What a command configures for its own process must not reach the next test."""
    root, own = logging.getLogger(), logging.getLogger("spanscore")
    levels = root.level, own.level
    yield
    root.setLevel(levels[0])
    own.setLevel(levels[1])
    for handler in [x for x in root.handlers if type(x) is logging.StreamHandler]:
        root.removeHandler(handler)


@pytest.fixture(scope="session")
def postgresql_server():
    """A PostgreSQL that ends with the tests; those that use it have the marker `postgresql`."""
    import postgresql_server

    server = postgresql_server.Server()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def browser():
    """A real Chromium that ends with the tests; those that use it have the marker `browser`.

    One for all: a process can start Playwright a single time.
    """
    from harness import browser as chromium

    with chromium.browser() as opened:
        # starts it here, where the cache is not yet that of one test
        opened.open("about:blank").close()
        yield opened


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def database_url(request, tmp_path):
    """The store.url of an empty database: each test is run on SQLite and, with the marker, on
    PostgreSQL.
    """
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/spanscore.db"
    return request.getfixturevalue("postgresql_server").create()


@pytest.fixture
def any_store(database_url):
    """An empty store, on each database that there is."""
    store = Store.open(Config(url=database_url))
    yield store
    store.close()


@pytest.fixture
def full_device():
    """A file on which there is never room."""
    path = Path("/dev/full")
    if not path.exists():
        pytest.skip("needs /dev/full, which only Linux has")
    return path


@pytest.fixture
def lines_run():
    """Counts the lines of this project that a call runs: a measure of work that no busy machine
    disturbs.
    """

    def counted(work, *arguments):
        count = 0

        def trace(frame, event, _argument):
            nonlocal count
            if "spanscore" not in frame.f_code.co_filename:
                return None
            count += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            work(*arguments)
        finally:
            sys.settrace(before)
        return count

    return counted


@pytest.fixture
def make_trace() -> Make:
    """A whole turn that asked for Rome's weather and got it; any field can be given another
    value.
    """

    def make(number: int = 1, **fields) -> AgentTrace:
        trace_id = f"{number:032x}"
        given = {
            "trace_ids": (trace_id,),
            "root_span_id": "a" * 16,
            "target": Target(trace_id, "a" * 16, 0, 1),
            "opening_span_id": "a" * 16,
            "started_ns": 0,
            "ended_ns": 1,
            "user_input": "What is the weather in Rome?",
            "final_output": "The weather in Rome is sunny at 31 degrees.",
            "available_tools": (WEATHER,),
            "tool_calls": (ToolCall("c1", "get_weather", {"city": "Rome"}, "sunny, 31 degrees"),),
            "history": (),
        }
        return AgentTrace(**{**given, **fields})

    return make
