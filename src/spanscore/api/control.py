"""ControlService: the same as TraceService and ScoreService in five methods, as the first version
had them.
"""

from spanscore import metrics
from spanscore.api.backend import Backend, evaluate
from spanscore.api.convert import encode_metric, encode_score
from spanscore.api.requests import overrides, trace_id
from spanscore.api.scores import ScoreService
from spanscore.api.servicer import Call, Servicer, needs
from spanscore.api.traces import TraceService
from spanscore.api.v1 import control_service_pb2 as pb
from spanscore.api.v1 import score_service_pb2 as score_pb
from spanscore.api.v1 import trace_service_pb2 as trace_pb
from spanscore.errors import FieldError


class ControlService(Servicer):
    """See control_service.proto."""

    service = pb.DESCRIPTOR.services_by_name["ControlService"]

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._traces = TraceService(backend)
        self._scores = ScoreService(backend)

    @needs("read")
    async def list_metrics(
        self, _request: pb.ListMetricsRequest, _call: Call
    ) -> pb.ListMetricsResponse:
        """Every metric there is."""
        return pb.ListMetricsResponse(
            metrics=[encode_metric(x) for _, x in sorted(metrics.available().items())]
        )

    @needs("read")
    async def get_trace(self, request: trace_pb.GetTraceRequest, call: Call) -> pb.GetTraceResponse:
        """One agent trace as it was rebuilt."""
        return pb.GetTraceResponse(trace=await self._traces.get_trace(request, call))

    @needs("read")
    async def list_traces(
        self, request: trace_pb.ListTracesRequest, call: Call
    ) -> trace_pb.ListTracesResponse:
        """A page of agent traces with their scores."""
        return await self._traces.list_traces(request, call)

    @needs("read")
    async def list_scores(
        self, request: score_pb.ListScoresRequest, call: Call
    ) -> score_pb.ListScoresResponse:
        """A page of scores."""
        return await self._scores.list_scores(request, call)

    @needs("write")
    async def evaluate(self, request: pb.EvaluateRequest, call: Call) -> pb.EvaluateResponse:
        """Evaluate a stored trace or session again, now."""
        subject = _subject(request)
        changed = overrides(request, request.signal_weights)
        found = await evaluate(self._backend, changed, tenant=call.tenant, **subject)
        return pb.EvaluateResponse(scores=map(encode_score, found))


def _subject(request: pb.EvaluateRequest) -> dict[str, str]:
    """The trace or session that a request names. Raises FieldError."""
    if request.WhichOneof("subject") == "trace_id":
        return {"trace_id": trace_id(request.trace_id)}
    if not request.session_id:
        raise FieldError("session_id", "nothing to evaluate: set trace_id or session_id")
    return {"session_id": request.session_id}
