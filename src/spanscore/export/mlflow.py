"""Scores as MLflow's assessments."""

import base64
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from spanscore.export import wording
from spanscore.export.config import MlflowConfig
from spanscore.export.http import JsonApi
from spanscore.export.port import UnsupportedSignalError, provenance
from spanscore.model.json import dumps
from spanscore.model.score import Evaluation, Failure, Skip

_TRACES = "/api/3.0/mlflow/traces"
_MAX_TEXT_LENGTH = 8192
_SESSION = "mlflow.trace.session"
_LABEL = "spanscore.label"
_NOT_THERE = "RESOURCE_DOES_NOT_EXIST"
_UNASKABLE = frozenset("'\\")
"""Its filter has no way to write these."""

_MAX_SESSION_TRACES = 25
"""Traces of a session that are looked at for assessments of ours that lie where MLflow does not
show them.
"""

_SOURCES = {"LLM": "LLM_JUDGE", "CODE": "CODE"}


@dataclass(frozen=True, slots=True)
class _Trace:
    """A trace that MLflow has: its id there, and the ids of the assessments that spanscore made of
    it, by `_key`.
    """

    id: str
    ours: Mapping[tuple[str, str, str], str]
    experiment_id: str
    session_id: str
    """The session as MLflow read it; empty where it read none."""

    has_root: bool
    others: tuple["_Trace", ...] = ()
    """Further traces of the session, whose assessments of it MLflow does not show."""


class MlflowSink:
    """A `Sink` for one MLflow server.

    MLflow adds an assessment at every POST, so those of a trace are looked up first, and ours are
    changed by PATCH.
    """

    def __init__(self, config: MlflowConfig) -> None:
        """Raises ConfigError where a file of the TLS settings cannot be used."""
        self._api = JsonApi(config)

    async def file(
        self, evaluations: Sequence[Evaluation], *, final: bool = False
    ) -> Sequence[Evaluation]:
        """See `Sink.file`."""
        groups: defaultdict[tuple[str, ...], list[Evaluation]] = defaultdict(list)
        for evaluation in evaluations:
            target = evaluation.target
            session = (evaluation.subject_id,) if evaluation.scope == "session" else ()
            groups[target.trace_id, target.span_id, *session].append(evaluation)
        missing: list[Evaluation] = []
        for group in groups.values():
            place_of = (
                self._place_of_session if group[0].scope == "session" else self._place_of_trace
            )
            place = await place_of(group[0], final=final)
            if place is None:
                missing += group
                continue
            # MLflow's page lists first what was filed last
            group.sort(key=lambda x: x.rank, reverse=True)
            for evaluation in (x for one in group for x in wording.tallied(one)):
                await self._assess(place, evaluation)
        return missing

    async def close(self) -> None:
        """See `Sink.close`."""
        await self._api.close()

    async def _place_of_trace(self, evaluation: Evaluation, *, final: bool) -> _Trace | None:
        """None: MLflow has not got the evaluated span yet; it can have the trace, of nothing but
        evaluation spans.
        """
        target = evaluation.target
        trace = await self._trace(target.trace_id)
        if trace is None or trace.has_root or final or not target.span_id:
            return trace
        return trace if await self._has_span(target.trace_id, target.span_id) else None

    async def _place_of_session(self, evaluation: Evaluation, *, final: bool) -> _Trace | None:
        """The trace that a session began with: MLflow shows the session's assessments that it finds
        there, no others.

        None: MLflow has not got it yet. It is the one that spanscore knows as the first where
        MLflow read no session from it, or one by whose id it cannot be asked, and the evaluated one
        where that first one never comes.
        """
        first = await self._trace(evaluation.first_trace_id or evaluation.target.trace_id)
        if not final and (first is None or not (first.has_root or first.session_id)):
            return None
        first = first or await self._trace(evaluation.target.trace_id)
        if (
            first is None
            or not first.session_id
            or not first.experiment_id
            or set(first.session_id) & _UNASKABLE
        ):
            return first
        place = {
            "type": "MLFLOW_EXPERIMENT",
            "mlflow_experiment": {"experiment_id": first.experiment_id},
        }
        query = {
            "locations": [place],
            "filter": f"metadata.`{_SESSION}` = '{first.session_id}'",
            "order_by": ["timestamp ASC"],
            "max_results": _MAX_SESSION_TRACES,
        }
        _, answer = await self._api.ask("POST", f"{_TRACES}/search", query)
        listed = answer.get("traces") if isinstance(answer, Mapping) else None
        found = [_read(str(x["trace_id"]), x) for x in listed or ()]
        return replace(found[0], others=tuple(found[1:])) if found else first

    async def _trace(self, trace_id: str) -> _Trace | None:
        """None: MLflow has not got it."""
        name = f"tr-{trace_id}"
        status, answer = await self._api.ask("GET", f"{_TRACES}/{name}", expected=(404,))
        found = answer if isinstance(answer, Mapping) else {}
        if status == 404 and found.get("error_code") != _NOT_THERE:
            raise UnsupportedSignalError(
                f"{_TRACES} is answered 404: this server has no such traces"
            )
        return None if status == 404 else _read(name, found.get("trace", {}).get("trace_info", {}))

    async def _has_span(self, trace_id: str, span_id: str) -> bool:
        """Also where it is not known: an older server does not list spans, and an answer can be too
        long to read.
        """
        query = urlencode({"trace_id": f"tr-{trace_id}", "allow_partial": "true"})
        _, answer = await self._api.ask("GET", f"{_TRACES}/get?{query}", expected=(404, 405))
        listed = answer.get("trace", {}).get("spans") if isinstance(answer, Mapping) else None
        return listed is None or base64.b64encode(bytes.fromhex(span_id)).decode() in {
            x.get("span_id") for x in listed
        }

    async def _assess(self, trace: _Trace, evaluation: Evaluation) -> None:
        path = f"{_TRACES}/{trace.id}/assessments"
        assessment, key = _assessment(evaluation, trace), _key(evaluation)
        known_id = trace.ours.get(key)
        if known_id is None:
            await self._api.ask("POST", path, {"assessment": assessment})
        else:
            changed = {name: assessment[name] for name in ("feedback", "rationale", "metadata")}
            # what is left out stays as it was
            changed["metadata"] = {_LABEL: "", **changed["metadata"]}
            body = {"assessment": changed, "update_mask": ",".join(changed)}
            await self._api.ask("PATCH", f"{path}/{known_id}", body)
        for other in trace.others:
            if key in other.ours:
                await self._api.ask(
                    "DELETE", f"{_TRACES}/{other.id}/assessments/{other.ours[key]}", expected=(404,)
                )


def _key(evaluation: Evaluation) -> tuple[str, str, str]:
    """What an assessment of ours is known by; not by its span, which can be another in the next
    revision.
    """
    return (
        evaluation.metric,
        evaluation.scope,
        evaluation.subject_id if evaluation.scope == "trace" else "",
    )


def _read(trace: str, info: Mapping[str, Any]) -> _Trace:
    """MLflow's description of a trace."""
    ours: dict[tuple[str, str, str], str] = {}
    for assessment in info.get("assessments") or ():
        metadata = assessment.get("metadata") or {}
        if "spanscore.uid" in metadata:
            about = metadata.get("spanscore.scope"), metadata.get("spanscore.agent_trace_id", "")
            name, scope, subject_id = map(str, (assessment.get("assessment_name"), *about))
            ours[name, scope, subject_id] = str(assessment["assessment_id"])
    experiment = (info.get("trace_location") or {}).get("mlflow_experiment") or {}
    session_id = (info.get("trace_metadata") or {}).get(_SESSION) or ""
    has_root = info.get("state") != "IN_PROGRESS"
    return _Trace(
        trace, ours, str(experiment.get("experiment_id") or ""), str(session_id), has_root
    )


def _value(evaluation: Evaluation) -> float | str:
    """A number, so that MLflow can average it; of the tally the verdict, which its page finds by
    equality.
    """
    if evaluation.value is None or wording.is_tally(evaluation):
        return evaluation.label or ""
    return wording.rounded(evaluation.value, evaluation.threshold)


def _assessment(evaluation: Evaluation, trace: _Trace) -> dict[str, Any]:
    outcome, evaluator = evaluation.outcome, evaluation.evaluator
    if isinstance(outcome, Failure):
        message = wording.cut(outcome.message, _MAX_TEXT_LENGTH)
        feedback: dict[str, Any] = {"error": {"error_code": outcome.type, "error_message": message}}
    elif isinstance(outcome, Skip):
        message = wording.cut(outcome.reason, _MAX_TEXT_LENGTH)
        feedback = {"error": {"error_code": outcome.cause, "error_message": message}}
    else:
        feedback = {"value": _value(evaluation)}
    facts = provenance(evaluation)
    if evaluation.label is not None:
        facts[_LABEL] = evaluation.label
    place = {"trace_id": trace.id}
    if evaluation.scope == "session":
        facts[_SESSION] = trace.session_id or evaluation.session_id
    elif evaluation.target.span_id:
        place["span_id"] = evaluation.target.span_id
    return {
        "assessment_name": evaluation.metric,
        **place,
        "source": {
            "source_type": _SOURCES[evaluator.kind or "CODE"],
            "source_id": evaluator.model or "spanscore",
        },
        "feedback": feedback,
        "rationale": wording.cut(wording.labelled(evaluation), _MAX_TEXT_LENGTH),
        # MLflow takes text only.
        "metadata": {name: x if isinstance(x, str) else dumps(x) for name, x in facts.items()},
    }
