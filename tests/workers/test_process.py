"""What a worker process has in memory before it takes batches."""

import subprocess
import sys

import pytest

READ = """
import sys
from spanscore.workers.answers import import_readers
import_readers()
before = set(sys.modules)
from spanscore import dialects, metrics, turns
dialects.read, dialects.all_dialects(), turns.build, metrics.available()
print(sorted(set(sys.modules) - before), "spanscore.turns.builder" in before)
"""


@pytest.mark.slow
def test_what_reads_traces_is_imported_before_a_process_is_forked_for_one():
    done = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True"
