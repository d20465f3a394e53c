"""A field of a run is defined once, and is then in all that is made from it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filled_store import fill

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
BIN, PROTOC = ROOT / ".venv/bin", ROOT / ".venv/protoc/bin/python"
_BEFORE = '''class RunSpec(Spec):
    """What is evaluated, by what, and what becomes of it."""
'''
_FIELD = '''
    urgency: int = Field(default=0, ge=0, le=9)
    """How soon it is wanted."""
'''
_CLIENT = """
import sys
from spanscore import Client
with Client(sys.argv[1]) as client:
    made = client.runs.create(urgency=5, count=1)
    print(client.runs.get(made.name).urgency)
"""
_NOT_BUILT = 3


@pytest.fixture
def copy(tmp_path):
    """A copy of what is made from specs and protos, with one more field of a run."""
    folder = tmp_path / "copy"
    for part in ("src", "proto"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    specs = folder / "src/spanscore/specs.py"
    text = specs.read_text()
    assert text.count(_BEFORE) == 1
    specs.write_text(text.replace(_BEFORE, _BEFORE + _FIELD))
    _make(folder, [BIN / "python", "proto/resources.py", "proto/spanscore/v1"])
    _make(folder, ["sh", "proto/generate.sh", BIN, PROTOC, "src/spanscore/api/v1"])
    _make(folder, ["sh", "proto/openapi.sh", BIN, PROTOC, "src/spanscore/api/openapi.json"])
    return folder


def _make(folder, command):
    env = os.environ | {"PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode == _NOT_BUILT:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr


def test_a_new_field_of_a_run_is_one_edit(copy, serve, show, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(copy / "src"))
    served = serve()
    fill(served.store_url, 5)
    served.start()

    proto = (copy / "proto/spanscore/v1/run_service.proto").read_text()
    assert "// How soon it is wanted. At least 0, at most 9.\n" in proto
    document = json.loads((copy / "src/spanscore/api/openapi.json").read_text())
    described = document["components"]["schemas"]["spanscore.v1.Run"]["properties"]["urgency"]
    assert described["anyOf"][0]["maximum"] == 9

    asked = [sys.executable, "-c", _CLIENT, served.endpoint]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == "5\n"

    (copy / "run.yaml").write_text("urgency: 7\n")
    assert json.loads(_command(served, copy / "run.yaml").stdout)["urgency"] == "7"
    (copy / "run.yaml").write_text("urgency: 10\n")
    assert (
        "run.urgency: Input should be less than or equal to 9"
        in _command(served, copy / "run.yaml").stderr
    )

    page = show(served, "#/runs?new=1", ready=".form")
    page.get_by_text("All other fields").click()
    page.get_by_label("Urgency").fill("3")
    page.get_by_role("button", name="What does it cost?").click()
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_selector(".page.run")
    assert {x.get("urgency") for x in served.ask("RunService/ListRuns")["runs"]} == {"3", "5", "7"}


def _command(served, spec):
    command = [sys.executable, "-m", "spanscore.cli.main", "runs", "create", "--spec", spec]
    return subprocess.run(
        [*command, "--server", served.endpoint, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
