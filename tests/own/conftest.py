import asyncio

import pytest

from spanscore.evaluation import Config, Engine, Overrides


@pytest.fixture
def measured(make_trace):
    """The evaluation that a metric gives for a trace, or a session, as the engine makes it."""

    def measure(name, subject=None, *, judge=None, earlier=(), **options):
        engine = Engine(
            Config(default_metrics=False, metrics={name: options}), judge, None, clock_ns=lambda: 42
        )
        if subject is None or hasattr(subject, "final_output"):
            [found] = asyncio.run(
                engine.evaluate_trace(subject or make_trace(), Overrides((name,)), earlier=earlier)
            )
        else:
            [found] = asyncio.run(engine.evaluate_session(subject, {}, Overrides((name,))))
        return found

    return measure
