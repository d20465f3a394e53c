"""README and the quickstart, followed word for word in a new environment, without a key."""

import json
import os
import re
import shlex
import subprocess

import pytest
from commands import blocks
from obliging_model import ObligingModel
from scripted_server import ScriptedServer

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]
_LEFT_OUT = ("PYTEST_", "PYTHON", "OPENAI_", "SPANSCORE_", "OTEL_")


@pytest.fixture
def paste(environment, wheel, tmp_path):
    """Run commands as a reader pastes them, in one shell; gives what was printed."""

    def run(commands, **variables):
        path = f"{environment.folder}/bin{os.pathsep}{os.environ['PATH']}"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(_LEFT_OUT)}
        done = subprocess.run(
            ["/bin/bash", "-e", "-c", "\n".join(from_wheel(x, wheel) for x in commands)],
            cwd=tmp_path,
            env={**kept, "PATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache"), **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, f"{commands}: {done.stdout[-2000:]} {done.stderr[-4000:]}"
        return done.stdout

    return run


def from_wheel(command, wheel):
    """The same command; what it installs is the wheel."""
    if not command.startswith("pip install"):
        return command
    words = [re.sub(r"^spanscore(?=\[|$)", str(wheel), x) for x in shlex.split(command)]
    return shlex.join([*words, "--disable-pip-version-check", "--quiet"])


def test_readmes_blocks_work_one_after_the_other(paste, tmp_path):
    shown = [x.commands for x in blocks() if x.page == "README.md" and x.commands]
    serving = next(x for x in shown if any("spanscore serve" in y for y in x))
    for commands in shown:
        # in a shell of its own a server goes on; tests/docs runs one
        paste([x for x in commands if commands is not serving or "config init" in x])

    scores = [json.loads(x) for x in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert {x["metric"] for x in scores if x["status"] == "scored"} >= {
        "task_completion",
        "check.errors_recovered",
    }
    assert (tmp_path / "report.html").stat().st_size
    assert (tmp_path / "spanscore.yaml").stat().st_size


def test_the_quickstart_scores_an_agent_without_a_key_and_with_a_model(paste, tmp_path):
    page = [x for x in blocks() if x.page == "docs/quickstart.md"]
    for block in page:
        if block.file is not None:
            (tmp_path / block.file).write_text(block.text)
    install, run, with_model = (x.commands for x in page if x.language == "sh")

    without = paste([*install, *run])
    assert re.findall(
        r"^(?:check\.errors_recovered|task_completion) +(\w+)", without, re.MULTILINE
    ) == ["skipped", "skipped", "fail", "skipped"]
    with ScriptedServer(ObligingModel()) as model:
        settings = tmp_path / "spanscore.yaml"
        text = settings.read_text()
        text = text.replace("http://127.0.0.1:11434/v1", model.url)
        settings.write_text(f"{text}shutdown_timeout: 300s\n")  # for a busy machine
        judged = paste(with_model)
    assert re.findall(r"^task_completion +(\w+)", judged, re.MULTILINE) == ["pass", "pass"]
    assert {x["model"] for x in model.calls} == {"qwen2.5:14b"}
