"""`spanscore demo`: the whole way, from a recorded agent's spans to its scores, on this machine and
without a key.
"""

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spanscore.api.v1.score_pb2 import (
    SCOPE_SESSION,
    STATUS_FAILED,
    STATUS_SCORED,
    STATUS_SKIPPED,
    Score,
)
from spanscore.cli import demo_server, recorded, replay, score_blocks
from spanscore.cli.backend import Backend, from_environment
from spanscore.cli.terminal import console
from spanscore.errors import SpanscoreError
from spanscore.judge.cache import load as load_recorded
from spanscore.model.trace import Session
from spanscore.otlp import decode, files
from spanscore.rebuild import rebuild_all
from spanscore.temporary_files import temporary_folder

if TYPE_CHECKING:
    from rich.console import Console

_RECORDING = "pydantic-ai"
_STATUS = {STATUS_SCORED: "scored", STATUS_SKIPPED: "skipped", STATUS_FAILED: "failed"}
_RECORDED_TIMEOUT_S, _MODEL_TIMEOUT_S = 45.0, 300.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "--keep", action="store_true", help="keep the server's journal and store as well"
    )


def run(args: argparse.Namespace) -> int:
    """Start a server, replay the recording, print its scores, and stop the server.

    Returns the exit code.
    """
    output = console()
    folder = temporary_folder("spanscore-demo-")
    ports = demo_server.Ports.free()
    backend = _backend(output)
    judge = _judge(os.environ, output)
    requests = replay.requests(replay.recordings() / _RECORDING, time.time_ns())
    traces = rebuild_all(span for request in requests for span in decode.spans(request))
    sessions = recorded.sessions(traces)
    settings = demo_server.configuration(folder, ports, judge, backend)
    with demo_server.running(folder, ports, settings) as control:
        output.print(
            "Coherence: character n-grams, no embedding model; passes from"
            f" {demo_server.NGRAMS_THRESHOLD}, left out of the session scores (docs/embeddings.md)"
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
            if destination is not None and not replay.send(requests, destination):
                raise SpanscoreError(f"{destination.url} did not take the recorded spans")
        output.print(
            f"Sent: {len(traces)} turns of a {_RECORDING} agent, with {replay.exporter_name()}"
        )
        timeout_s = _RECORDED_TIMEOUT_S if "recorded_answers" in judge else _MODEL_TIMEOUT_S
        with output.status("waiting until traces and sessions have been quiet, and are scored"):
            found = demo_server.wait_for_scores(control, sessions, timeout_s)
    output.print()
    for session in sessions:
        _print_session(output, session, found[session.session_id])
    _print_summary(output, [score for session in sessions for score in found[session.session_id]])
    _print_destinations(output, folder, backend)
    if not args.keep:
        for path in folder.glob("*.db*"):
            path.unlink()
    return 0


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
        if any(name.endswith("_API_KEY") and value for name, value in environ.items()):
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
    return replay.recordings() / f"{_RECORDING}.answers"


def _print_session(output: "Console", session: Session, found: Sequence[Score]) -> None:
    for trace in session.traces:
        rows = [_row(score) for score in found if score.subject_id == trace.id]
        score_blocks.print_block(output, f"trace {trace.trace_ids[0]}", trace.user_input, rows)
    rows = [_row(score) for score in found if score.scope == SCOPE_SESSION]
    score_blocks.print_block(
        output, f"session {session.session_id}", f"{len(session.traces)} traces", rows
    )


def _row(score: Score) -> score_blocks.Row:
    value = score.value if score.HasField("value") else None
    return score_blocks.Row(
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
