"""Puts the modules beside the tests where these find them."""

import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

DEADLINE_S = 60


@pytest.fixture
def until():
    """Waits until something is so; what is `seen` is said where it never is."""

    def wait(is_so, seen):
        deadline_s = time.monotonic() + DEADLINE_S
        while not is_so():
            assert time.monotonic() < deadline_s, seen()
            time.sleep(0.5)

    return wait
