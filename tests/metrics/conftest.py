"""Lets the tests in this folder import what they share: pytest's importlib mode adds no folder to
the path.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
