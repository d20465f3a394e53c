"""Every command that a page shows is run as it stands there, and every output is what comes out."""

import argparse
import ast
import contextlib
import gzip
import inspect
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from commands import ROOT, blocks, inline
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask
from obliging_model import ObligingModel
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from scripted_server import ScriptedServer

from spanscore.api.server import services
from spanscore.api.servicer import methods
from spanscore.cli import main, trace_files
from spanscore.model.score import Evaluation, Evaluator, Failure
from spanscore.store.config import Config as StoreConfig
from spanscore.store.store import Store, StoredTrace
from spanscore.testing.traces import agent_trace

BIN = Path(sys.executable).parent
DEADLINE_S = 300
ELSEWHERE = "add-a-dialect"  # tests/dialects/test_installed.py follows that page
pytestmark = pytest.mark.timeout(4 * DEADLINE_S)  # a page may show many commands
# a synopsis is no command
SHELL_BLOCKS = [x for x in blocks() if x.commands and x.page != "docs/cli.md"]
PYTHON_BLOCKS = [x for x in blocks() if x.language == "python"]

SHOWING_FILES = {x.page for x in blocks() if x.file is not None}
RUNNING_FILES = SHOWING_FILES & {
    x.page for x in SHELL_BLOCKS if {"python", "pytest"} & {y.split()[0] for y in x.commands}
}
"""Pages whose commands run the files that they show."""

MODEL_ON_LOOPBACK = re.compile(r"http://127\.0\.0\.1:\d+/v1\b")

NOT_RUN = {
    "python examples/recordings/record_answers.py": (
        "asks a provider's model and replaces the recorded answers"
    ),
    "curl -G http://127.0.0.1:16686": "asks a Jaeger: make ui-jaeger CHECK=1 does",
    "curl -s 'http://127.0.0.1:9411": "asks a Zipkin: make ui-zipkin CHECK=1 does",
    "spanscore eval 'jaeger://localhost": "asks a Jaeger: tests/live/ui/test_sources.py does",
    "spanscore inspect 'jaeger+https://": "asks a Jaeger: tests/live/ui/test_sources.py does",
    "spanscore compare --server": "asks a server with two runs: tests/cli/test_stored.py does",
    "spanscore report 's3://": "asks an object store: tests/sources does, of one in memory",
    "otelcol-contrib": "tests/live/collector starts the collector with each of the examples",
    ".venv/bin/pytest tests/golden -k parley": "tests/dialects/test_installed.py follows that page",
    ".venv/bin/python - <<'END'": "tests/dialects/test_installed.py follows that page",
}
"""Commands that these tests do not run, by their beginning, and why."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder as a reader has it: what an agent sent, a suite, labels, two runs, and the project's
    examples.
    """
    made = tmp_path_factory.mktemp("reader")
    (made / "examples").symlink_to(ROOT / "examples")
    (made / "bench").symlink_to(ROOT / "bench")
    shutil.copy(ROOT / "examples/suite/travel.yaml", made / "suite.yaml")
    sent = sorted((ROOT / "examples/recordings/pydantic-ai").glob("*.pb"))
    requests = [ExportTraceServiceRequest.FromString(x.read_bytes()) for x in sent]
    (made / "traces.jsonl").write_text(
        "".join(json_format.MessageToJson(x, indent=None) + "\n" for x in requests)
    )
    stated = gzip.decompress(
        (ROOT / "tests/golden/semconv/shop-spanscore-sdk/traces.pb.gz").read_bytes()
    )
    request = ExportTraceServiceRequest.FromString(stated)
    (made / "stated.jsonl").write_text(json_format.MessageToJson(request, indent=None) + "\n")
    for name in ("traces", "recorded", "PATH", "recordings/gpt", "recordings/sonnet"):
        shutil.copytree(ROOT / "examples/recordings/pydantic-ai", made / name)
    ids = [x.trace_ids[0] for x in trace_files.agent_traces([made / "traces.jsonl"])]
    labels = (
        f"{x},task_completion,{'fail' if place % 3 else 'pass'}" for place, x in enumerate(ids)
    )
    (made / "labels.csv").write_text("\n".join(["trace_id,metric,label", *labels]) + "\n")
    (made / "demo").mkdir()
    shutil.copy(made / "traces.jsonl", made / "demo")
    answers = f"judge: {{recorded_answers: {ROOT}/examples/recordings/pydantic-ai.answers}}\n"
    (made / "demo/config.yaml").write_text(answers)
    for name in ("before.json", "after.json"):
        test = [BIN / "spanscore", "test", "suite.yaml", "traces.jsonl", "--output", name]
        subprocess.run(test, cwd=made, capture_output=True, check=False)
    store = Store.open(StoreConfig(url=f"sqlite:///{made}/spanscore.db"))  # as a server leaves it
    failed = agent_trace(user_input="Cancel order 7", final_output="I cannot.")
    store.commit([StoredTrace(failed, 1, "")], [_failing(failed)])
    store.close()
    return made


def _failing(trace):
    return Evaluation(
        scope="trace",
        subject_id=trace.id,
        metric="task_completion",
        outcome=Failure("TimeoutError", "no answer"),
        threshold=0.5,
        scale=(0.0, 1.0),
        evaluator=Evaluator("LLM", "task_completion", "1"),
        target=trace.target,
        session_id=None,
    )


@pytest.fixture
def environ(tmp_path):
    """The variables of a reader with a key, whom a scripted model on this machine answers."""
    with ScriptedServer(ObligingModel()) as model:
        yield {
            **{k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")},
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(tmp_path),
            "OPENAI_BASE_URL": model.url,
            "OPENAI_API_KEY": "key",
            "SPANSCORE_JUDGE_MODEL": "gpt-4o-mini",
            **{
                f"SPANSCORE_{x}_ENDPOINT": "127.0.0.1:0"
                for x in ("GRPC", "HTTP", "HEALTH", "API", "API_HTTP")
            },
        }


def why_not_run(command):
    return next((why for start, why in NOT_RUN.items() if command.startswith(start)), None)


@pytest.mark.slow
@pytest.mark.parametrize("block", SHELL_BLOCKS, ids=lambda x: x.id)
def test_a_command_that_a_page_shows_does_what_it_says(block, folder, environ, serving, tmp_path):
    """Serving goes on while the commands after it run."""
    if block.page in SHOWING_FILES:
        folder = with_files_of(block.page, shutil.copytree(folder, tmp_path / "copy"), environ)
    for command in block.commands:
        program = shlex.split(command)[0].rpartition("/")[2]
        if command.startswith("spanscore serve"):
            serving(command, environ)
        elif why_not_run(command) is None:
            CHECKS[program](command, folder, environ)


def with_files_of(page, folder, environ):
    """A folder with the files that a page shows; a model on loopback is the scripted one."""
    for block in blocks():
        if block.page == page and block.file is not None:
            text = MODEL_ON_LOOPBACK.sub(environ["OPENAI_BASE_URL"], block.text)
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(text)
    return folder


@pytest.fixture
def serving(folder):
    """Have a server run until the end of the test; whatever it says, it must be ready and stop when
    it is told to.
    """
    running = []

    def serve(command, environ):
        process = subprocess.Popen(
            ["/bin/bash", "-c", f"exec {command}"],
            cwd=folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        running.append(process)
        lines = []
        for line in process.stdout:
            lines.append(line)
            if '"ready"' in line:  # "already", too, ends so
                return
        raise AssertionError("".join(lines))

    yield serve
    for process in running:
        process.terminate()
        left, _ = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, left


def check_spanscore(command, folder, environ):
    """Run it; a gate, a suite, a tournament and the doctor may find something, and end with 1."""
    finds = "--fail-under" in command or command.startswith(
        ("spanscore test", "spanscore doctor", "spanscore eval", "spanscore best-of")
    )
    if command.startswith("spanscore demo"):
        shutil.rmtree(folder / "demo")  # it makes that folder
    done = in_shell(command, folder, environ)
    assert done.returncode in ({0, 1} if finds else {0}), done.stderr
    assert "spanscore: error" not in done.stderr
    assert done.stdout or ">" in command


def in_shell(command, folder, environ):
    return subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )


def check_pytest(command, folder, environ):
    """Its options are there; where the page shows tests, they pass."""
    plugin = (ROOT / "src/spanscore/sdk/pytest_plugin/__init__.py").read_text()
    options = [x.partition("=")[0] for x in shlex.split(command) if x.startswith("--spanscore")]
    assert [x for x in options if f'"{x}"' not in plugin] == []
    if list(folder.glob("test_*.py")):
        done = in_shell(command, folder, environ)
        assert done.returncode == 0, done.stdout


def check_make(command, *_):
    """The target is there, and the variables are looked at; CI itself runs what is quick of
    them.
    """
    target, *variables = (x for x in shlex.split(command)[1:] if not x.startswith("-"))
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    assert [x for x in variables if f"$({x.partition('=')[0]})" not in makefile] == []


def check_python(command, folder, environ):
    """The script is there, and takes these options; what it prints is of another machine. One that
    the page itself shows is run.
    """
    words = shlex.split(command)[1:]
    if (folder / words[0]).is_file() and not (ROOT / words[0]).exists():
        done = in_shell(command, folder, environ)
        assert done.returncode == 0, done.stderr
        return
    script = ROOT / (words[1].replace(".", "/") + ".py" if words[0] == "-m" else words[0])
    assert [x for x in words if x.startswith("--") and f'"{x}"' not in script.read_text()] == []


def check_pip(command, folder, _environ):
    """What is to be installed is there, with these extras; `make env` installs it for real."""
    wanted, *options = shlex.split(command)[2:]
    files = [
        ROOT / option
        for option, before in zip(options, [wanted, *options], strict=False)
        if before == "-r"
    ]
    assert [x for x in files if not x.exists()] == []
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    place, _, named = wanted.rstrip("]").partition("[")
    assert place in {".", "spanscore"}
    assert {x for x in named.split(",") if x} <= extras.keys()


def check_export(command, _folder, environ):
    """Set the variable for what comes after it."""
    name, _, value = command.removeprefix("export ").partition("=")
    if value != "...":
        environ[name] = MODEL_ON_LOOPBACK.sub(environ["OPENAI_BASE_URL"], value)


def methods_of_all():
    return [method for servicer in services(backend=None) for method in methods(servicer)]


def check_grpcurl(command, *_):
    """The method is there, and takes this message."""
    words = shlex.split(command)[1:]
    if words[-1] == "list":
        return
    service, _, method = words[-1].rpartition("/")
    [found] = [x for x in methods_of_all() if x.path == f"/{service}/{method}"]
    request = json.loads(words[words.index("-d") + 1])
    for name, value in request.items():
        match value:
            case {"paths": [*paths]}:  # grpcurl takes a field mask as a message, not as a text
                request[name] = FieldMask(paths=paths).ToJsonString()
    json_format.ParseDict(request, found.request_class())


def check_curl(command, *_):
    """The path is there, and the method takes this message."""
    words = shlex.split(command)
    path = urlsplit(next(x for x in words if x.startswith("http"))).path
    if path in {"/openapi.json", "/healthz"}:
        return
    [found] = [x for x in methods_of_all() if x.path == path]
    json_format.Parse(words[words.index("-d") + 1], found.request_class())


CHECKS = {
    "curl": check_curl,
    "spanscore": check_spanscore,
    "make": check_make,
    "python": check_python,
    "pytest": check_pytest,
    "pip": check_pip,
    "export": check_export,
    "grpcurl": check_grpcurl,
}


@pytest.mark.parametrize("start", NOT_RUN)
def test_what_is_not_run_is_shown_somewhere(start):
    assert any(x.startswith(start) for block in SHELL_BLOCKS for x in block.commands)


@pytest.mark.slow
@pytest.mark.parametrize(("page", "command"), inline())
def test_a_command_in_a_sentence_is_one_that_there_is(page, command):
    words = [x for x in shlex.split(command.replace("…", "")) if x]
    name = words[1]
    assert name in main.COMMANDS, page
    parser = main._parser(words[1:])
    choices = next(x for x in parser._actions if isinstance(x, argparse._SubParsersAction)).choices
    known = choices[name].format_help() + " ".join(
        y.format_help()
        for x in choices[name]._actions
        if isinstance(x, argparse._SubParsersAction)
        for y in x.choices.values()
    )
    known += " --jsonl" if "--json" in known else ""  # another spelling of it
    assert [x for x in words if x.startswith("-") and x.partition("=")[0] not in known] == [], page


@pytest.mark.slow
@pytest.mark.parametrize("block", PYTHON_BLOCKS, ids=lambda x: x.id)
def test_code_that_a_page_shows_runs(block, folder, monkeypatch):
    """Code that awaits something is compiled only: it goes on from what a reader has by then. So is
    a file that the page's commands run.
    """
    code = compile(block.text, block.page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    is_run = block.file is not None and block.page in RUNNING_FILES
    if code.co_flags & inspect.CO_COROUTINE or ELSEWHERE in block.page or is_run:
        return
    monkeypatch.chdir(folder)
    shown = re.findall(r"print\(.*\)  # (.+)", block.text)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {"__name__": "page"})  # noqa: S102 - the pages are the project's
    assert not shown or printed.getvalue().splitlines() == shown


def without_a_model(environ):
    return {
        k: v for k, v in environ.items() if not k.startswith(("OPENAI_", "SPANSCORE_JUDGE_MODEL"))
    }


@pytest.mark.slow
def test_the_quickstart_s_agent_prints_what_the_page_shows(tmp_path, environ):
    page = "docs/quickstart.md"
    with_files_of(page, tmp_path, environ)
    done = in_shell("python agent.py", tmp_path, without_a_model(environ))
    [shown] = [x.text for x in blocks() if (x.page, x.language) == (page, "text")]
    assert [x for x in shown.splitlines() if x not in done.stdout.splitlines()] == []


@pytest.mark.slow
@pytest.mark.parametrize("system", ["github", "gitlab"])
def test_what_ci_runs_needs_no_key_once_the_answers_are_recorded(system, tmp_path, environ):
    page = "docs/ci.md"
    with_files_of(page, tmp_path, environ)
    check_pytest("pytest --spanscore-record=once", tmp_path, environ)
    file = {"github": ".github/workflows/agent.yml", "gitlab": ".gitlab-ci.yml"}[system]
    shown = yaml.safe_load((tmp_path / file).read_text())
    commands = {
        "github": lambda: [x["run"] for x in shown["jobs"]["test"]["steps"] if "run" in x],
        "gitlab": lambda: shown["agent"]["script"],
    }[system]()
    assert [x.split()[0] for x in commands] == ["pip", "pytest"]
    for command in commands:
        CHECKS[command.split()[0]](command, tmp_path, without_a_model(environ))
    assert {"report.html", "junit.xml"} <= {x.name for x in tmp_path.iterdir()}


LOCAL_JUDGES = re.findall(
    r"^\| ([\w.]+) \| .* \| `(openai/\S+)` \| `(\S+)` \|$",
    (ROOT / "docs/local-judge.md").read_text(),
    re.MULTILINE,
)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "model", "address"), LOCAL_JUDGES)
def test_a_local_judge_is_asked_by_its_own_name_without_a_key(
    name, model, address, tmp_path, environ
):
    with_files_of("docs/local-judge.md", tmp_path, environ)
    text = (tmp_path / "spanscore.yaml").read_text()
    shown = next(x for _, x, _ in LOCAL_JUDGES if x in text)
    (tmp_path / "spanscore.yaml").write_text(text.replace(shown, model))
    traces = shlex.quote(str(ROOT / "examples/recordings/pydantic-ai"))
    command = f"spanscore eval {traces} -c spanscore.yaml --metric task_completion"
    done = in_shell(command, tmp_path, without_a_model(environ))
    assert MODEL_ON_LOOPBACK.fullmatch(address)
    assert f"Judged by {model}: 4 calls" in done.stdout, done.stderr


@pytest.mark.slow
def test_the_agreement_that_the_judges_page_shows_is_what_comes_out():
    page = (ROOT / "docs/judge.md").read_text()
    shown = re.search(r"```text\n(\w+: \d+ trajectories.*?)```", page, re.DOTALL)[1]
    done = subprocess.run(
        [sys.executable, "bench/agreement.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )
    assert shown in done.stdout
