"""A gRPC server that does nothing: what receiving costs in Python at the least, and a sink for the
scores.

    python bench/null_server.py [--record FILE]

Prints its port, then answers every call at once with an empty message and parses nothing. With
--record it also appends the requests that export traces to FILE, as bench/frames.py reads them.
"""

import argparse
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

import grpc
from frames import framed


class EveryMethod(grpc.GenericRpcHandler):
    """Takes calls of any method."""

    def __init__(self, record: BinaryIO | None) -> None:
        self._record = record
        self._lock = threading.Lock()

    def service(self, call: Any) -> Any:
        keeps = self._record is not None and "TraceService" in call.method
        return grpc.unary_unary_rpc_method_handler(self._keep if keeps else self._ignore)

    def _ignore(self, _body: bytes, _context: Any) -> bytes:
        return b""

    def _keep(self, body: bytes, _context: Any) -> bytes:
        with self._lock:
            self._record.write(framed(body))
            self._record.flush()
        return b""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", metavar="FILE", type=argparse.FileType("ab"))
    server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers([EveryMethod(parser.parse_args().record)])
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
