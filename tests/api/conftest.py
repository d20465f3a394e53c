"""What tests of the API share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

collect_ignore = ["formats_of_requests.py"]  # it is imported by Schemathesis, in its environment
