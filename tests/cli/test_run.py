"""`spanscore run`: one program's telemetry received, scored and shown."""

import asyncio
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile

import pytest

from spanscore.cli import run as child
from spanscore.cli.main import main
from spanscore.serving.pipeline import Pipeline

_AGENT = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
if sys.argv[1] == "grpc":
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
else:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
tracer = provider.get_tracer("agent")
for question in ("Is it open?", "And tomorrow?"):
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": "s-1",
        "gen_ai.input.messages": \
'[{"role": "user", "parts": [{"type": "text", "content": "%s"}]}]' % question,
        "gen_ai.output.messages": \
'[{"role": "assistant", "parts": [{"type": "text", "content": "Yes, it is."}]}]',
    }
    with tracer.start_as_current_span("invoke_agent clerk", attributes=attributes):
        pass
provider.shutdown()
print("the agent's own output")
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def run(tmp_path, capfd):
    """Run a program: exit code, standard output, standard error."""
    (tmp_path / "agent.py").write_text(_AGENT)

    def command(*words):
        code = main(["run", *(str(x) for x in words)])
        return code, *capfd.readouterr()

    return command


@pytest.fixture
def agent(run, tmp_path):
    """Run the agent, with options of `run` before it."""
    return lambda *options, protocol="http", code=0: run(
        *options, "--", sys.executable, tmp_path / "agent.py", protocol, code
    )


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_what_a_program_emits_is_scored_whichever_protocol_its_exporter_speaks(
    agent, tmp_path, protocol
):
    agent("--output", tmp_path / "scores.jsonl", "--metric", "loop_detection", protocol=protocol)
    scores = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert {(x["metric"], x["label"]) for x in scores} == {
        ("loop_detection", None),
        ("loop_detection", "fail"),
    }


@pytest.mark.slow
def test_the_scores_are_on_standard_error_and_the_programs_output_is_its_own(agent):
    _, out, err = agent()
    assert out == "the agent's own output\n"
    assert "And tomorrow?" in err


@pytest.mark.slow
def test_only_what_fails_is_shown_where_that_is_asked_for(agent):
    err = agent("--failing", "--metric", "loop_detection")[2]
    assert err.count("\nsession s-1") + err.count("\ntrace ") == 1


@pytest.mark.slow
def test_the_exit_code_is_the_programs(agent):
    assert agent(code=3)[0] == 3


@pytest.mark.slow
def test_a_program_that_a_signal_ended_has_the_code_of_a_shell(run):
    assert run("--", "/bin/sh", "-c", "kill -9 $$")[0] == 128 + 9


def test_a_program_that_is_not_there_is_127(run):
    code, _, err = run("--", "no-such-program")
    assert (code, "no such program" in err) == (127, True)


def test_a_file_that_cannot_be_run_is_126(run, tmp_path):
    assert run("--", tmp_path / "agent.py")[0] == 126


@pytest.mark.slow
def test_a_program_that_emits_nothing_is_told_how_to(run):
    assert "Is it instrumented" in run("--", "/bin/sh", "-c", ":")[2]


def test_without_a_program_it_is_bad_input(run):
    assert run("--model", "gpt-4o-mini")[0] == 2


@pytest.mark.slow
def test_the_store_is_kept_where_that_is_asked_for(agent, tmp_path, capfd):
    agent("--keep", tmp_path / "kept")
    assert main(["traces", "--store", str(tmp_path / "kept" / "store.db"), "--json"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 2


def test_a_folder_that_is_in_use_is_not_written_to(agent, tmp_path):
    assert agent("--keep", tmp_path)[0] == 2


def test_a_folder_that_cannot_be_made_is_bad_input(run, tmp_path):
    (tmp_path / "file").touch()
    code, _, err = run("--keep", tmp_path / "file" / "kept", "--", "/bin/sh", "-c", ":")
    assert (code, "cannot be made" in err, "bug" in err) == (2, True, False)


@pytest.mark.parametrize(
    "command", [["run", "--", "/bin/sh", "-c", ":"], ["demo"], ["inspect", "memory://x"]]
)
def test_a_full_folder_for_temporary_files_is_told_with_its_exit_code(command, monkeypatch, capfd):
    def refuse(**_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    assert main(command) == 74
    [line] = capfd.readouterr().err.splitlines()
    assert line.startswith("spanscore: error: the folder for temporary files (TMPDIR)")


@pytest.mark.slow
def test_a_signal_is_passed_on_to_the_program(tmp_path):
    ready = socket.create_server(("127.0.0.1", 0))
    ready.settimeout(60)
    program = (
        "import signal, socket, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        f"socket.create_connection(('127.0.0.1', {ready.getsockname()[1]}))\n"
        "signal.pause()\n"
    )
    words = [sys.executable, "-m", "spanscore.cli.main", "run", "--", sys.executable, "-c", program]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as running:
        ready.accept()
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 7


@pytest.fixture
def dying(monkeypatch):
    """A server that an error ends as soon as it serves."""

    async def run(self, stopping, started):
        started()
        await asyncio.sleep(0)
        raise OSError("the disk is gone")

    monkeypatch.setattr(Pipeline, "run", run)


@pytest.mark.slow
@pytest.mark.parametrize(("of_program", "code"), [(0, 1), (3, 3)])
def test_a_server_that_ends_by_an_error_is_not_waited_for(agent, dying, of_program, code):
    found, out, err = agent(code=of_program)
    assert (found, out) == (code, "the agent's own output\n")
    assert "nothing is scored: OSError: the disk is gone" in err


@pytest.mark.slow
def test_the_program_inherits_no_setting_that_is_for_this_process_alone(run, monkeypatch):
    monkeypatch.delenv("GRPC_VERBOSITY", raising=False)
    assert "GRPC_VERBOSITY" not in run("--", "/usr/bin/env")[1]


def test_the_environment_of_the_program_leads_to_the_receiver_alone():
    before = {
        "PATH": "/bin",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "https://backend",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://backend/v1/traces",
        "OTEL_EXPORTER_OTLP_HEADERS": "key=secret",
        "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "grpc",
        "OTEL_TRACES_EXPORTER": "console",
        "OTEL_SERVICE_NAME": "shop",
    }
    found = child.environment(before, "http://127.0.0.1:9", with_content=True)
    assert {name: value for name, value in found.items() if "OTLP" in name} == {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    }
    assert (found["OTEL_TRACES_EXPORTER"], found["OTEL_SERVICE_NAME"], found["PATH"]) == (
        "otlp",
        "shop",
        "/bin",
    )


def test_what_the_user_says_about_content_and_protocol_holds():
    names = ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "OTEL_EXPORTER_OTLP_PROTOCOL")
    before = dict(zip(names, ("NO_CONTENT", "grpc"), strict=True))
    found = child.environment(before, "http://127.0.0.1:9", with_content=True)
    assert {name: found[name] for name in names} == before


def test_content_is_not_asked_for_where_telemetry_is_passed_on():
    found = child.environment({}, "http://127.0.0.1:9", with_content=False)
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" not in found
