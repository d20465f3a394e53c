"""Scores as Phoenix's annotations."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from spanscore.export import wording
from spanscore.export.config import PhoenixConfig
from spanscore.export.http import JsonApi
from spanscore.export.port import UnsupportedSignalError, provenance
from spanscore.model.score import Evaluation, Failure

_MAX_TEXT_LENGTH = 8192


class _Place(NamedTuple):
    """One of Phoenix's lists of annotations: its path, and what the id of what is annotated is
    called.
    """

    path: str
    key: str

    def id_of(self, evaluation: Evaluation) -> str:
        if self.key == "session_id":
            return evaluation.session_id or ""
        return evaluation.target.span_id if self.key == "span_id" else evaluation.target.trace_id


_SPANS = _Place("/v1/span_annotations", "span_id")
_TRACES = _Place("/v1/trace_annotations", "trace_id")
_SESSIONS = _Place("/v1/session_annotations", "session_id")


class PhoenixSink:
    """A `Sink` for one Phoenix."""

    def __init__(self, config: PhoenixConfig) -> None:
        """Raises ConfigError where a file of the TLS settings cannot be used."""
        self._api = JsonApi(config)
        self._has_sessions = True

    async def file(
        self,
        evaluations: Sequence[Evaluation],
        *,
        final: bool = False,  # noqa: ARG002 - there is one place only
    ) -> Sequence[Evaluation]:
        """See `Sink.file`."""
        of_traces = [x for x in evaluations if x.scope == "trace"]
        missing = await self._annotate(_SPANS, [x for x in of_traces if x.target.span_id])
        absent = set(map(id, missing))
        missing += await self._annotate(_TRACES, [x for x in of_traces if id(x) not in absent])
        return [
            *missing,
            *await self._annotate_sessions([x for x in evaluations if x.scope == "session"]),
        ]

    async def close(self) -> None:
        """See `Sink.close`."""
        await self._api.close()

    async def _annotate_sessions(self, evaluations: Sequence[Evaluation]) -> list[Evaluation]:
        """As `_annotate`; on the session's last agent span where Phoenix has that, but knows no
        such session.

        It reads a session's id from two attributes only, and older ones have no annotations of
        sessions.
        """
        unknown = evaluations
        if self._has_sessions:
            try:
                unknown = await self._annotate(_SESSIONS, evaluations)
            except UnsupportedSignalError:
                self._has_sessions = False
        missing = await self._annotate(_SPANS, [x for x in unknown if x.target.span_id])
        return missing + await self._annotate(_TRACES, [x for x in unknown if not x.target.span_id])

    async def _annotate(self, place: _Place, evaluations: Sequence[Evaluation]) -> list[Evaluation]:
        """Annotate what is there; returns what is not.

        Phoenix refuses a whole request for one unknown id.
        """
        present, missing = list(evaluations), list[Evaluation]()
        while present:
            data = [_annotation(place, x) for one in present for x in wording.tallied(one)]
            status, answer = await self._api.ask(
                "POST", f"{place.path}?sync=true", {"data": data}, expected=(404, 405)
            )
            if status // 100 == 2:
                break
            listed = _listed(answer)
            ids = set(listed.split(", "))
            # An id with a comma in it is found as part of the list only.
            unknown = [x for x in present if place.id_of(x) in ids] or [
                x for x in present if place.id_of(x) in listed
            ]
            if not unknown:
                raise UnsupportedSignalError(
                    f"{place.path} is answered {status}: this server has no such annotations"
                )
            missing += unknown
            absent = set(map(id, unknown))
            present = [x for x in present if id(x) not in absent]
        return missing


def _listed(answer: Any) -> str:
    """The ids in an answer such as `Spans with IDs a, b do not exist.`, the only place that names
    the unknown ones.
    """
    text = answer.get("detail", "") if isinstance(answer, Mapping) else answer
    before, _, _ = str(text).rpartition(" do not exist")
    return before.partition(" with IDs ")[2]


def _identifier(evaluation: Evaluation) -> str:
    """Annotations of one span with the same name and identifier replace each other; several turns
    can share a span.
    """
    return f"spanscore:{evaluation.subject_id[:8]}" if evaluation.scope == "trace" else "spanscore"


def _annotation(place: _Place, evaluation: Evaluation) -> dict[str, Any]:
    outcome = evaluation.outcome
    explanation = (
        f"{outcome.type}: {outcome.message}" if isinstance(outcome, Failure) else evaluation.reason
    )
    score = (
        None
        if evaluation.value is None
        else wording.rounded(evaluation.value, evaluation.threshold)
    )
    if wording.is_tally(evaluation):
        score = None  # of an annotation with a score its pages show that, and not the label
    result = {
        "score": score,
        "label": evaluation.label,
        "explanation": wording.cut(explanation or wording.summary(evaluation), _MAX_TEXT_LENGTH),
    }
    return {
        place.key: place.id_of(evaluation),
        "name": evaluation.metric,
        "annotator_kind": evaluation.evaluator.kind,
        "identifier": _identifier(evaluation),
        "result": {name: value for name, value in result.items() if value is not None},
        "metadata": provenance(evaluation),
    }
