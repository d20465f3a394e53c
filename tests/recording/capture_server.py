"""An OTLP receiver on loopback, HTTP (protobuf and JSON) and gRPC, that keeps what a framework's
script exports.
"""

import gzip
import threading
from collections.abc import Callable
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import grpc
from google.protobuf.message import Message
from model_server import read_body

from spanscore.otlp import codec
from spanscore.otlp.signal import SIGNALS, WIRE, Signal


class CaptureServer:
    """Keeps all spans and log records in the order of their arrival; metrics are accepted and
    thrown away.
    """

    def __init__(self) -> None:
        self._kept: dict[Signal, Message] = {x: WIRE[x].request() for x in SIGNALS}
        self._lock = threading.Lock()

        class Handler(_Handler):
            pass

        Handler.keep = staticmethod(self._keep)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        self._grpc = grpc.server(
            futures.ThreadPoolExecutor(2), options=[("grpc.max_receive_message_length", 64 << 20)]
        )
        self._grpc.add_generic_rpc_handlers((_Grpc(self._keep),))
        self._grpc_port = self._grpc.add_insecure_port("127.0.0.1:0")
        self._grpc.start()

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    @property
    def grpc_url(self) -> str:
        return f"http://127.0.0.1:{self._grpc_port}"

    def kept(self, signal: Signal) -> Message:
        """All that came of a signal, as one export request."""
        with self._lock:
            copy = WIRE[signal].request()
            copy.CopyFrom(self._kept[signal])
            return copy

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._grpc.stop(grace=None)

    def _keep(self, signal: Signal, request: Message) -> None:
        with self._lock:
            if signal != "metrics":
                self._kept[signal].MergeFrom(request)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    keep: ClassVar[Callable[[Signal, Message], None]]

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        content = read_body(self)
        if self.headers.get("content-encoding") == "gzip":
            content = gzip.decompress(content)
        path = self.path.split("?")[0].rstrip("/")
        signal = next((x for x in SIGNALS if path.endswith(x)), None)
        is_json = "json" in self.headers.get("content-type", "")
        if signal is None:
            self._reply(404, "text/plain", b"no such signal")
            return
        request = (
            codec.parse(signal, content) if is_json else WIRE[signal].request.FromString(content)
        )
        self.keep(signal, request)
        self._reply(
            200,
            "application/json" if is_json else "application/x-protobuf",
            b"{}" if is_json else b"",
        )

    def _reply(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class _Grpc(grpc.GenericRpcHandler):
    def __init__(self, keep: Callable[[Signal, Message], None]) -> None:
        self._keep = keep

    def service(self, details: Any) -> Any:
        """The handler of an Export call; None for any other method."""
        signal = next((x for x in SIGNALS if details.method == f"/{WIRE[x].service}/Export"), None)
        if signal is None:
            return None
        wire = WIRE[signal]

        def export(request: Message, _context: Any) -> Message:
            self._keep(signal, request)
            return wire.response()

        return grpc.unary_unary_rpc_method_handler(
            export, wire.request.FromString, lambda response: response.SerializeToString()
        )
