"""The example notebook runs from its first cell to its last, without a key, and shows scores."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples/notebook"
NOTEBOOK = FOLDER / "scores.ipynb"
UV = Path(sys.executable).with_name("uv")

AS_A_NOTEBOOK = """
import ast, asyncio, json, sys

async def main():
    given = {"__name__": "__main__"}
    for cell in json.load(open(sys.argv[1]))["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "cell", "exec"), given)
        if last is not None:
            print(eval(compile(ast.Expression(last.value), "cell", "eval"), given))

asyncio.run(main())
"""
"""Runs the cells one after the other in a running event loop, as a kernel does, and shows each
cell's last value.
"""

WITH_NBCLIENT = """
import sys, nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], 4)
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
print(nbformat.writes(notebook))
"""


@pytest.fixture
def environ(tmp_path):
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path)}


def run(python, script, environ):
    words = [str(python), "-c", script, str(NOTEBOOK)]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env=environ, cwd=FOLDER, timeout=400
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_every_cell_runs_and_scores_are_shown(environ):
    shown = run(sys.executable, AS_A_NOTEBOOK, environ)
    assert "4 traces, 2 sessions, 12 scores" in shown
    assert "help desk: 2 cases, 2 passed" in shown


def test_it_is_kept_without_outputs():
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert [x["id"] for x in cells if x.get("outputs") or x.get("execution_count")] == []


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python with a kernel and this spanscore; skips where no package registry answers."""
    folder = tmp_path_factory.mktemp("kernel")
    subprocess.run(
        [UV, "venv", "-q", "--python", sys.executable, folder], check=True, capture_output=True
    )
    python = folder / "bin/python"
    requirements = ["-e", str(ROOT), "-r", str(FOLDER / "requirements.txt")]
    words = [UV, "pip", "install", "-q", "--python", python, *requirements]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"the kernel cannot be installed: {done.stderr[-500:]}")
    return python


@pytest.mark.examples
def test_a_kernel_shows_the_report_as_a_table(python, environ):
    cells = json.loads(run(python, WITH_NBCLIENT, environ))["cells"]
    shown = [y for x in cells if x["cell_type"] == "code" for y in x["outputs"]]
    assert any("<table" in "".join(x.get("data", {}).get("text/html", "")) for x in shown)
    assert [x for x in shown if x["output_type"] == "error"] == []
