"""`spanscore demo`: recorded spans to scores, without a key."""

import argparse
import asyncio
import logging
import os
import secrets
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import yaml
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1 import trace_pb2

from spanscore import config, local_files
from spanscore.cli import one_run, score_summary
from spanscore.cli.one_run import SIGNALS, Backend, OneRun, exporters, from_environment
from spanscore.cli.options import argument
from spanscore.cli.terminal import Output, console
from spanscore.config import Settings
from spanscore.errors import InputError, PermanentError, RetryableError, SpanscoreError
from spanscore.evaluation.config import FAMILY
from spanscore.export import open_exporters
from spanscore.export.config import Config as Export
from spanscore.judge.cache import load as load_recorded
from spanscore.model.score import Evaluation
from spanscore.otlp import codec, files
from spanscore.rebuild import rebuild_all
from spanscore.temporary_files import kept_folder

_RECORDING = "pydantic-ai"
_REACHED_BY = ("_API_KEY", "_API_BASE")
"""How variables end that name a provider's key, or a server of one's own, which needs none."""

NGRAMS_THRESHOLD = 0.15
"""What docs/embeddings.md recommends for coherence under character n-grams, whose scale is not that
of meaning.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    argument(parser, "--keep FOLDER", "keep there what was sent, the scores and the server's files")


def run(args: argparse.Namespace) -> int:
    """Score the recording by a server in this process, and print its scores. Returns the exit
    code.
    """
    import grpc_health.v1  # noqa: F401, PLC0415 - what a server needs: if it is missing, this says so

    output = console()
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    logging.getLogger("spanscore").setLevel(logging.ERROR)
    folder = kept_folder(args.keep, "spanscore-demo-")
    backend = _backend(output)
    configured = configuration(folder, _judge(os.environ, output), backend)
    written = yaml.safe_dump(configured, sort_keys=False)
    local_files.write(folder / "config.yaml", written.encode())
    requests = recorded_requests(recordings() / _RECORDING, time.time_ns())
    sent = folder / "traces.jsonl"
    local_files.write(sent, "".join(f"{codec.encode(x)}\n" for x in requests).encode())
    output.print(
        "Coherence: character n-grams, no embedding model; passes from"
        f" {NGRAMS_THRESHOLD}, left out of the session scores (docs/embeddings.md)"
    )
    found = asyncio.run(_scored(config.parse(written), folder, requests, backend, output))
    _print_scores(output, requests, found)
    _print_destinations(output, folder, backend)
    output.print(_NEXT)
    for command in ("inspect", "eval"):
        output.print(f"    spanscore {command} {shlex.quote(str(sent))}", soft_wrap=True)
    if args.keep is None:
        for path in folder.glob("*.db*"):
            path.unlink()
    return 0


async def _scored(
    settings: Settings,
    folder: Path,
    requests: Sequence[ExportTraceServiceRequest],
    backend: Backend | None,
    output: Output,
) -> list[Evaluation]:
    """Send the requests to a server and have it score them; its scores, which have left then."""
    server = OneRun(one_run.settings_for(settings, folder, None))
    async with server.serving(output.print):
        own = from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": server.endpoint})
        output.print(f"Server: OTLP on {server.endpoint}, until its scores are here")
        # the backend first: scores are to follow the spans they are about
        for destination in (backend, own):
            if destination is not None and not await send(requests, destination):
                raise SpanscoreError(f"{destination.url} did not take the recorded spans")
        with output.status("scoring"):
            await server.finish()
        _, found = await server.found()
    return found


_NEXT = """
Next, your own agent (docs/quickstart.md):
  in its process, after OpenTelemetry is set up
    import spanscore
    spanscore.instrument(metrics=["check"])  # or judge="gpt-4o-mini"
  as a server, to which the agents or your collector send (docs/collector.md)
    spanscore config init
    spanscore serve -c spanscore.yaml  # OTLP on 4327 and 4328
  from a file of spans, such as these"""


def _backend(output: Output) -> Backend | None:
    backend = from_environment(os.environ)
    if backend is None or backend.listens():
        return backend
    where = f"OTEL_EXPORTER_OTLP_ENDPOINT ({backend.url})"
    output.print(f"Nothing listens on {where}: scores go to a file only")
    return None


def _judge(environ: Mapping[str, str], output: Output) -> dict[str, Any]:
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


def _print_scores(
    output: Output, requests: Iterable[ExportTraceServiceRequest], found: Sequence[Evaluation]
) -> None:
    """Print all scores by trace and session, how many passed, and again each that did not."""
    traces = rebuild_all(span for request in requests for span in codec.spans(request))
    output.print(f"Sent: {len(traces)} turns of a {_RECORDING} agent\n")
    score_summary.print_subjects(output, traces, found)
    labelled = [x for x in found if x.shown_label in {"pass", "fail"}]
    passed = sum(x.shown_label == "pass" for x in labelled)
    output.print(f"Summary: {passed} of {len(labelled)} scores pass")
    for score in score_summary.failing(found):
        name = score.session_id if score.scope == "session" else score.target.trace_id[:8]
        value = "" if score.value is None else f" {score.value:.2f}"
        word = score.shown_label or score.status
        output.print(f"  {word}: {score.metric}{value}, {score.scope} {name}", soft_wrap=True)
    output.print()


def _print_destinations(output: Output, folder: Path, backend: Backend | None) -> None:
    """Say where the scores went, by what is really there."""
    path = folder / "scores.jsonl"
    sent = files.load([path])
    output.print(f"Scores by OTLP: {len(sent.spans)} spans and {len(sent.logs)} events")
    output.print(f"  in the file {path}", soft_wrap=True)
    if backend is not None:
        output.print(f"  and at {backend.url}, with the spans they are about", soft_wrap=True)
    output.print("The server's configuration is beside the file.")


def configuration(
    folder: Path, judge: Mapping[str, Any], backend: Backend | None
) -> dict[str, Any]:
    """The configuration of the demo's server, which keeps everything in `folder`."""
    targets: dict[str, Any] = {"otlp_json_file": {"path": str(folder / "scores.jsonl")}}
    if backend is not None:
        sent_there = SIGNALS[:1] if backend.whole_url else SIGNALS
        targets |= exporters(dict.fromkeys(sent_there, backend))
    coherence = {"coherence": {"threshold": NGRAMS_THRESHOLD}}
    return {
        "journal": {"path": str(folder / "journal.db")},
        "store": {"url": f"sqlite:///{folder / 'store.db'}"},
        "judge": {**judge, "try_at_start": False},
        "embedding": {"provider": "ngrams"},
        "evaluation": {
            "metrics": {name: coherence.get(name, {}) for name in FAMILY},
            "signal_weights": {"coherence": 0},
        },
        "export": {"exporters": targets},
    }


def recordings() -> Path:
    """The folder of the recordings: in the installed package, or in the repository."""
    installed = Path(__file__).parent / "recordings"
    in_repository = Path(__file__).parents[3] / "examples" / "recordings"
    return installed if installed.is_dir() else in_repository


def recorded_requests(folder: Path, now_ns: int) -> list[ExportTraceServiceRequest]:
    """The requests recorded in `folder`, with new ids and all times moved so that the last span
    ends at `now_ns`.

    Some backends know a span by its id alone, so those are new as well. Raises InputError when
    there are none.
    """
    files_there = sorted(folder.glob("traces-*.pb"))
    found = [ExportTraceServiceRequest.FromString(x.read_bytes()) for x in files_there]
    if not any(_spans(request) for request in found):
        how = "give the folder with the traces-*.pb files"
        raise InputError(f"{folder}: no recording there; {how}")
    spans = [span for request in found for span in _spans(request)]
    later_ns = now_ns - max(x.end_time_unix_nano for x in spans)
    trace_mask, span_mask = secrets.token_bytes(16), secrets.token_bytes(8)
    known: list[Any] = [*spans, *(link for span in spans for link in span.links)]
    for one in known:
        one.trace_id = _masked(one.trace_id, trace_mask)
        one.span_id = _masked(one.span_id, span_mask)
    for span in spans:
        span.parent_span_id = _masked(span.parent_span_id, span_mask)
    for timed in (*spans, *(event for span in spans for event in span.events)):
        _move(timed, later_ns)
    return found


def _move(one: Any, by_ns: int) -> None:
    """Move the times of a span or an event."""
    for field, value in one.ListFields():
        if field.name.endswith("time_unix_nano"):
            setattr(one, field.name, value + by_ns)


async def send(found: Iterable[ExportTraceServiceRequest], backend: Backend) -> bool:
    """Send the requests by OTLP as they are; whether all were taken."""
    target = Export.model_validate({"exporters": exporters({"traces": backend})})
    [exporter] = open_exporters(target).values()
    try:
        for request in found:
            await exporter.send("traces", request.SerializeToString())
    except (RetryableError, PermanentError):
        return False
    finally:
        await exporter.close()
    return True


def _masked(given: bytes, mask: bytes) -> bytes:
    """Another id in the place of `given`, the same for the same; what is no id, such as no parent,
    stays.
    """
    if len(given) != len(mask):
        return given
    return bytes(a ^ b for a, b in zip(given, mask, strict=True))


def _spans(request: ExportTraceServiceRequest) -> list[trace_pb2.Span]:
    scopes = chain.from_iterable(x.scope_spans for x in request.resource_spans)
    return list(chain.from_iterable(x.spans for x in scopes))
