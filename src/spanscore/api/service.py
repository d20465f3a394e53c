"""The gRPC side of the control service: requests checked, the backend asked, its errors told as status codes."""

import asyncio
import logging
import math
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import grpc

from spanscore import metrics
from spanscore.api import listing
from spanscore.api.convert import encode_metric, encode_score, encode_trace
from spanscore.api.v1 import control_service_pb2 as pb
from spanscore.api.v1.control_service_pb2_grpc import ControlServiceServicer, add_ControlServiceServicer_to_server
from spanscore.config import Api
from spanscore.errors import ConfigError, InputError, RetryableError
from spanscore.evaluation.config import Overrides, check_signals
from spanscore.evaluation.rubric import is_rubric
from spanscore.evaluation.rubric import scale_of as rubric_scale
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.receive.auth import BearerTokens, UnauthenticatedError
from spanscore.receive.server import is_loopback
from spanscore.receive.tls import grpc_credentials
from spanscore.rpc import health
from spanscore.rpc.reflection import reflection_handlers

_log = logging.getLogger(__name__)

_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_SERVICE = pb.DESCRIPTOR.services_by_name["ControlService"].full_name


class Backend(listing.Lists, Protocol):
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

    def __init__(self, config: Api, backend: Backend, tokens: Mapping[str, BearerTokens] | None = None) -> None:
        """`tokens` are the authenticators that `config` may name."""
        self._config = config
        self._backend = backend
        self._guards = [_Guard((tokens or {})[config.auth.authenticator])] if config.auth else []
        self._server: grpc.aio.Server | None = None
        self._health = health.Health()
        self.port = 0
        """The port it listens on, from `start` on."""

    async def start(self) -> None:
        """Listen. Raises ConfigError where the endpoint cannot be bound or a certificate not be used."""
        endpoint, tls = self._config.endpoint, self._config.tls
        self._warn_of_exposure()
        # Without this a second spanscore would share the port, and each would get some of the requests.
        server = grpc.aio.server(interceptors=self._guards, options=[("grpc.so_reuseport", 0)])
        add_ControlServiceServicer_to_server(_Servicer(self._backend), server)
        server.add_generic_rpc_handlers((self._health.handlers(), *reflection_handlers([_SERVICE, health.SERVICE])))
        try:
            if tls is None:
                self.port = server.add_insecure_port(endpoint)
            else:
                self.port = server.add_secure_port(endpoint, grpc_credentials(tls, "api.tls"))
        except RuntimeError as error:
            raise ConfigError(
                f"api.endpoint: cannot listen on {endpoint}; is something else listening there?"
            ) from error
        await server.start()
        self._server = server
        for name in ("", _SERVICE):
            await self._health.show(name, serving=True)
        _log.info("the control service listens on %s", endpoint)

    def _warn_of_exposure(self) -> None:
        """Say what it means where others than this machine reach the endpoint."""
        if is_loopback(self._config.endpoint):
            return
        for missing, meaning in ((self._config.auth, _NO_AUTH), (self._config.tls, _NO_TLS)):
            if missing is None:
                _log.warning("api.endpoint %s is no loopback address: %s", self._config.endpoint, meaning)

    async def stop(self, grace_s: float = 5.0) -> None:
        """Stop listening; requests under way have `grace_s` seconds to end. May be called again."""
        if self._server is not None:
            await self._health.end()
            await self._server.stop(grace_s)


_NO_AUTH = (
    "whoever reaches it can read the stored traces, with what users said, and have the judge asked: set `auth` and "
    "`extensions`, or keep others away"
)
_NO_TLS = "what is asked and answered, tokens too, can be read on the way: set `tls`"


class _Guard(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Has calls show a known token; health and reflection ask for none."""

    def __init__(self, tokens: BearerTokens) -> None:
        self._tokens = tokens

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        """Answer a call in the place of its method where the token is not known."""
        if details.method.startswith(f"/{_SERVICE}/"):
            header = next((value for key, value in details.invocation_metadata if key == "authorization"), None)
            try:
                self._tokens.check(header)
            except UnauthenticatedError as error:
                return _refusing(grpc.StatusCode.UNAUTHENTICATED, str(error))
            except RetryableError as error:
                return _refusing(grpc.StatusCode.UNAVAILABLE, str(error))
        return await continuation(details)


def _refusing(code: grpc.StatusCode, message: str) -> Any:
    async def refuse(_request: Any, context: grpc.aio.ServicerContext) -> None:
        await context.abort(code, message)

    return grpc.unary_unary_rpc_method_handler(refuse)


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

    async def ListTraces(  # noqa: N802 - gRPC names it
        self, request: pb.ListTracesRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListTracesResponse:
        async with _errors_told(context):
            return await asyncio.to_thread(listing.traces, self._backend, request)

    async def ListScores(  # noqa: N802 - gRPC names it
        self, request: pb.ListScoresRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListScoresResponse:
        async with _errors_told(context):
            if request.WhichOneof("subject") is None:
                return await asyncio.to_thread(listing.scores, self._backend, request)
            subject = _subject(request)
            found = await asyncio.to_thread(self._backend.evaluations, **subject)
            if not found:
                await self._refuse_missing(**subject)
            return listing.scores_of_subject(found, request)

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
        low, high = rubric_scale(name) if is_rubric(name) else available[name].scale
        if not low <= threshold <= high:  # nor where it is no number
            raise InputError(f"threshold {threshold:g}: the scale of {name} is {low:g} to {high:g}")


def _quote(text: str) -> str:
    """`text` as it may stand in an error, which travels in a header of bounded size."""
    return repr(text if len(text) <= 80 else f"{text[:80]}…")
