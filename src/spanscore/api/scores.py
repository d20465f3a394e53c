"""ScoreService: measured scores and imported ones."""

from functools import partial

from google.protobuf.empty_pb2 import Empty

from spanscore.api import listing, score_drafts
from spanscore.api.backend import Backend, find_trace, require_subject
from spanscore.api.convert import encode_given, encode_score
from spanscore.api.requests import id_in, shown, trace_id
from spanscore.api.servicer import Call, Servicer, needs
from spanscore.api.v1 import score_pb2 as score_pb, score_service_pb2 as pb
from spanscore.errors import FieldError, NotFoundError
from spanscore.store.given_scores import Given
from spanscore.threads import in_thread


class ScoreService(Servicer):
    """See score_service.proto."""

    service = pb.DESCRIPTOR.services_by_name["ScoreService"]

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @needs("read")
    async def get_score(self, request: pb.GetScoreRequest, call: Call) -> score_pb.Score:
        """One score, of whatever revision."""
        uid = id_in(request.name, "scores")
        found = await in_thread(self._backend.score, uid, tenant=call.tenant)
        if found is None:
            raise NotFoundError(f"there is no score {shown(uid)}: it may be past its retention")
        if not found.is_external:
            return encode_score(found)
        state = await in_thread(self._backend.given.subject_state, call.tenant, found)
        return encode_given(Given(found, state))

    @needs("read")
    async def list_scores(self, request: pb.ListScoresRequest, call: Call) -> pb.ListScoresResponse:
        """A page of scores: of one trace or session, or of all."""
        if request.WhichOneof("subject") is None:
            return await in_thread(listing.scores, self._backend, request, call)
        trace, session = _subject(request)
        of_run = {"run": id_in(request.run, "runs", "run")} if request.run else {}
        found = await in_thread(
            self._backend.evaluations,
            tenant=call.tenant,
            trace_id=trace,
            session_id=session,
            **of_run,
        )
        unscored = ""
        if trace is not None and all(x.status == "skipped" for x in found):
            known = await find_trace(self._backend, trace, tenant=call.tenant)
            unscored = "" if of_run else self._backend.why_unscored(known, found)
        elif not found:
            await require_subject(self._backend, tenant=call.tenant, session_id=session)
        return await in_thread(listing.scores_of_subject, found, request, call, unscored)

    @needs("write")
    async def create_score(self, request: pb.CreateScoreRequest, call: Call) -> score_pb.Score:
        """Keep a score that somebody gave."""
        wanted = score_drafts.draft(request, call.tenant)
        [found] = await in_thread(self._backend.given.create, call.tenant, [wanted])
        return encode_given(found)

    @needs("write")
    async def batch_create_scores(
        self, request: pb.BatchCreateScoresRequest, call: Call
    ) -> pb.BatchCreateScoresResponse:
        """Keep scores that somebody gave, all or none."""
        wanted = await in_thread(score_drafts.drafts, request, call.tenant)
        found = await in_thread(self._backend.given.create, call.tenant, wanted)
        return pb.BatchCreateScoresResponse(
            scores=map(encode_given, found), already_there=sum(not x.is_new for x in found)
        )

    @needs("write")
    async def update_score(self, request: pb.UpdateScoreRequest, call: Call) -> score_pb.Score:
        """Change a score that somebody gave."""
        uid = id_in(request.score.name, "scores", "score.name")
        changed = score_drafts.change(request)
        return encode_given(await in_thread(self._backend.given.change, call.tenant, uid, changed))

    @needs("write")
    async def delete_score(self, request: pb.DeleteScoreRequest, call: Call) -> Empty:
        """Delete a score that somebody gave."""
        uid = id_in(request.name, "scores")
        checked = partial(score_drafts.require_unchanged, wanted=request.etag)
        try:
            await in_thread(self._backend.given.remove, call.tenant, uid, checked)
        except NotFoundError:
            if not request.allow_missing:
                raise
        return Empty()


def _subject(request: pb.ListScoresRequest) -> tuple[str | None, str | None]:
    """The trace id or the session id whose scores are asked for. Raises FieldError."""
    if request.WhichOneof("subject") == "trace_id":
        return trace_id(request.trace_id), None
    if not request.session_id:
        raise FieldError(
            "session_id", "is empty; give a session's id or key, or leave it out for all scores"
        )
    return None, request.session_id
