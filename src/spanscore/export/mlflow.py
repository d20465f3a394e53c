"""Scores as MLflow's own assessments, which it shows in the list of traces and beside each trace."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spanscore.export import wording
from spanscore.export.config import MlflowConfig
from spanscore.export.json_api import JsonApi
from spanscore.export.sink import provenance
from spanscore.model.json import dumps
from spanscore.model.score import Evaluation, Failure

_TRACES = "/api/3.0/mlflow/traces"
_MAX_TEXT_LENGTH = 8192
_SESSION = "mlflow.trace.session"
_UNASKABLE = frozenset("'\\")
"""Its filter has no way to write these."""

_SOURCES = {"LLM": "LLM_JUDGE", "CODE": "CODE"}


@dataclass(frozen=True, slots=True)
class _Trace:
    """A trace that MLflow has: its id there, and the ids of the assessments that spanscore made of it, by `_key`."""

    id: str
    ours: Mapping[tuple[str, str, str], str]
    experiment_id: str
    session_id: str
    """The session as MLflow read it; empty where it read none."""


class MlflowSink:
    """A `Sink` for one MLflow server.

    MLflow adds an assessment at every POST, so those of a trace are looked up first, and ours are changed by PATCH.
    """

    def __init__(self, config: MlflowConfig) -> None:
        """Raises ConfigError where a file of the TLS settings cannot be used."""
        self._api = JsonApi(config)

    async def file(self, evaluations: Sequence[Evaluation]) -> Sequence[Evaluation]:
        """See `Sink.file`."""
        groups: defaultdict[tuple[str, str], list[Evaluation]] = defaultdict(list)
        for evaluation in evaluations:
            groups[evaluation.target.trace_id, evaluation.scope].append(evaluation)
        missing: list[Evaluation] = []
        for (trace_id, scope), group in groups.items():
            trace = await self._trace(trace_id)
            if trace is None:
                missing += group
                continue
            if scope == "session":
                trace = await self._first_of_session(trace)
            for evaluation in group:
                await self._assess(trace, evaluation)
        return missing

    async def close(self) -> None:
        """See `Sink.close`."""
        await self._api.close()

    async def _trace(self, trace_id: str) -> _Trace | None:
        """None: MLflow has not got it yet."""
        name = f"tr-{trace_id}"
        status, answer = await self._api.ask("GET", f"{_TRACES}/{name}", expected=(404,))
        found = answer.get("trace", {}).get("trace_info", {}) if isinstance(answer, Mapping) else {}
        return None if status == 404 else _read(name, found)

    async def _first_of_session(self, trace: _Trace) -> _Trace:
        """The trace that a session began with: MLflow shows the session's assessments that it finds there, no others.

        `trace` itself where MLflow knows no session of it, or one by whose id it cannot be asked.
        """
        if not trace.session_id or not trace.experiment_id or set(trace.session_id) & _UNASKABLE:
            return trace
        place = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": trace.experiment_id}}
        query = {
            "locations": [place],
            "filter": f"metadata.`{_SESSION}` = '{trace.session_id}'",
            "order_by": ["timestamp ASC"],
            "max_results": 1,
        }
        _, answer = await self._api.ask("POST", f"{_TRACES}/search", query)
        found = answer.get("traces") if isinstance(answer, Mapping) else None
        return _read(str(found[0]["trace_id"]), found[0]) if found else trace

    async def _assess(self, trace: _Trace, evaluation: Evaluation) -> None:
        path = f"{_TRACES}/{trace.id}/assessments"
        assessment = _assessment(evaluation, trace)
        known_id = trace.ours.get(_key(evaluation))
        if known_id is None:
            await self._api.ask("POST", path, {"assessment": assessment})
            return
        changed = {name: assessment[name] for name in ("feedback", "rationale", "metadata")}
        body = {"assessment": changed, "update_mask": ",".join(changed)}
        await self._api.ask("PATCH", f"{path}/{known_id}", body)


def _key(evaluation: Evaluation) -> tuple[str, str, str]:
    """What an assessment of ours is known by; not by its span, which can be another in the next revision."""
    return evaluation.metric, evaluation.scope, evaluation.subject_id if evaluation.scope == "trace" else ""


def _read(trace: str, info: Mapping[str, Any]) -> _Trace:
    """What MLflow says of a trace."""
    ours: dict[tuple[str, str, str], str] = {}
    for assessment in info.get("assessments") or ():
        metadata = assessment.get("metadata") or {}
        if "spanscore.uid" in metadata:
            about = metadata.get("spanscore.scope"), metadata.get("spanscore.agent_trace_id", "")
            name, scope, subject_id = map(str, (assessment.get("assessment_name"), *about))
            ours[name, scope, subject_id] = str(assessment["assessment_id"])
    experiment = (info.get("trace_location") or {}).get("mlflow_experiment") or {}
    session_id = (info.get("trace_metadata") or {}).get(_SESSION) or ""
    return _Trace(trace, ours, str(experiment.get("experiment_id") or ""), str(session_id))


def _assessment(evaluation: Evaluation, trace: _Trace) -> dict[str, Any]:
    outcome, evaluator = evaluation.outcome, evaluation.evaluator
    if isinstance(outcome, Failure):
        message = wording.cut(outcome.message, _MAX_TEXT_LENGTH)
        feedback: dict[str, Any] = {"error": {"error_code": outcome.type, "error_message": message}}
    else:
        feedback = {"value": evaluation.value}
    facts = provenance(evaluation)
    if evaluation.label is not None:
        facts["spanscore.label"] = evaluation.label
    place = {"trace_id": trace.id, "span_id": evaluation.target.span_id}
    if evaluation.scope == "session":
        facts[_SESSION] = trace.session_id or evaluation.session_id
        del place["span_id"]
    return {
        "assessment_name": evaluation.metric,
        **place,
        "source": {"source_type": _SOURCES[evaluator.kind], "source_id": evaluator.model or "spanscore"},
        "feedback": feedback,
        "rationale": wording.cut(evaluation.reason, _MAX_TEXT_LENGTH),
        # MLflow takes text only.
        "metadata": {name: x if isinstance(x, str) else dumps(x) for name, x in facts.items()},
    }
