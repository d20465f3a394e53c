"""Lets the tests in this folder import what they share: pytest's importlib mode adds no folder to
the path.
"""

import asyncio
import runpy
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "judge")]

_LIVE = runpy.run_path(str(HERE.parent / "live" / "conftest.py"))
server, recording = _LIVE["server"], _LIVE["recording"]


@pytest.fixture(autouse=True)
def _close_model_clients():
    """Close the HTTP sessions that litellm keeps for the event loop of a test, which ends with it;
    nothing else does, and each prints "Unclosed client session" at the end of the run.
    """
    yield
    litellm = sys.modules.get("litellm")
    if litellm is not None:
        asyncio.run(litellm.close_litellm_async_clients())
        litellm.in_memory_llm_clients_cache.flush_cache()
