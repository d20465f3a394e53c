"""Requests of ScoreService made from keywords, for both clients."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, Required, TypedDict

from google.protobuf.field_mask_pb2 import FieldMask

from spanscore.api.client_keywords import ScopeName, fields, named, scope_of
from spanscore.api.v1 import score_pb2
from spanscore.api.v1 import score_service_pb2 as pb

_BATCH: Final = 1000
"""BatchCreateScores takes no more."""


class ScoreConditions(TypedDict, total=False):
    """Which scores are listed; without any, all that were made as traces came and that others
    gave.
    """

    filter: str
    """Only what meets this filter (AIP-160), as ListScores has it."""

    order_by: str
    """In which order, as ListScores has it."""

    trace_id: str
    """Only of this agent trace or OpenTelemetry trace."""

    session_id: str
    """Only of the sessions with this id or key."""

    run: str
    """What this evaluation run made: its id or `runs/ID`."""

    metric: str
    """Only of this metric, or of a family of them, such as "rubric"."""

    source: str
    """Only from "spanscore", "human", "programmatic", or another evaluator's name."""

    service: str
    """Only of this service.name."""

    failing: bool
    """Only what does not pass, and measurements that went wrong."""

    skipped: bool
    """Also what was skipped."""

    since_ns: int
    """Only what was stored then or later, in nanoseconds since the Unix epoch."""

    page_size: int
    """How many are asked for at once, at most 1000."""


class ScoreContent(TypedDict, total=False):
    """What somebody says of a trace or session: a value, a label, or both."""

    value: float
    """On the scale."""

    label: str
    """Such as "pass" or "fail"."""

    scale: tuple[float, float]
    """The lowest and the highest value; without it that of the metric, where that is known."""

    reason: str
    """A comment."""

    metadata: Mapping[str, Any]
    """JSON values by name."""

    evaluated_at_ns: int
    """When it was given, in nanoseconds since the Unix epoch; without it now."""


class NewScore(ScoreContent, total=False):
    """A score that somebody gives to a trace, one of its spans, or a session."""

    metric: Required[str]
    """What is scored, such as `task_completion` or a name of your own."""

    trace_id: str
    """Of an agent trace or of an OpenTelemetry trace."""

    span_id: str
    """One of its spans."""

    session_id: str
    """A session's id or key."""

    scope: ScopeName
    """Which of the two is scored where trace and session are given."""

    source: str
    """Who gives it: "human", which holds without it, "programmatic", or the name of another
    evaluator.
    """

    author: str
    """Who of these, such as a user's name."""


def list_request(wanted: ScoreConditions) -> pb.ListScoresRequest:
    """Asks for scores. Raises TypeError for a condition that there is not."""
    found = fields(wanted, ScoreConditions, "a list of scores", service="service_name")
    if "run" in found:
        found["run"] = named("runs", found["run"])
    return pb.ListScoresRequest(**found)


def create_request(wanted: NewScore, request_id: str = "") -> pb.CreateScoreRequest:
    """Asks for a score to be kept. Raises TypeError for a field that there is not."""
    found = fields(wanted, NewScore, "a score")
    by = {"source": found.pop("source", "human"), "author": found.pop("author", None)}
    if "scope" in found:
        found["scope"] = scope_of(found["scope"])
    score = score_pb2.Score(evaluator=score_pb2.Evaluator(**by), **_content(found))
    return pb.CreateScoreRequest(score=score, request_id=request_id)


def batches(scores: Iterable[NewScore]) -> Iterator[pb.BatchCreateScoresRequest]:
    """Asks for scores to be kept, in as many requests as it takes."""
    rest = iter(scores)
    while some := list(islice(rest, _BATCH)):
        yield pb.BatchCreateScoresRequest(requests=map(create_request, some))


def update_request(score: str, wanted: ScoreContent, etag: str) -> pb.UpdateScoreRequest:
    """Asks for a score to be changed, in the fields that are given.

    Raises TypeError for one that there is not.
    """
    content = _content(fields(wanted, ScoreContent, "the content of a score"))
    paths = ("metadata_json" if name == "metadata" else name for name in wanted)
    return pb.UpdateScoreRequest(
        score=score_pb2.Score(name=named("scores", score), etag=etag, **content),
        update_mask=FieldMask(paths=paths),
    )


def delete_request(score: str, etag: str, missing_ok: bool) -> pb.DeleteScoreRequest:
    """Asks for a score to be deleted."""
    return pb.DeleteScoreRequest(name=named("scores", score), etag=etag, allow_missing=missing_ok)


def _content(found: dict[str, Any]) -> dict[str, Any]:
    """The fields with scale and metadata as the message has them."""
    if "metadata" in found:
        found["metadata_json"] = json.dumps(found.pop("metadata"))
    if "scale" in found:
        low, high = found["scale"]
        found["scale"] = score_pb2.Scale(low=low, high=high)
    return found
