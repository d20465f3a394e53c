"""The gRPC side of the control service: requests checked, the backend asked, its errors told as status codes."""

import asyncio
import ipaddress
import logging
import math
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from spanscore import metrics
from spanscore.api.convert import encode_metric, encode_score, encode_trace
from spanscore.api.v1 import control_service_pb2 as pb
from spanscore.api.v1.control_service_pb2_grpc import ControlServiceServicer, add_ControlServiceServicer_to_server
from spanscore.config import Api
from spanscore.errors import ConfigError, InputError, RetryableError
from spanscore.evaluate.config import Overrides, check_signals
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace

_log = logging.getLogger(__name__)

_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_SERVICE = pb.DESCRIPTOR.services_by_name["ControlService"].full_name


class Backend(Protocol):
    """What the control service needs of a running spanscore.

    A `trace_id` is the id of an agent trace or of an OpenTelemetry trace, 32 lower-case hex digits. The two that only
    look up are called in threads.
    """

    def trace(self, trace_id: str) -> AgentTrace | None:
        """The agent trace stored under `trace_id`; None where there is none."""
        ...

    def evaluations(self, *, trace_id: str | None = None, session_id: str | None = None) -> Sequence[Evaluation]:
        """The newest revision of each score of one trace or session; none where there are none."""
        ...

    async def evaluate(
        self, *, trace_id: str | None = None, session_id: str | None = None, overrides: Overrides | None = None
    ) -> Sequence[Evaluation]:
        """Evaluate a stored trace or session now, store the scores as its next revision and export them.

        Gives none where nothing is stored under that id. Raises InputError when `overrides` cannot be met,
        RetryableError when it is too busy.
        """
        ...


class Server:
    """The control service on a port of its own, with reflection and health."""

    def __init__(self, config: Api, backend: Backend) -> None:
        self._config = config
        self._backend = backend
        self._server: grpc.aio.Server | None = None
        self._health = health.aio.HealthServicer()
        self.port = 0
        """The port it listens on, from `start` on."""

    async def start(self) -> None:
        """Listen. Raises ConfigError when it cannot listen on the configured endpoint."""
        endpoint = self._config.endpoint
        if not _is_loopback(endpoint):
            _log.warning("the control service listens on %s and asks for no credentials; keep others away", endpoint)
        # Without this a second spanscore would share the port, and each would get some of the requests.
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        add_ControlServiceServicer_to_server(_Servicer(self._backend), server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection((_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        try:
            self.port = server.add_insecure_port(endpoint)
        except RuntimeError as error:
            raise ConfigError(
                f"api.endpoint: cannot listen on {endpoint}; is something else listening there?"
            ) from error
        await server.start()
        self._server = server
        for name in ("", _SERVICE):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        _log.info("the control service listens on %s", endpoint)

    async def stop(self, grace_s: float = 5.0) -> None:
        """Stop listening; requests under way have `grace_s` seconds to end. May be called again."""
        if self._server is not None:
            await self._health.enter_graceful_shutdown()
            await self._server.stop(grace_s)


class _NotFoundError(Exception):
    def __init__(self, name: str) -> None:
        why = "it may not be complete yet, be past its retention, or hold no GenAI spans"
        super().__init__(f"nothing is stored under {_quote(name)}: {why}")


class _Servicer(ControlServiceServicer):
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def ListMetrics(  # noqa: N802 - gRPC names it
        self, request: pb.ListMetricsRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListMetricsResponse:
        del request, context
        return pb.ListMetricsResponse(metrics=[encode_metric(x) for _, x in sorted(metrics.available().items())])

    async def GetTrace(  # noqa: N802 - gRPC names it
        self, request: pb.GetTraceRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetTraceResponse:
        async with _errors_told(context):
            return pb.GetTraceResponse(trace=encode_trace(await self._trace(_trace_id(request.trace_id))))

    async def ListScores(  # noqa: N802 - gRPC names it
        self, request: pb.ListScoresRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListScoresResponse:
        async with _errors_told(context):
            subject = _subject(request)
            found = await asyncio.to_thread(self._backend.evaluations, **subject)
            if not found:
                await self._refuse_missing(**subject)
            return pb.ListScoresResponse(scores=map(encode_score, found))

    async def Evaluate(  # noqa: N802 - gRPC names it
        self, request: pb.EvaluateRequest, context: grpc.aio.ServicerContext
    ) -> pb.EvaluateResponse:
        async with _errors_told(context):
            subject = _subject(request)
            found = await self._backend.evaluate(**subject, overrides=_overrides(request))
            if not found:
                await self._refuse_missing(**subject)
            return pb.EvaluateResponse(scores=map(encode_score, found))

    async def _trace(self, trace_id: str) -> AgentTrace:
        trace = await asyncio.to_thread(self._backend.trace, trace_id)
        if trace is None:
            raise _NotFoundError(trace_id)
        return trace

    async def _refuse_missing(self, *, trace_id: str | None = None, session_id: str | None = None) -> None:
        """Raise unless something is stored under the id: no scores of a trace that is known are no error."""
        if trace_id is not None:
            await self._trace(trace_id)
        elif session_id is not None and not await asyncio.to_thread(self._backend.evaluations, session_id=session_id):
            raise _NotFoundError(session_id)


@asynccontextmanager
async def _errors_told(context: grpc.aio.ServicerContext) -> AsyncIterator[None]:
    """Errors raised inside, as the status that tells the caller what to do."""
    try:
        yield
    except _NotFoundError as error:
        await context.abort(grpc.StatusCode.NOT_FOUND, str(error))
    except InputError as error:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
    except RetryableError as error:
        await context.abort(grpc.StatusCode.UNAVAILABLE, f"{error}; try again in {error.retry_after_s:g} s")


def _trace_id(text: str) -> str:
    trace_id = text.strip().lower()
    if not _TRACE_ID.fullmatch(trace_id):
        raise InputError(f"trace_id {_quote(text)} is no id: give the 32 hex digits of an agent trace or an OTel trace")
    return trace_id


def _subject(request: pb.ListScoresRequest | pb.EvaluateRequest) -> dict[str, str]:
    """The trace or session that a request names, as the backend's keyword argument."""
    if request.WhichOneof("subject") == "trace_id":
        return {"trace_id": _trace_id(request.trace_id)}
    if not request.session_id:
        raise InputError("nothing to look up: set trace_id or session_id")
    return {"session_id": request.session_id}


def _overrides(request: pb.EvaluateRequest) -> Overrides:
    """What the request changes. Raises InputError where it cannot be met."""
    threshold = request.threshold if request.HasField("threshold") else None
    try:
        check_signals(request.signal_weights)
    except ValueError as error:
        raise InputError(f"signal_weights: {error}") from None
    for name, weight in request.signal_weights.items():
        if not (math.isfinite(weight) and weight >= 0):
            raise InputError(f"signal_weights: the weight of {name} is {weight}; give a number of at least 0")
    overrides = Overrides(
        metrics=tuple(request.metrics) or None,
        model=request.model or None,
        threshold=threshold,
        signal_weights=dict(request.signal_weights) or None,
    )
    overrides.applied(())  # refuses metrics that there are not, before the backend has done anything
    if threshold is not None:
        _require_on_scale(threshold, overrides.metrics)
    return overrides


def _require_on_scale(threshold: float, names: Sequence[str] | None) -> None:
    """Raise InputError where no score of one of these metrics (None: of any) can be what it is held against."""
    available = metrics.available()
    for name in sorted(available) if names is None else names:
        low, high = available[name].scale
        if not low <= threshold <= high:  # nor where it is no number
            raise InputError(f"threshold {threshold:g}: the scale of {name} is {low:g} to {high:g}")


def _quote(text: str) -> str:
    """`text` as it may stand in an error, which travels in a header of bounded size."""
    return repr(text if len(text) <= 80 else f"{text[:80]}…")


def _is_loopback(endpoint: str) -> bool:
    host = endpoint.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
