"""Lets the tests in this folder import what they share with the judge's: importlib mode adds no folder to the path."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "judge"), str(HERE.parent / "judged")]
