"""Whether the report can be opened in a real Chromium here: 0, or 3 with a line that says why
not.
"""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "live/ui"))

from harness.browser import chromium
from harness.installed import packages

from spanscore.errors import SpanscoreError

try:
    chromium()
    packages("playwright")
except (SpanscoreError, subprocess.CalledProcessError, OSError) as error:
    sys.stderr.write(f"the report cannot be opened in a browser here: {error}\n")
    sys.exit(3)
