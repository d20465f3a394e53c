import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("given", "inherited"), [(None, "2"), ("7", "7")])
def test_programs_that_are_started_share_as_few_heaps_unless_the_environment_decides(
    given, inherited
):
    code = (
        "import os; from spanscore.cli import heaps; heaps.use_few();"
        " print(os.environ['MALLOC_ARENA_MAX'])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    environment |= {} if given is None else {"MALLOC_ARENA_MAX": given}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == inherited
