"""Records golden cases anew: runs real frameworks against the scripted model server and keeps what
they export.

python tests/recording/record.py [--list] [--out DIR] [NAME | NAME/CASE ...]
"""

import argparse
import contextlib
import datetime as dt
import gzip
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from capture_server import CaptureServer
from conversation import CONVERSATIONS
from described import HERE, Case, Framework, frameworks
from environments import Environment, cache, make
from model_server import ModelServer, Rewrite
from script import Script
from scrub import Scrubber

from spanscore.otlp.signal import Signal

SIGNALS: tuple[Signal, ...] = ("traces", "logs")


class FailedError(Exception):
    """A framework's script did not get through the conversation."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="frameworks, or framework/case; without any, all")
    parser.add_argument("--list", action="store_true", help="show what can be recorded")
    parser.add_argument(
        "--out", type=Path, help="a folder to write to instead of tests/golden, to look first"
    )
    parser.add_argument(
        "--anyway", action="store_true", help="write even if the conversation was not finished"
    )
    args = parser.parse_args()
    known = [(x, case) for x in frameworks() for case in x.cases]
    unknown = {*args.names} - {x.name for x, _ in known} - {f"{x.name}/{y.name}" for x, y in known}
    if unknown:
        parser.error(
            f"no such framework or case: {', '.join(sorted(unknown))}; --list shows what there is"
        )
    chosen = [
        (x, y)
        for x, y in known
        if not args.names or {x.name, f"{x.name}/{y.name}"} & set(args.names)
    ]
    if args.list:
        print("\n".join(f"{x.name}/{y.name}: {y.shows}" for x, y in known))
        return 0
    failed = 0
    for framework, case in chosen:
        folder = args.out / framework.dialect / case.name if args.out else framework.golden(case)
        try:
            record(framework, case, folder, anyway=args.anyway)
        except FailedError as error:
            print(f"{framework.name}/{case.name}: {error}", file=sys.stderr)
            failed += 1
    return failed > 0


def record(framework: Framework, case: Case, folder: Path, *, anyway: bool) -> None:
    """Run the framework's script once and write the case into `folder`. Raises FailedError."""
    talk = CONVERSATIONS[framework.conversation]
    environment = make(framework)
    script = Script(talk, framework.model)
    model = ModelServer(script, environment.work / "asked.jsonl", rewrite(framework))
    capture = CaptureServer()
    try:
        fault = run(
            framework, case, environment, variables(framework, case, environment, model, capture)
        )
    finally:
        model.close()
        capture.close()
    if not fault and script.turns_answered < len(talk.turns):
        fault = (
            f"{script.turns_answered} of {len(talk.turns)} turns; asked:"
            f" {environment.work}/asked.jsonl"
        )
    if fault and not anyway:
        raise FailedError(fault)
    write(framework, case, folder, environment, capture)


def rewrite(framework: Framework) -> Rewrite | None:
    """The framework's own way to put an answer, if it has one."""
    if not framework.rewrite:
        return None
    spec: Any = importlib.util.spec_from_file_location(
        "rewriting", framework.folder / framework.rewrite
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.rewrite  # type: ignore[no-any-return]  # what recording.toml promises


def variables(
    framework: Framework,
    case: Case,
    environment: Environment,
    model: ModelServer,
    capture: CaptureServer,
) -> dict[str, str]:
    """The script's environment: nothing of the caller's but the search path."""
    otlp = capture.grpc_url if framework.protocol == "grpc" else capture.http_url
    own = {
        "PATH": f"{environment.programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(environment.work / "home"),
        "TMPDIR": tempfile.gettempdir(),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "NO_PROXY": "127.0.0.1,localhost",
        "OPENAI_BASE_URL": f"{model.url}/v1",
        "OPENAI_API_KEY": "none",
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": model.url,
        "GEMINI_API_KEY": "none",
        "GOOGLE_API_KEY": "none",
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": model.url,
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "OTEL_EXPORTER_OTLP_ENDPOINT": otlp,
        "OTEL_EXPORTER_OTLP_PROTOCOL": framework.protocol,
        "OTEL_EXPORTER_OTLP_INSECURE": "true",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_SERVICE_NAME": framework.conversation,
    }
    known = {"{model}": model.url, "{otlp}": otlp, "{work}": str(environment.work)}
    for key, value in {**framework.environment, **case.environment}.items():
        for name, stands_for in known.items():
            value = value.replace(name, stands_for)  # noqa: PLW2901  # several names in one value
        own[key] = value
    return own


def run(
    framework: Framework, case: Case, environment: Environment, variables: dict[str, str]
) -> str:
    """Run the script in its working folder; if it failed, what it said last."""
    command = [*(case.command or framework.command)]
    with (environment.work / "output.txt").open("w+", encoding="utf-8") as output:
        process = subprocess.Popen(
            command,
            cwd=environment.work,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that it ends with all that it started
            executable=find(command[0], variables["PATH"]),
        )
        try:
            status: object = process.wait(framework.timeout_s)
        except subprocess.TimeoutExpired:
            status = f"not over after {framework.timeout_s} s"
        finally:
            stop(process)
        output.seek(0)
        said = output.read()
    return f"{' '.join(command)}: {status}\n{said[-4000:]}" if status else ""


def find(program: str, path: str) -> str:
    """Where `program` is on the script's own search path; Popen would look on ours."""
    places = [Path(x) / program for x in path.split(os.pathsep)]
    return next((str(x) for x in places if x.is_file()), program)


def stop(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def write(
    framework: Framework, case: Case, folder: Path, environment: Environment, capture: CaptureServer
) -> None:
    """Write what was exported, without the machine, and where it comes from."""
    installed = environment.programs.parent
    places = {
        environment.work: "/app",
        installed: "/app/env",
        cache(): "/app",
        HERE.parents[1]: "/app",
    }
    scrubber = Scrubber(places, framework.leaves_out)
    folder.mkdir(parents=True, exist_ok=True)
    for signal_ in SIGNALS:
        request, path = capture.kept(signal_), folder / f"{signal_}.pb.gz"
        scrubber.scrub(request)
        content = request.SerializeToString()
        path.unlink(missing_ok=True)
        if content:
            path.write_bytes(gzip.compress(content, mtime=0))
            print(f"{path}: {path.stat().st_size} bytes")
    (folder / "SOURCE").write_text(source(framework, case, environment), encoding="utf-8")


def source(framework: Framework, case: Case, environment: Environment) -> str:
    """What the file SOURCE says."""
    today = dt.datetime.now(dt.UTC).date()
    versions = ", ".join(environment.versions(framework.versions))
    left_out = ", ".join(framework.leaves_out)
    without = f"Left out, since the text is not ours: {left_out}.\n" if left_out else ""
    return f"""\
Recorded by tests/recording (framework {framework.name}) on {today}: {case.shows}.
Versions: {versions}.
The conversation `{framework.conversation}` of tests/recording/conversation.py, against a model \
that answers from a
script: no provider, no person's data.
Export requests as sent, merged into one file a signal and gzipped; of the resource only the \
service's and SDK's name
are kept, and paths are replaced.
{without}Licence: Apache-2.0, like the rest of this repository.
"""


if __name__ == "__main__":
    sys.exit(main())
