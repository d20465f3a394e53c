"""What stands before spanscore where it is to be slow or to refuse: `python gate.py PORT
SPANSCORES_PORT FILE`.

FILE says what it does with each request: `pass` it on, `refuse` it, `hold` it until the word in
FILE changes, be `slow` to pass it on, or pass it on and be too `late` to say so.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

_TOO_LATE_S = 12
"""Longer than the collector waits for an answer."""


class Gate(grpc.GenericRpcHandler):
    """A proxy for every unary call."""

    def __init__(self, behind, word):
        self._channel = grpc.insecure_channel(f"127.0.0.1:{behind}")
        self._word = word

    def service(self, details):
        forward = self._channel.unary_unary(details.method)

        def call(body, context):
            while self._word.read_text() == "hold":
                time.sleep(0.05)
            word = self._word.read_text()
            time.sleep(2 if word == "slow" else 0)
            if word == "refuse":
                context.abort(grpc.StatusCode.UNAVAILABLE, "the gate is shut")
            try:
                answer = forward(body, timeout=10)
                time.sleep(_TOO_LATE_S if word == "late" else 0)
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())
            return answer

        return grpc.unary_unary_rpc_method_handler(call)


def main():
    server = grpc.server(
        ThreadPoolExecutor(32), options=[("grpc.max_receive_message_length", 64 << 20)]
    )
    server.add_generic_rpc_handlers([Gate(sys.argv[2], Path(sys.argv[3]))])
    server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
