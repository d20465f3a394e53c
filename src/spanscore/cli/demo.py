"""`spanscore demo`: recorded spans to scores, without a key."""

import argparse
import contextlib
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import grpc
import yaml
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from spanscore import local_files
from spanscore.api.v1.score_pb2 import (
    SCOPE_SESSION,
    SCOPE_TRACE,
    STATUS_FAILED,
    STATUS_SCORED,
    STATUS_SKIPPED,
    Score,
)
from spanscore.api.v1.score_service_pb2 import ListScoresRequest
from spanscore.api.v1.score_service_pb2_grpc import ScoreServiceStub
from spanscore.cli import score_summary, trace_files
from spanscore.cli.backend import SIGNALS, Backend, from_environment
from spanscore.cli.backend import exporters as exporters_to
from spanscore.cli.options import argument
from spanscore.cli.terminal import console
from spanscore.errors import InputError, SpanscoreError
from spanscore.evaluation.config import FAMILY
from spanscore.judge.cache import load as load_recorded
from spanscore.model.trace import Session
from spanscore.otlp import codec, files
from spanscore.rebuild import rebuild_all
from spanscore.temporary_files import kept_folder

if TYPE_CHECKING:
    from rich.console import Console

_RECORDING = "pydantic-ai"
_STATUS = {STATUS_SCORED: "scored", STATUS_SKIPPED: "skipped", STATUS_FAILED: "failed"}
_REACHED_BY = ("_API_KEY", "_API_BASE")
"""How variables end that name a provider's key, or a server of one's own, which needs none."""

_RECORDED_TIMEOUT_S, _MODEL_TIMEOUT_S = 45.0, 300.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    argument(
        parser, "--keep FOLDER", "keep there what was sent, the scores and all files of the server"
    )


def run(args: argparse.Namespace) -> int:
    """Start a server, replay the recording, print its scores, and stop the server.

    Returns the exit code.
    """
    import grpc_health.v1  # noqa: F401, PLC0415 - what a server needs: if it is missing, this says so

    output = console()
    folder = kept_folder(args.keep, "spanscore-demo-")
    ports = Ports.free()
    backend = _backend(output)
    judge = _judge(os.environ, output)
    requests = recorded_requests(recordings() / _RECORDING, time.time_ns())
    traces = rebuild_all(span for request in requests for span in codec.spans(request))
    sessions = trace_files.sessions(traces)
    sent = folder / "traces.jsonl"
    local_files.write(sent, "".join(f"{codec.encode(x)}\n" for x in requests).encode())
    settings = configuration(folder, ports, judge, backend)
    with running(folder, ports, settings) as control:
        output.print(
            "Coherence: character n-grams, no embedding model; passes from"
            f" {NGRAMS_THRESHOLD}, left out of the session scores (docs/embeddings.md)"
        )
        output.print(f"Server: OTLP/gRPC on 127.0.0.1:{ports.grpc}, until its scores are here")
        server = Backend(
            f"http://127.0.0.1:{ports.grpc}",
            "127.0.0.1",
            ports.grpc,
            "grpc",
            secure=False,
            headers={},
        )
        # the backend first: scores are to follow the spans they are about
        for destination in (backend, server):
            if destination is not None and not send(requests, destination):
                raise SpanscoreError(f"{destination.url} did not take the recorded spans")
        output.print(f"Sent: {len(traces)} turns of a {_RECORDING} agent")
        timeout_s = _RECORDED_TIMEOUT_S if "recorded_answers" in judge else _MODEL_TIMEOUT_S
        with output.status("waiting until traces and sessions have been quiet, and are scored"):
            found = wait_for_scores(control, sessions, timeout_s)
    output.print()
    for session in sessions:
        _print_session(output, session, found[session.session_id])
    _print_summary(output, [score for session in sessions for score in found[session.session_id]])
    _print_destinations(output, folder, backend)
    output.print(_NEXT)
    for command in ("inspect", "eval"):
        output.print(f"    spanscore {command} {shlex.quote(str(sent))}", soft_wrap=True)
    if args.keep is None:
        for path in folder.glob("*.db*"):
            path.unlink()
    return 0


_NEXT = """
Next, your own agent (docs/quickstart.md):
  in its process, after OpenTelemetry is set up
    import spanscore
    spanscore.instrument(metrics=["check"])  # or judge="gpt-4o-mini"
  as a server, to which the agents or your collector send (docs/collector.md)
    spanscore config init
    spanscore serve -c spanscore.yaml  # OTLP on 4327 and 4328
  from a file of spans, such as these"""


def _backend(output: "Console") -> Backend | None:
    backend = from_environment(os.environ)
    if backend is None or backend.listens():
        return backend
    output.print(
        f"Nothing listens on OTEL_EXPORTER_OTLP_ENDPOINT ({backend.url}): scores go to a file only"
    )
    return None


def _judge(environ: Mapping[str, str], output: "Console") -> dict[str, Any]:
    """The configuration of the judge: SPANSCORE_JUDGE_MODEL where there is a key for it, else
    recorded answers.
    """
    model = environ.get("SPANSCORE_JUDGE_MODEL")
    if model:
        if any(name.endswith(_REACHED_BY) and value for name, value in environ.items()):
            output.print(f"Judge: {model}")
            return {"model": model}
        output.print(f"Judge: {model} has no key here, such as OPENAI_API_KEY")
    recording = load_recorded(_answers())
    output.print(
        f"Judge: recorded answers of {recording.model}, given on {recording.recorded} to these very"
        " questions; nothing is sent (SPANSCORE_JUDGE_MODEL and a key ask a model now)"
    )
    return recorded_judge()


def recorded_judge() -> dict[str, Any]:
    """The configuration of a judge that gives the answers recorded for the demo's recording."""
    return {"recorded_answers": str(_answers())}


def _answers() -> Path:
    return recordings() / f"{_RECORDING}.answers"


def _print_session(output: "Console", session: Session, found: Sequence[Score]) -> None:
    for trace in session.traces:
        rows = [_row(score) for score in found if score.subject_id == trace.id]
        score_summary.print_block(output, f"trace {trace.trace_ids[0]}", trace.user_input, rows)
    rows = [_row(score) for score in found if score.scope == SCOPE_SESSION]
    score_summary.print_block(
        output, f"session {session.session_id}", f"{len(session.traces)} traces", rows
    )


def _row(score: Score) -> score_summary.Row:
    value = score.value if score.HasField("value") else None
    return score_summary.Row(
        score.metric, _STATUS[score.status], value, score.label, score.reason, score.skip_cause
    )


def _print_summary(output: "Console", found: Sequence[Score]) -> None:
    """Print how many scores passed, and again each that did not."""
    rows = [(score, _row(score)) for score in found]
    labelled = [x for x in rows if x[1].label in {"pass", "fail"}]
    failing = [x for x in rows if x[1].label == "fail" or x[1].status == "failed"]
    output.print(
        f"Summary: {len(labelled) - sum(x[1].label == 'fail' for x in failing)} of {len(labelled)}"
        " scores pass"
    )
    for score, row in failing:
        of = (
            f"session {score.session_id}"
            if score.scope == SCOPE_SESSION
            else f"trace {score.trace_id[:8]}"
        )
        value = "" if row.value is None else f" {row.value:.2f}"
        output.print(f"  {row.label or row.status}: {row.metric}{value}, {of}", soft_wrap=True)
    output.print()


def _print_destinations(output: "Console", folder: Path, backend: Backend | None) -> None:
    """Say where the scores went, by what is really there."""
    path = folder / "scores.jsonl"
    sent = files.load([path])
    output.print(f"Scores by OTLP: {len(sent.spans)} spans and {len(sent.logs)} events")
    output.print(f"  in the file {path}", soft_wrap=True)
    if backend is not None:
        output.print(f"  and at {backend.url}, with the spans they are about", soft_wrap=True)
    output.print("The server's log and configuration are beside the file.")


NGRAMS_THRESHOLD = 0.15
"""What docs/embeddings.md recommends for coherence under character n-grams, whose scale is not that
of meaning.
"""

_START_TIMEOUT_S = 30
_STOP_TIMEOUT_S = 20
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Ports:
    """Free loopback ports, one for each listener of the server."""

    grpc: int
    http: int
    health: int
    control: int

    @classmethod
    def free(cls) -> "Ports":
        """Four ports that nothing listened on a moment ago."""
        with contextlib.ExitStack() as stack:
            taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(4)]
            return cls(*(one.getsockname()[1] for one in taken))


def configuration(
    folder: Path, ports: Ports, judge: Mapping[str, Any] | None, backend: Backend | None
) -> dict[str, Any]:
    """The configuration of a server that keeps everything in `folder` and does not wait long for
    anything.

    `judge` is its section of that name; None: no model.
    """
    exporters: dict[str, Any] = {"otlp_json_file": {"path": str(folder / "scores.jsonl")}}
    if backend is not None:
        exporters.update(
            exporters_to(
                {"traces": backend} if backend.whole_url else dict.fromkeys(SIGNALS, backend)
            )
        )
    return {
        "receive": {
            "grpc": {"endpoint": f"127.0.0.1:{ports.grpc}"},
            "http": {"endpoint": f"127.0.0.1:{ports.http}"},
            "health": {"endpoint": f"127.0.0.1:{ports.health}"},
        },
        "api": {"endpoint": f"127.0.0.1:{ports.control}"},
        "journal": {"path": str(folder / "journal.db")},
        "store": {"url": f"sqlite:///{folder / 'store.db'}"},
        "assemble": {"complete_after": "1s", "idle_after": "2s", "session_idle_after": "2s"},
        "judge": {**(judge or {}), "try_at_start": False},
        "embedding": {"provider": "ngrams"},
        "evaluation": {
            "metrics": {
                name: {"threshold": NGRAMS_THRESHOLD} if name == "coherence" else {}
                for name in FAMILY
            },
            "signal_weights": {"coherence": 0},
        },
        "export": {"exporters": exporters},
    }


@contextlib.contextmanager
def running(folder: Path, ports: Ports, settings: dict[str, Any]) -> Iterator[ScoreServiceStub]:
    """Run the server, ready to receive, while the block runs; it is always stopped, and has then
    sent every score.

    Gives the stub of its scores. Raises SpanscoreError when it does not start, or does not
    end well.
    """
    config, log = folder / "config.yaml", folder / "server.log"
    local_files.write(config, yaml.safe_dump(settings, sort_keys=False).encode())
    command = [sys.executable, "-m", "spanscore.cli.main", "serve", "-c", str(config)]
    local_files.write(log, b"")
    with log.open("ab") as output:
        # In a session of its own, so that Ctrl-C reaches only this process, which then stops the
        # server.
        child = subprocess.Popen(  # noqa: S603 - this very program
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        with grpc.insecure_channel(f"127.0.0.1:{ports.control}") as channel:
            _wait_until_ready(child, (ports.grpc, ports.http, ports.health, ports.control), log)
            yield ScoreServiceStub(channel)
    finally:
        _stop(child)
    if child.returncode:
        raise SpanscoreError(
            f"the server ended with exit code {child.returncode}; all it wrote is in {log}"
        )


def wait_for_scores(
    stub: ScoreServiceStub, sessions: Sequence[Session], timeout_s: float
) -> dict[str, list[Score]]:
    """The scores of each session and its traces, by session id, once all have theirs.

    Raises SpanscoreError when that takes longer than `timeout_s` seconds, or the server does not
    answer.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        found = {session.session_id: _scores(stub, session.session_id) for session in sessions}
        if all(_is_whole(found[session.session_id], session) for session in sessions):
            return found
        if time.monotonic() > deadline_s:
            raise SpanscoreError(f"the sessions had no scores within {timeout_s:.0f} s")
        time.sleep(_POLL_S)


def _is_whole(scores: Sequence[Score], session: Session) -> bool:
    """Whether every trace has scores, and the session itself has some that are younger than all of
    those.
    """
    of_traces = [score.evaluated_at_ns for score in scores if score.scope == SCOPE_TRACE]
    of_session = [score.evaluated_at_ns for score in scores if score.scope == SCOPE_SESSION]
    missing = {trace.id for trace in session.traces} - {score.subject_id for score in scores}
    return bool(of_session) and not missing and min(of_session) >= max(of_traces, default=0)


def _scores(stub: ScoreServiceStub, session_id: str) -> list[Score]:
    try:
        return list(stub.ListScores(ListScoresRequest(session_id=session_id), timeout=5).scores)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.NOT_FOUND:
            return []
        raise SpanscoreError(
            f"the server does not answer: {error.code().name}, {error.details()}"
        ) from error


def _wait_until_ready(child: "subprocess.Popen[bytes]", ports: Sequence[int], log: Path) -> None:
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while not all(_listens(port) for port in ports):
        if child.poll() is not None or time.monotonic() > deadline_s:
            last = (log.read_text(errors="replace").splitlines() or ["it wrote nothing"])[-1]
            raise SpanscoreError(f"the server did not start: {last} (all it wrote is in {log})")
        time.sleep(_POLL_S / 4)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _stop(child: "subprocess.Popen[bytes]") -> None:
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


_GRPC_METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_HTTP_PATH = "/v1/traces"
_TIMEOUT_S = 10


def recordings() -> Path:
    """The folder of the recordings: in the installed package, or in the repository."""
    installed = Path(__file__).parent / "recordings"
    return (
        installed if installed.is_dir() else Path(__file__).parents[3] / "examples" / "recordings"
    )


def recorded_requests(folder: Path, now_ns: int) -> list[ExportTraceServiceRequest]:
    """The requests recorded in `folder`, with new ids and all times moved so that the last span
    ends at `now_ns`.

    Some backends know a span by its id alone, so those are new as well. Raises InputError when
    there are none.
    """
    found = [
        ExportTraceServiceRequest.FromString(path.read_bytes())
        for path in sorted(folder.glob("traces-*.pb"))
    ]
    if not any(_spans(request) for request in found):
        raise InputError(
            f"{folder}: no recording there; give the folder with the traces-*.pb files"
        )
    renew(found, [], now_ns)
    return found


def renew(
    traces: Sequence[ExportTraceServiceRequest],
    logs: Sequence[ExportLogsServiceRequest],
    now_ns: int,
) -> None:
    """Change what was recorded in one go as `requests` says; of log records alone the last one is
    from `now_ns`.
    """
    spans = [span for request in traces for span in _spans(request)]
    records = [record for request in logs for record in _records(request)]
    ends_ns = [x.end_time_unix_nano for x in spans] or [
        x.time_unix_nano or x.observed_time_unix_nano for x in records
    ]
    later_ns = now_ns - max(ends_ns, default=now_ns)
    trace_mask, span_mask = secrets.token_bytes(16), secrets.token_bytes(8)
    for record in records:
        record.trace_id, record.span_id = (
            _masked(record.trace_id, trace_mask),
            _masked(record.span_id, span_mask),
        )
        record.time_unix_nano += later_ns if record.time_unix_nano else 0
        record.observed_time_unix_nano += later_ns if record.observed_time_unix_nano else 0
    for span in spans:
        span.parent_span_id = _masked(span.parent_span_id, span_mask)
        span.trace_id, span.span_id = (
            _masked(span.trace_id, trace_mask),
            _masked(span.span_id, span_mask),
        )
        for link in span.links:
            link.trace_id, link.span_id = (
                _masked(link.trace_id, trace_mask),
                _masked(link.span_id, span_mask),
            )
        span.start_time_unix_nano += later_ns
        span.end_time_unix_nano += later_ns
        for event in span.events:
            event.time_unix_nano += later_ns


def send(found: Iterable[ExportTraceServiceRequest], backend: Backend) -> bool:
    """Send the requests by OTLP as they are; whether all were taken."""
    if backend.protocol == "http":
        return all(_post_http(request.SerializeToString(), backend) for request in found)
    secure = grpc.ssl_channel_credentials()
    channel = (
        grpc.secure_channel(backend.target, secure)
        if backend.secure
        else grpc.insecure_channel(backend.target)
    )
    with channel:
        export = channel.unary_unary(_GRPC_METHOD)
        try:
            for request in found:
                export(
                    request.SerializeToString(),
                    timeout=_TIMEOUT_S,
                    metadata=tuple(backend.headers.items()),
                )
        except grpc.RpcError:
            return False
    return True


def _post_http(body: bytes, backend: Backend) -> bool:
    headers = {**backend.headers, "content-type": "application/x-protobuf"}
    request = Request(f"{backend.url}{_HTTP_PATH}", body, headers)  # noqa: S310 - the user's own endpoint, http or https
    try:
        urlopen(request, timeout=_TIMEOUT_S).close()  # noqa: S310 - likewise
    except OSError:
        return False
    return True


def _masked(given: bytes, mask: bytes) -> bytes:
    """Another id in the place of `given`, the same for the same; what is no id, such as no parent,
    stays.
    """
    return (
        bytes(a ^ b for a, b in zip(given, mask, strict=True)) if len(given) == len(mask) else given
    )


def _spans(request: ExportTraceServiceRequest) -> list[trace_pb2.Span]:
    return [
        span
        for of_one in request.resource_spans
        for scoped in of_one.scope_spans
        for span in scoped.spans
    ]


def _records(request: ExportLogsServiceRequest) -> list[logs_pb2.LogRecord]:
    return [
        record
        for of_one in request.resource_logs
        for scoped in of_one.scope_logs
        for record in scoped.log_records
    ]
