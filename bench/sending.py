"""Send ready OTLP requests over gRPC, many at once, and again where the server asks for it."""

import threading
import time
from collections import Counter
from collections.abc import Iterable

import grpc

_EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_RETRIED = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED}
_PAUSE_S = 0.2
_TIMEOUT_S = 60
_ATTEMPTS = 300


def send(bodies: Iterable[bytes], port: int, *, in_flight: int) -> Counter[str]:
    """Send all; returns how often the server sent a request back, by status code.

    Raises grpc.RpcError where it refuses one for good.
    """
    channel = grpc.insecure_channel(
        f"127.0.0.1:{port}", options=[("grpc.max_send_message_length", -1)]
    )
    export = channel.unary_unary(_EXPORT)
    waiting, lock = iter(bodies), threading.Lock()
    refusals: Counter[str] = Counter()
    errors: list[Exception] = []

    def work() -> None:
        while not errors:
            with lock:
                body = next(waiting, None)
            if body is None:
                return
            try:
                sent_back = _send_one(export, body)
            except grpc.RpcError as error:
                errors.append(error)
                return
            with lock:
                refusals.update(sent_back)

    threads = [threading.Thread(target=work) for _ in range(in_flight)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    channel.close()
    if errors:
        raise errors[0]
    return refusals


def _send_one(export: grpc.UnaryUnaryMultiCallable, body: bytes) -> Counter[str]:
    refusals: Counter[str] = Counter()
    while True:
        try:
            export(body, timeout=_TIMEOUT_S, wait_for_ready=True)
        except grpc.RpcError as error:
            refusals[error.code().name] += 1
            if error.code() not in _RETRIED or refusals.total() == _ATTEMPTS:
                raise
            time.sleep(_PAUSE_S)
        else:
            return refusals
