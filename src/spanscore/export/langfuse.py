"""Scores in Langfuse."""

import base64
import hashlib
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from spanscore.errors import PermanentError
from spanscore.export import wording
from spanscore.export.config import LangfuseConfig
from spanscore.export.http import JsonApi
from spanscore.export.port import FaultError, UndeliveredError, UnsupportedSignalError, provenance
from spanscore.model.json import dumps
from spanscore.model.score import Evaluation, Score

_INGESTION = "/api/public/ingestion"
_SCORES = "/api/public/scores"
_MAX_TEXT_LENGTH = 8192
_MAX_REQUEST_BYTES = 900_000
"""Langfuse reads at most 3.5 MB in a request of events, and 1 MiB in one of scores."""

_LATER = frozenset({401, 403, 429, 502, 503, 504})
_ENVIRONMENT = re.compile(r"(?!langfuse)[a-z0-9_-]{1,40}")


class _Filed(NamedTuple):
    """One score of Langfuse's, and the evaluation that it was made of.

    `id` is that of the request's event.
    """

    id: str
    evaluation: Evaluation
    body: dict[str, Any]


_Chunk: TypeAlias = Sequence[_Filed]


class LangfuseSink:
    """A `Sink` for one Langfuse project. A failure has no value, so it is not filed.

    Langfuse takes scores of spans that it has not got yet. Where a server refuses these, the scores
    wait.
    """

    def __init__(self, config: LangfuseConfig) -> None:
        """Raises ConfigError where a file of the TLS settings cannot be used."""
        pair = f"{config.public_key}:{config.secret_key.get_secret_value()}"
        self._api = JsonApi(
            config, {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        )
        self._places = (
            ("trace", "observation")
            if config.trace_scores_on == "both"
            else (config.trace_scores_on,)
        )
        self._has_ingestion = True

    async def file(
        self,
        evaluations: Sequence[Evaluation],
        *,
        final: bool = False,  # noqa: ARG002 - there is one place only
    ) -> Sequence[Evaluation]:
        """See `Sink.file`."""
        absent: set[str] = set()
        filed = [x for evaluation in evaluations for x in _filed(evaluation, self._places)]
        for chunk in _chunks(filed):
            absent |= await self._send(chunk)
        return list({id(x.evaluation): x.evaluation for x in filed if x.id in absent}.values())

    async def close(self) -> None:
        """See `Sink.close`."""
        await self._api.close()

    async def _send(self, chunk: _Chunk) -> set[str]:
        """Send as events, which every Langfuse takes; one that does not any more takes a list of
        scores instead.

        Returns the ids of those whose trace, observation or session is not there.
        """
        if self._has_ingestion:
            batch = [_event(x) for x in chunk]
            try:
                _, answer = await self._api.ask("POST", _INGESTION, {"batch": batch})
            except UnsupportedSignalError:
                self._has_ingestion = False
            else:
                return _absent(answer, len(chunk))
        try:
            _, answer = await self._api.ask("POST", _SCORES, [x.body for x in chunk])
        except UnsupportedSignalError:
            self._has_ingestion = True  # whichever of the two comes back is found
            raise
        _raise_rejected(answer, len(chunk))
        return set()


def _absent(answer: Any, count: int) -> set[str]:
    """The ids of events that failed for want of what they are about; Langfuse answers 207 with an
    error for each.

    Raises UndeliveredError or PermanentError for other errors, sorted as whole answers are.
    """
    errors = _errors(answer)
    others = [x for x in errors if x.get("status") != 404]
    if not others:
        return {str(x.get("id")) for x in errors}
    statuses = [x["status"] if isinstance(x.get("status"), int) else 500 for x in others]
    message = (
        f"{len(others)} of {count} scores not taken: {others[0].get('message') or statuses[0]}"
    )
    if all(x in _LATER for x in statuses):
        raise UndeliveredError(message, maybe_delivered=True)
    if any(x < 500 for x in statuses):
        raise PermanentError(message)
    raise FaultError(message)


def _raise_rejected(answer: Any, count: int) -> None:
    """A list of scores is answered 202, or 207 with how many were rejected and why, though not
    which.
    """
    rejected = answer.get("rejected") if isinstance(answer, Mapping) else None
    if rejected:
        why = next((x.get("message") for x in _errors(answer)), None)
        raise PermanentError(f"{rejected} of {count} scores not taken: {why or 'no reason given'}")


def _errors(answer: Any) -> list[Mapping[str, Any]]:
    listed = answer.get("errors") if isinstance(answer, Mapping) else None
    return (
        [x if isinstance(x, Mapping) else {"message": x} for x in listed]
        if isinstance(listed, list)
        else []
    )


def _chunks(filed: Sequence[_Filed]) -> Iterator[_Chunk]:
    """The scores in requests that are short enough."""
    chunk: list[_Filed] = []
    size = 0
    for one in filed:
        length = len(dumps(one.body).encode()) + 200  # and the event around it
        if chunk and size + length > _MAX_REQUEST_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(one)
        size += length
    if chunk:
        yield chunk


def _filed(evaluation: Evaluation, places: Sequence[str]) -> Iterator[_Filed]:
    """What an evaluation is filed as: on its session, or on its trace and on the evaluated
    observation of it.

    The score's id is the same for every revision, so that a later one replaces it.
    """
    for shown in wording.tallied(evaluation):
        if isinstance(shown.outcome, Score):
            yield from _filed_as(shown, evaluation, places)


def _filed_as(shown: Evaluation, evaluation: Evaluation, places: Sequence[str]) -> Iterator[_Filed]:
    """`shown` is `evaluation`, or the tally that this one has."""
    target = shown.target
    shared = _shared(shown)
    if shown.scope == "session":
        # The session alone: the span that it is put on elsewhere is another when the session goes
        # on.
        seed = f"session\n{shown.subject_id}\n{shown.metric}"
        about = {"sessionId": shown.session_id or shown.subject_id}
        yield _Filed(
            _event_id(shown, "session"), evaluation, {"id": _digest(seed), **about, **shared}
        )
        return
    seed = f"trace\n{shown.subject_id}\n{target.span_id}\n{shown.metric}"
    if "observation" in places and target.span_id:
        about = {"traceId": target.trace_id, "observationId": target.span_id}
        yield _Filed(
            _event_id(shown, "observation"), evaluation, {"id": _digest(seed), **about, **shared}
        )
    if "trace" in places or not target.span_id:
        about = {"traceId": target.trace_id}
        score_id = _digest(f"{seed}\nof the trace")
        yield _Filed(_event_id(shown, "trace"), evaluation, {"id": score_id, **about, **shared})


def _shared(evaluation: Evaluation) -> dict[str, Any]:
    body = {
        "name": evaluation.metric,
        **_value(evaluation),
        "comment": wording.cut(wording.labelled(evaluation), _MAX_TEXT_LENGTH),
        "environment": _environment(evaluation),
        "metadata": provenance(evaluation)
        | {"spanscore.evaluated_at": _iso(evaluation.evaluated_at_ns)},
        "timestamp": _timestamp(evaluation),
    }
    return {name: value for name, value in body.items() if value is not None}


def _value(evaluation: Evaluation) -> dict[str, Any]:
    """A number; of the tally the verdict, as a category to filter by."""
    if wording.is_tally(evaluation):
        return {"value": evaluation.label, "dataType": "CATEGORICAL"}
    value = evaluation.value
    near = None if value is None else wording.rounded(value, evaluation.threshold)
    return {"value": near, "dataType": "NUMERIC"}


def _event(filed: _Filed) -> dict[str, Any]:
    """A `score-create` event, whose timestamp is the score's."""
    body = {name: value for name, value in filed.body.items() if name != "timestamp"}
    return {
        "id": filed.id,
        "timestamp": filed.body["timestamp"],
        "type": "score-create",
        "body": body,
    }


def _timestamp(evaluation: Evaluation) -> str:
    """The end of the evaluated span, and not the time of the evaluation.

    A score replaces another with its id only where both have the same name and day (UTC). A later
    revision is some milliseconds later, since of those Langfuse keeps the latest.
    """
    later_ns = (evaluation.revision - 1) * 10**6
    return _iso(max(evaluation.target.end_ns, evaluation.target.start_ns) + later_ns)


def _environment(evaluation: Evaluation) -> str | None:
    """Where Langfuse files the trace, by the same attributes of its resource; None: under its
    default.

    A score that is filed elsewhere is not seen by who looks at one environment.
    """
    resource = evaluation.target.resource
    for key in ("langfuse.environment", "deployment.environment.name", "deployment.environment"):
        name = resource.get(key)
        if name:
            return name if isinstance(name, str) and _ENVIRONMENT.fullmatch(name) else None
    return None


def _event_id(evaluation: Evaluation, place: str) -> str:
    """In the form of a UUID v4, as Langfuse has them, but the same whenever the same revision is
    filed again.
    """
    digest = hashlib.sha256(f"{evaluation.uid}\n{place}".encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


def _digest(seed: str) -> str:
    return hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _iso(time_ns: int) -> str:
    at = datetime.fromtimestamp(time_ns // 10**9, UTC).replace(microsecond=time_ns % 10**9 // 1000)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
