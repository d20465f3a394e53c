"""ViewService: stored traces and sessions as a page shows them."""

from importlib.metadata import version

from spanscore.api.backend import Backend, find_trace
from spanscore.api.requests import id_in, name_of, trace_id
from spanscore.api.servicer import Call, Servicer, needs
from spanscore.api.text import text_of
from spanscore.api.traces import find_session
from spanscore.api.v1 import view_service_pb2 as pb
from spanscore.control.request_threads import in_thread
from spanscore.model.json import dumps
from spanscore.receive.auth import SCOPES


class ViewService(Servicer):
    """See view_service.proto."""

    service = pb.DESCRIPTOR.services_by_name["ViewService"]

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @needs("read")
    async def get_viewer(self, _request: pb.GetViewerRequest, call: Call) -> pb.Viewer:
        """Who asks, and what the server is set up for."""
        return pb.Viewer(
            version=version("spanscore"),
            scopes=sorted(SCOPES if "admin" in call.scopes else call.scopes),
            tenant=call.tenant,
            has_judge=self._backend.has_judge,
        )

    @needs("read")
    async def get_trace_view(self, request: pb.GetTraceViewRequest, call: Call) -> pb.TraceView:
        """One agent trace with what its scores rest on."""
        wanted = trace_id(id_in(request.name, "traces"), "name")
        run = id_in(request.run, "runs", "run") if request.run else ""
        trace = await find_trace(self._backend, wanted, tenant=call.tenant)

        def view() -> pb.TraceView:
            from spanscore.report.details import trace_view  # noqa: PLC0415 - a server without viewers needs none of it

            scores = self._backend.evaluations(trace_id=trace.id, run=run, tenant=call.tenant)
            return pb.TraceView(
                name=name_of("traces", trace.id),
                view_json=text_of(dumps(trace_view(trace, scores))),
            )

        return await in_thread(view)

    @needs("read")
    async def get_session_view(
        self, request: pb.GetSessionViewRequest, call: Call
    ) -> pb.SessionView:
        """One session with a row for each of its traces."""
        record = await find_session(
            self._backend, id_in(request.name, "sessions"), tenant=call.tenant
        )

        def view() -> pb.SessionView:
            from spanscore.report.details import session_view  # noqa: PLC0415 - as above

            session = record.session
            scores = self._backend.evaluations(session_id=session.id, tenant=call.tenant)
            found = session_view(session.id, session.traces, scores)
            return pb.SessionView(
                name=name_of("sessions", session.id), view_json=text_of(dumps(found))
            )

        return await in_thread(view)
