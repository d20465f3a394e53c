"""TraceService as both clients have it: its stub, and the same methods with keywords for traces and
for sessions.
"""

from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from typing import TYPE_CHECKING, Unpack

from spanscore.api.client_keywords import named
from spanscore.api.client_pages import pages, pages_async
from spanscore.api.trace_requests import (
    SessionConditions,
    SessionEvaluation,
    TraceConditions,
    TraceEvaluation,
    evaluate_session_request,
    evaluate_trace_request,
    sessions_request,
    traces_request,
)
from spanscore.api.v1 import trace_service_pb2 as pb
from spanscore.api.v1.agent_trace_pb2 import AgentTrace
from spanscore.api.v1.score_pb2 import Score
from spanscore.api.v1.trace_service_pb2_grpc import TraceServiceStub

if TYPE_CHECKING:
    from spanscore.api.v1.trace_service_pb2_grpc import TraceServiceAsyncStub
else:
    TraceServiceAsyncStub = TraceServiceStub  # at run time one stub serves both


class Traces(TraceServiceStub):
    """Stored agent traces.

    A trace is named by its id, by that of an OpenTelemetry trace, or by `traces/ID`.
    """

    def get(self, trace: str) -> AgentTrace:
        """One agent trace as it was rebuilt."""
        found: AgentTrace = self.GetTrace(pb.GetTraceRequest(name=named("traces", trace)))
        return found

    def list(self, **wanted: Unpack[TraceConditions]) -> Iterator[pb.TraceSummary]:
        """Agent traces with their scores, page after page: `list(filter="label.faithfulness =
        fail")`.
        """
        return pages(self.ListTraces, traces_request(wanted))

    def evaluate(self, trace: str, **wanted: Unpack[TraceEvaluation]) -> Sequence[Score]:
        """Evaluate a stored trace again, now."""
        return tuple(self.EvaluateTrace(evaluate_trace_request(trace, wanted)).scores)


class Sessions(TraceServiceStub):
    """Stored sessions.

    A session is named by its key, by its id where only one has it, or by `sessions/KEY`.
    """

    def get(self, session: str) -> pb.Session:
        """One session with its scores and those of its traces."""
        found: pb.Session = self.GetSession(pb.GetSessionRequest(name=named("sessions", session)))
        return found

    def list(self, **wanted: Unpack[SessionConditions]) -> Iterator[pb.Session]:
        """Sessions with their scores, page after page: `list(filter="trace_count > 3 AND failing =
        true")`.
        """
        return pages(self.ListSessions, sessions_request(wanted))

    def evaluate(self, session: str, **wanted: Unpack[SessionEvaluation]) -> Sequence[Score]:
        """Evaluate a stored session again, now."""
        return tuple(self.EvaluateSession(evaluate_session_request(session, wanted)).scores)


class AsyncTraces(TraceServiceAsyncStub):
    """`Traces` for asyncio: the same methods, to be awaited."""

    def get(self, trace: str) -> Awaitable[AgentTrace]:
        """As `Traces.get`."""
        call: Awaitable[AgentTrace] = self.GetTrace(pb.GetTraceRequest(name=named("traces", trace)))
        return call

    def list(self, **wanted: Unpack[TraceConditions]) -> AsyncIterator[pb.TraceSummary]:
        """As `Traces.list`."""
        return pages_async(self.ListTraces, traces_request(wanted))

    async def evaluate(self, trace: str, **wanted: Unpack[TraceEvaluation]) -> Sequence[Score]:
        """As `Traces.evaluate`."""
        return tuple((await self.EvaluateTrace(evaluate_trace_request(trace, wanted))).scores)


class AsyncSessions(TraceServiceAsyncStub):
    """`Sessions` for asyncio: the same methods, to be awaited."""

    def get(self, session: str) -> Awaitable[pb.Session]:
        """As `Sessions.get`."""
        call: Awaitable[pb.Session] = self.GetSession(
            pb.GetSessionRequest(name=named("sessions", session))
        )
        return call

    def list(self, **wanted: Unpack[SessionConditions]) -> AsyncIterator[pb.Session]:
        """As `Sessions.list`."""
        return pages_async(self.ListSessions, sessions_request(wanted))

    async def evaluate(self, session: str, **wanted: Unpack[SessionEvaluation]) -> Sequence[Score]:
        """As `Sessions.evaluate`."""
        return tuple((await self.EvaluateSession(evaluate_session_request(session, wanted))).scores)
