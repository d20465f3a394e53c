"""The shipped alert rules before Prometheus's own tool: each fires when it should, and none when
all is well.
"""

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "examples" / "grafana"

pytestmark = [pytest.mark.ui, pytest.mark.timeout(1800)]  # the first time, it is built


@pytest.fixture(scope="module")
def promtool():
    built = subprocess.run(
        [HERE / "prometheus" / "build.sh"], stdout=subprocess.PIPE, text=True, check=False
    )
    if built.returncode == 3:
        pytest.skip("Prometheus cannot be built here")
    assert built.returncode == 0
    return Path(built.stdout.strip()) / "promtool"


@pytest.mark.parametrize(("what", "name"), [("check", "alerts.yaml"), ("test", "alerts.test.yaml")])
def test_the_alerts_are_as_promtool_wants_them(promtool, what, name):
    told = subprocess.run(
        [promtool, what, "rules", EXAMPLES / name], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
