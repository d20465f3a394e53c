"""What tests of analytics share."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from populations import START_NS, Population


@pytest.fixture
def population(any_store):
    """Sixty turns with scores that pass, fail, are missing, were revised, and given or measured
    again by others.
    """
    found = Population(any_store)
    found.add(60)
    found.commit(found.traces[::6], revision=2)
    found.commit(found.traces[::2], run="a" * 32)
    for number, trace in enumerate(found.traces[::3]):
        found.give(trace, "ada", found.rng.choice([0.0, 1.0, 7.5]), START_NS + number)
        found.give(trace, "bob", None if number % 2 else 2.0, START_NS + number, label="pass")
    found.give(found.traces[0], "ada", 3.0, START_NS + 100)
    return found
