"""Scores that others give, checked field by field."""

import hashlib
import json
import math
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from google.protobuf.field_mask_pb2 import FieldMask

from spanscore import metrics
from spanscore.api.messages import words_by_number
from spanscore.api.requests import json_object, request_id_in, shown, trace_id
from spanscore.api.v1 import score_pb2 as score_pb, score_service_pb2 as pb
from spanscore.errors import ConflictError, FieldError
from spanscore.evaluation.rubric import is_rubric, scale_of
from spanscore.model.external import KIND_OF_SOURCE, etag, verdict
from spanscore.model.score import Annotation, Evaluation, Evaluator
from spanscore.model.span import of_tenant, with_headers
from spanscore.model.trace import Target
from spanscore.store.given_scores import Draft

MAX_BATCH: Final = 1000
_MAX_NAME_CHARS: Final = 256
_MAX_TEXT_CHARS: Final = 32_768
_MAX_ERRORS: Final = 100
_LATEST_NS: Final = 2**63 - 1
_CLOCK_SKEW_NS: Final = 24 * 3600 * 10**9
_SPAN_ID: Final = re.compile("(?!0{16})[0-9a-f]{16}")
_MUTABLE: Final = ("value", "label", "scale", "reason", "metadata_json", "evaluated_at_ns")
_KINDS: Final[Mapping[int, Any]] = {
    number: word.upper()
    for number, word in words_by_number(score_pb.EvaluatorKind.DESCRIPTOR).items()
}


def draft(request: pb.CreateScoreRequest, tenant: str) -> Draft:
    """The score of a request. Raises FieldError, which names all fields that are wrong."""
    return _draft(
        request.score, "", request_id_in(request.request_id) or secrets.token_hex(16), tenant
    )


def drafts(request: pb.BatchCreateScoresRequest, tenant: str) -> list[Draft]:
    """The scores of a batch. Raises FieldError, which names what is wrong with each."""
    if not request.requests:
        raise FieldError("requests", "is empty: give at least one score")
    if len(request.requests) > MAX_BATCH:
        raise FieldError(
            "requests",
            f"has {len(request.requests)} scores: give {MAX_BATCH} at most, in several batches",
        )
    of_all = request_id_in(request.request_id) or secrets.token_hex(16)
    found, wrong = [], []
    for place, one in enumerate(request.requests):
        where = f"requests[{place}]."
        try:
            own = request_id_in(one.request_id, f"{where}request_id")
            found.append(_draft(one.score, where, own or f"{of_all}\n{place}", tenant))
        except FieldError as error:
            wrong += [error, *error.others]
    _refuse(wrong)
    return found


def change(request: pb.UpdateScoreRequest) -> Callable[[Evaluation], Evaluation]:
    """What an update makes of the score that is stored.

    Raises FieldError where no score can be changed like that; so does what is returned, and
    ConflictError where the score is no longer the one that the request's etag is of.
    """
    names = _masked(request.update_mask, request.score)
    fields = _Fields("score.", request.score)

    def changed(score: Evaluation) -> Evaluation:
        require_unchanged(score, request.score.etag)
        if not isinstance(score.outcome, Annotation):
            raise FieldError(
                "score", "contains an evaluator's error, which cannot be changed: delete it"
            )
        given: dict[str, Any] = {"outcome": fields.outcome(score.outcome, names)}
        at_ns = fields.time_ns() if "evaluated_at_ns" in names else 0
        if "scale" in names:
            given["scale"] = fields.scale()
        found = replace(score, **given, evaluated_at_ns=at_ns or score.evaluated_at_ns)
        if {"value", "label", "scale"} & set(names):
            found = fields.checked(found, names)
        _refuse(fields.wrong)
        return found

    return changed


def require_unchanged(score: Evaluation, wanted: str) -> None:
    """Raise ConflictError where somebody has changed a score since its etag was `wanted`; "":
    whatever it is.
    """
    if wanted and wanted != etag(score):
        raise ConflictError(
            f"scores/{score.uid} was changed since it was read: get it again, and change what it"
            " is now"
        )


def _draft(score: score_pb.Score, path: str, request_id: str, tenant: str) -> Draft:
    fields = _Fields(f"{path}score.", score)
    target, session_id = fields.subject(tenant)
    found = Evaluation(
        scope="session" if session_id is not None else "trace",
        subject_id=session_id if session_id is not None else target.trace_id,
        metric=fields.name(
            "metric", score.metric, "name what is scored, such as task_completion or helpful"
        ),
        outcome=fields.outcome(Annotation(None, None, "", {}), _MUTABLE),
        threshold=None,
        scale=fields.scale(),
        evaluator=fields.evaluator(),
        target=target,
        session_id=session_id,
        session_key=session_id,
        evaluated_at_ns=fields.time_ns(),
        received_uid=_digest("created", tenant, request_id),
    )
    found = fields.checked(found, _MUTABLE)
    _refuse(fields.wrong)
    return Draft(replace(found, digest=_digest_of(found, score)), f"{path}request_id")


def _masked(mask: FieldMask, score: score_pb.Score) -> list[str]:
    """The fields to change. Raises FieldError."""
    if list(mask.paths) == ["*"]:
        return list(_MUTABLE)
    names = list(mask.paths) or [x.name for x, _ in score.ListFields() if x.name in _MUTABLE]
    if not names:
        raise FieldError(
            "update_mask", f"nothing is to be changed: set some of {', '.join(_MUTABLE)}"
        )
    for path in names:
        if path not in _MUTABLE:
            raise FieldError(
                "update_mask",
                f"{shown(path)} cannot be changed, only {', '.join(_MUTABLE)}: "
                "for another trace, metric or author delete the score and create another",
            )
    return names


class _Fields:
    """Reads a message's fields, and notes those that are wrong."""

    def __init__(self, path: str, score: score_pb.Score) -> None:
        self._path = path
        self._score = score
        self.wrong: list[FieldError] = []

    def subject(self, tenant: str) -> tuple[Target, str | None]:
        """The span or trace that is scored, or else the session's id."""
        score, resource = self._score, with_headers({}, of_tenant(tenant))
        scope = score.scope or self._usual_scope()
        if scope == score_pb.SCOPE_SESSION:
            if score.span_id:
                self._note(
                    "span_id", "a session is scored: leave it out, or set scope to SCOPE_TRACE"
                )
            name = self.name("session_id", score.session_id, "give the session's id, or a trace_id")
            return Target("", "", 0, 0, resource), name
        span_id = score.span_id.strip().lower()
        if span_id and not _SPAN_ID.fullmatch(span_id):
            self._note(
                "span_id",
                f"{shown(score.span_id)} is no id: give the 16 hex digits of one of the trace's"
                " spans",
            )
        return Target(self._trace_id(), span_id, 0, 0, resource), None

    def outcome(self, before: Annotation, names: Sequence[str]) -> Annotation:
        """The outcome with what the named fields have."""
        read: dict[str, Callable[[], Any]] = {
            "value": self.value,
            "label": self.label,
            "reason": partial(self.text, "reason"),
            "metadata_json": self.metadata,
        }
        given = {x.removesuffix("_json"): read[x]() for x in read if x in names}
        return replace(before, **given)

    def value(self) -> float | None:
        """The value, where there is one."""
        if not self._score.HasField("value"):
            return None
        if not math.isfinite(self._score.value):
            self._note(
                "value", f"{self._score.value} is no number that can be kept: give a finite one"
            )
            return None
        return self._score.value

    def label(self) -> str | None:
        """The label, where there is one."""
        if not self._score.HasField("label"):
            return None
        return self.name("label", self._score.label, "give a label, or leave the field out")

    def name(self, field: str, text: str, if_empty: str) -> str:
        """A short text that must be there."""
        if not text.strip():
            self._note(field, f"is empty: {if_empty}")
        self._require_text(field, text, _MAX_NAME_CHARS)
        return text.strip()

    def text(self, field: str) -> str:
        """A long text."""
        found: str = getattr(self._score, field)
        self._require_text(field, found, _MAX_TEXT_CHARS)
        return found

    def metadata(self) -> dict[str, Any]:
        """What the JSON object in `metadata_json` contains."""
        found = json_object(self.text("metadata_json") or "{}")
        if found is None:
            self._note("metadata_json", 'is no JSON object: write one, such as {"ticket": 7}')
        return found or {}

    def scale(self) -> tuple[float, float] | None:
        """The scale that is given, else that of a metric that is known."""
        if not self._score.HasField("scale"):
            return _known_scale(self._score.metric)
        low, high = self._score.scale.low, self._score.scale.high
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            self._note("scale", f"{low:g} to {high:g} is no scale: give a low and a higher high")
            return None
        return low, high

    def evaluator(self) -> Evaluator:
        """Who gave it."""
        by = self._score.evaluator
        source = self.name(
            "evaluator.source",
            by.source,
            "say who gives it: human, programmatic, or an evaluator's name",
        )
        if source == "spanscore":
            self._note(
                "evaluator.source",
                "spanscore measures its own scores: name who gives this one, such as human",
            )
        for field in ("author", "name", "version", "model"):
            self._require_text(f"evaluator.{field}", getattr(by, field), _MAX_NAME_CHARS)
        kind = _KINDS.get(by.kind) or KIND_OF_SOURCE.get(source)
        return Evaluator(
            kind,
            by.name or source,
            by.version,
            model=by.model or None,
            source=source,
            author=by.author.strip() or None,
        )

    def time_ns(self) -> int:
        """When it was given; 0: now."""
        found = self._score.evaluated_at_ns
        if found > min(time.time_ns() + _CLOCK_SKEW_NS, _LATEST_NS):
            self._note(
                "evaluated_at_ns",
                f"{found} is in the future: give nanoseconds since 1970-01-01, or 0 for now",
            )
            return 0
        return found

    def checked(self, score: Evaluation, names: Sequence[str]) -> Evaluation:
        """The score with its verdict; what of the named fields does not fit its metric or its scale
        is noted.
        """
        outcome = cast("Annotation", score.outcome)
        if outcome.value is None and outcome.label is None and not self.wrong:
            self._note("value", "neither value nor label is set: give one of the two, or both")
        if score.scale is not None and outcome.value is not None:
            self._require_on_scale(score.metric, outcome.value, score.scale)
        is_word_wanted = (
            "label" in names and outcome.label is not None and score.metric in metrics.built_in()
        )
        if is_word_wanted and verdict(outcome.label) is None:
            self._note(
                "label",
                f"{shown(outcome.label or '')} is no label of {score.metric}: give pass or fail",
            )
        return replace(score, outcome=replace(outcome, passed=_passed(outcome)))

    def _require_on_scale(self, metric: str, value: float, scale: tuple[float, float]) -> None:
        known = _known_scale(metric)
        if known is not None and scale != known:
            self._note(
                "scale",
                f"{metric} has the scale {known[0]:g} to {known[1]:g}: give values on that one",
            )
        elif not scale[0] <= value <= scale[1]:
            whose = f"of {metric}" if known else "that is given"
            self._note(
                "value",
                f"{value:g} is off the scale {whose}, which is {scale[0]:g} to {scale[1]:g}",
            )

    def _usual_scope(self) -> "score_pb.Scope.ValueType":
        if self._score.trace_id and self._score.session_id:
            self._note(
                "scope",
                "both trace_id and session_id are set: say by scope which of the two is scored",
            )
        return (
            score_pb.SCOPE_TRACE
            if self._score.trace_id or not self._score.session_id
            else score_pb.SCOPE_SESSION
        )

    def _trace_id(self) -> str:
        try:
            found = trace_id(self._score.trace_id)
        except FieldError as error:
            self._note("trace_id", error.problem)
            return ""
        if not found.strip("0"):
            self._note("trace_id", "is nothing but zeros, which is no id: give that of a trace")
        return found

    def _require_text(self, field: str, text: str, max_chars: int) -> None:
        if len(text) > max_chars:
            self._note(field, f"has {len(text):,} characters: give {max_chars:,} at most")
        if "\0" in text:
            self._note(field, "contains a NUL character, which no database takes: leave it out")

    def _note(self, field: str, problem: str) -> None:
        self.wrong.append(FieldError(f"{self._path}{field}", problem))


def _known_scale(metric: str) -> tuple[float, float] | None:
    """The scale of a metric that this spanscore has; None of any other name."""
    return scale_of(metric) if is_rubric(metric) or metrics.named(metric) else None


def _refuse(wrong: Sequence[FieldError]) -> None:
    """Raise all that is wrong as one error."""
    if wrong:
        first, *others = wrong[:_MAX_ERRORS]
        raise FieldError(first.field, first.problem, others)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _passed(outcome: Annotation) -> bool | None:
    """Whether it is a pass: as its label says; without one as its value does, where that was a yes
    or no before.
    """
    if outcome.label is not None or outcome.passed is None or outcome.value not in {0.0, 1.0}:
        return verdict(outcome.label)
    return bool(outcome.value)


def _digest_of(found: Evaluation, score: score_pb.Score) -> str:
    """The same for requests that ask for the same."""
    outcome, by = cast("Annotation", found.outcome), found.evaluator
    facts = [
        *(found.scope, found.target.trace_id, found.target.span_id, found.session_id, found.metric),
        *(outcome.value, outcome.label, outcome.reason, outcome.metadata, found.evaluated_at_ns),
        *(by.kind, by.name, by.version, by.model, by.source, by.author),
        [score.scale.low, score.scale.high] if score.HasField("scale") else None,
    ]
    return _digest(json.dumps(facts, sort_keys=True))
