"""Recorded agents, in any form that spanscore reads, made to have ended just now; a folder was
recorded in one go.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from spanscore.cli import demo
from spanscore.cli.one_run import Backend
from spanscore.errors import InputError, SpanscoreError
from spanscore.model.span import LogRecord, Span
from spanscore.otlp import check, codec, files
from spanscore.otlp.signal import WIRE

_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Recording:
    """Export requests of spans and of log records."""

    traces: list[Any] = field(default_factory=list)
    logs: list[Any] = field(default_factory=list)

    def spans(self) -> Iterator[Span]:
        """All its spans."""
        return (span for request in self.traces for span in codec.spans(request))

    def log_records(self) -> Iterator[LogRecord]:
        """All its log records."""
        return (record for request in self.logs for record in codec.log_records(request))


def load(path: Path, now_ns: int) -> Recording:
    """What a file, or all in a folder, holds, with new ids and times.

    Raises InputError where that is nothing.
    """
    whole = Recording()
    by_folder: defaultdict[Path, list[Path]] = defaultdict(list)
    for one in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if one.is_file() and one.name.removesuffix(".gz").endswith((".pb", ".json", ".jsonl")):
            by_folder[one.parent].append(one)
    for inside in by_folder.values():
        traces, logs = _of_one_go(inside)
        demo.renew(traces, logs, now_ns)
        whole.traces.extend(traces)
        whole.logs.extend(logs)
    if not whole.traces and not whole.logs:
        raise InputError(
            f"{path}: no recording there; give a file or folder of OTLP (*.pb, *.json) or Jaeger's"
            " JSON"
        )
    return whole


def send_logs(requests: Iterable[Any], backend: Backend) -> None:
    """Send log records by OTLP over gRPC. Raises SpanscoreError where they are not taken."""
    with grpc.insecure_channel(backend.target) as channel:
        export = channel.unary_unary(f"/{WIRE['logs'].service}/Export")
        try:
            for request in requests:
                export(request.SerializeToString(), timeout=_TIMEOUT_S)
        except grpc.RpcError as error:
            raise SpanscoreError(
                f"{backend.url} did not take the recorded log records: {error}"
            ) from error


def _of_one_go(paths: Iterable[Path]) -> tuple[list[Any], list[Any]]:
    found: dict[str, list[Any]] = {"traces": [], "logs": [], "metrics": []}
    for path in paths:
        try:
            for signal, request, _ in files.requests(path):
                if signal == "traces":
                    check.remove_damaged(request)
                found[signal].append(request)
        except files.ForeignFileError:
            continue  # JSON beside a recording
    return found["traces"], found["logs"]
