"""An external score as recorded, and its evaluation."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spanscore.model.external import HUMAN, KIND_OF_SOURCE, PROGRAMMATIC, verdict
from spanscore.model.json import loads
from spanscore.model.score import Annotation, Evaluation, Evaluator, EvaluatorKind, Failure
from spanscore.model.span import Attributes, LogRecord, Resource, Span
from spanscore.model.trace import Target, scope_of, session_key

MAX_NAME_CHARS = 256
_LATEST_NS = 2**63 - 1
"""The last moment that a store can keep; a sender may claim any."""

_OURS = "spanscore"
_SOURCES: Mapping[EvaluatorKind, str] = {"HUMAN": HUMAN, "CODE": PROGRAMMATIC}
KINDS: Mapping[str, EvaluatorKind] = {"HUMAN": "HUMAN", "LLM": "LLM", "CODE": "CODE"}
"""The kinds of evaluators, as attributes name them."""

_LIBRARIES = {
    "opentelemetry.util.genai": "splunk-otel-util-genai",
    "azure.ai.evaluation": "azure-ai-evaluation",
    "gen_ai.evaluation": "langchain-azure-ai",
    "openlit": "openlit",
    "pydantic-evals": "pydantic-evals",
    "strands": "strands-evals",
    "logfire": "logfire",
    "langwatch": "langwatch",
}
"""How the scopes of libraries begin that emit evaluations, with the names under which people
install them.
"""


@dataclass(frozen=True, slots=True)
class Place:
    """What a score was given to: a span, a trace (`span_id` is "") or a session (both are "").

    `response_id` names the model call whose answer it is of, which may be of another trace, and the
    only name of it.
    """

    trace_id: str
    span_id: str
    resource: Resource
    session_id: str | None = None
    is_session: bool = False
    response_id: str | None = None

    @classmethod
    def of(cls, item: Span | LogRecord, session_id: str | None) -> "Place":
        """The span, or what a log record names: a span, a trace, else a session."""
        trace_id, span_id = _id(item.trace_id), _id(item.span_id)
        return cls(
            trace_id, span_id, item.resource, session_id, not trace_id and session_id is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A score as it was recorded.

    `passed` is what is recorded beside the label; `seed` is unique to it.
    """

    name: str
    place: Place
    scope_name: str
    seed: tuple[object, ...]
    at_ns: int
    value: float | bool | None = None
    label: str | None = None
    passed: bool | None = None
    reason: str | None = None
    error: str | None = None
    source: str | None = None
    author: str | None = None
    kind: EvaluatorKind | None = None
    evaluator: str | None = None
    version: str | None = None
    scale: tuple[float, float] | None = None
    threshold: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_outcome(self) -> bool:
        """Whether it says anything: a value, a label, a verdict or an error."""
        return any(x is not None for x in (self.value, self.label, self.passed, self.error))

    def evaluation(self, session_scope: Sequence[str]) -> Evaluation:
        """The evaluation that it is."""
        place, resource = self.place, self.place.resource.attributes
        key = (
            None
            if place.session_id is None
            else session_key(place.session_id, scope_of(resource, session_scope))
        )
        return Evaluation(
            scope="session" if place.is_session else "trace",
            subject_id=(key or "")
            if place.is_session
            else place.trace_id or place.response_id or "",
            metric=_short(self.name),
            outcome=self._outcome(),
            threshold=self.threshold,
            scale=self.scale,
            evaluator=self._evaluator(),
            target=Target(place.trace_id, place.span_id, 0, 0, resource, place.response_id),
            session_id=place.session_id,
            session_key=key,
            service_name=place.resource.service_name,
            evaluated_at_ns=min(self.at_ns, _LATEST_NS),
            received_uid=digest(
                *self.seed,
                place.session_id,
                self.source,
                self.author,
                *scope_of(resource, session_scope),
            ),
        )

    def _outcome(self) -> Annotation | Failure:
        if self.error is not None:
            return Failure(self.error[:MAX_NAME_CHARS], (self.reason or "")[:MAX_TEXT_CHARS])
        value = None if self.value is None else float(self.value)
        label = _short(self.label) if self.label else None
        if label is None and value is None and self.passed is not None:
            label = "pass" if self.passed else "fail"
        return Annotation(
            value, label, (self.reason or "")[:MAX_TEXT_CHARS], self.metadata, self._passed()
        )

    def _passed(self) -> bool | None:
        """What whoever gave it says, in so many words or by its label; a number alone is no
        verdict.
        """
        if self.passed is not None:
            return self.passed
        if isinstance(self.value, bool):
            return self.value
        return verdict(self.label)

    def _evaluator(self) -> Evaluator:
        source = (
            self.source
            or (_SOURCES.get(self.kind) if self.kind else None)
            or library(self.scope_name)
        )
        source = _short(source)
        if source == _OURS:  # what is ours comes under our own scope, and is not read here
            source = _short(library(self.scope_name))
        name = _short(self.evaluator or source)
        author = _short(self.author) if self.author else None
        version = _short(self.version or "")
        return Evaluator(
            self.kind or KIND_OF_SOURCE.get(source), name, version, source=source, author=author
        )


def _short(text: str) -> str:
    """A name of bounded length that every store takes: without NUL, and without halves of surrogate
    pairs.
    """
    return text[:MAX_NAME_CHARS].replace("\0", "").encode("utf-8", "replace").decode()


def library(scope_name: str) -> str:
    """The evaluator that emits under an instrumentation scope, else the scope's own name."""
    found = next((name for start, name in _LIBRARIES.items() if scope_name.startswith(start)), None)
    return found or scope_name or "unnamed"


def _id(hex_id: str) -> str:
    """An id as OTLP writes it; of nothing but zeros it is none."""
    return hex_id if hex_id.strip("0") else ""


def session_of(attributes: Attributes) -> str | None:
    """The session that a score names."""
    for key in ("session.id", "gen_ai.conversation.id"):
        value = attributes.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def digest(*parts: object) -> str:
    """16 hex digits that are the same for the same parts."""
    seed = "\n".join(map(str, parts))
    return hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:16]


MAX_TEXT_CHARS = 32_768
"""Of a name, a label or a reason; what is longer is cut."""

_MAX_METADATA_CHARS = 2**20
_MAX_NUMBER_CHARS = 64


def text(attributes: Mapping[str, Any], *keys: str) -> str | None:
    """The first of these attributes that is a text and not empty."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, str) and value:
            return value[:MAX_TEXT_CHARS]
    return None


def number(attributes: Attributes, key: str) -> float | None:
    """The attribute, where it is a finite number."""
    return finite(attributes.get(key))


def finite(value: object) -> float | None:
    """`value`, where it is a finite number; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def count(attributes: Attributes, key: str) -> int | None:
    """The attribute, where it is an integer from 0 on."""
    value = attributes.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def json_object(attributes: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The attribute, where it is a JSON object; else an empty one."""
    return mapping(_json(attributes, key))


def json_list(attributes: Mapping[str, Any], key: str) -> list[Any] | None:
    """The attribute, where it is a JSON array; else None."""
    found = _json(attributes, key)
    return found if isinstance(found, list) else None


def _json(attributes: Mapping[str, Any], key: str) -> object:
    """What the attribute contains as JSON; None where it is none."""
    value = attributes.get(key)
    if not isinstance(value, str) or len(value) > _MAX_METADATA_CHARS:
        return None
    try:
        return loads(value)
    except ValueError:
        return None


def mapping(value: object) -> dict[str, Any]:
    """`value`, where it is an object; else an empty one."""
    return value if isinstance(value, dict) else {}


def numeric(value: object) -> float | bool | None:
    """`value` as a score: a truth value, a finite number, or a text that is one.

    >>> numeric("0.5"), numeric("85%"), numeric("True"), numeric("good")
    (0.5, 0.85, True, None)
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _numeric_text(value) if len(value) <= _MAX_NUMBER_CHARS else None
    return finite(value)


def _numeric_text(value: str) -> float | bool | None:
    word = value.strip().lower()
    if word in {"true", "false"}:
        return word == "true"
    try:
        return finite(float(word.removesuffix("%")) / (100 if word.endswith("%") else 1))
    except ValueError:
        return None


def flag(attributes: Mapping[str, Any], *keys: str) -> bool | None:
    """The first of these attributes that is a truth value, or a text that is one."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in {"true", "false"}:
            return value.lower() == "true"
    return None
