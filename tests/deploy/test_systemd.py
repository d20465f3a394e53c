"""The unit: systemd reads it, and it leaves the service few rights."""

import re
import subprocess

import chart
import pytest

from spanscore.config import Settings

UNIT = chart.ROOT / "deploy/systemd/spanscore.service"
MOST_EXPOSED = 1.5
"""Of 10, as systemd-analyze counts; the network alone is .8."""


def setting(name):
    return re.search(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)[1]


@pytest.mark.systemd
def test_systemd_reads_it(tmp_path):
    unit = tmp_path / UNIT.name  # with a program that is there
    unit.write_text(
        re.sub("^ExecStart=.*$", "ExecStart=/bin/true", UNIT.read_text(), flags=re.MULTILINE)
    )
    words = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, [x for x in done.stderr.splitlines() if UNIT.name in x]) == (0, [])


@pytest.mark.systemd
def test_it_is_exposed_to_little():
    words = ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(UNIT)]
    said = subprocess.check_output(words, text=True)
    assert float(re.search(r"Overall exposure level .*: ([\d.]+)", said)[1]) <= MOST_EXPOSED


def test_it_has_longer_to_stop_than_the_server_takes():
    assert int(setting("TimeoutStopSec")) * 10**9 > Settings().shutdown_timeout


def test_it_may_open_the_files_that_the_server_asks_for():
    receive = Settings().receive
    connections = receive.grpc.max_connections + receive.http.max_connections
    assert int(setting("LimitNOFILE")) > connections + 500
