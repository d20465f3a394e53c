"""Lets the tests in this folder import what they share: pytest's importlib mode adds no folder to
the path.
"""

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "judge")]

_LIVE = runpy.run_path(str(HERE.parent / "live" / "conftest.py"))
server, recording = _LIVE["server"], _LIVE["recording"]
