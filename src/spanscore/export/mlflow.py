"""Scores as MLflow's own assessments, which it shows in the list of traces and beside each trace."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from spanscore.export import wording
from spanscore.export.config import MlflowConfig
from spanscore.export.json_api import JsonApi
from spanscore.export.sink import provenance
from spanscore.model.json import dumps
from spanscore.model.score import Evaluation, Failure

_TRACES = "/api/3.0/mlflow/traces"
_MAX_TEXT_LENGTH = 8192
_SOURCES = {"LLM": "LLM_JUDGE", "CODE": "CODE"}


class MlflowSink:
    """A `Sink` for one MLflow server.

    MLflow adds an assessment at every POST, so those of a trace are looked up first, and ours are changed by PATCH.
    """

    def __init__(self, config: MlflowConfig) -> None:
        """Raises ConfigError where a file of the TLS settings cannot be used."""
        self._api = JsonApi(config)

    async def file(self, evaluations: Sequence[Evaluation]) -> Sequence[Evaluation]:
        """See `Sink.file`."""
        of_trace: defaultdict[str, list[Evaluation]] = defaultdict(list)
        for evaluation in evaluations:
            of_trace[evaluation.target.trace_id].append(evaluation)
        missing: list[Evaluation] = []
        for trace_id, group in of_trace.items():
            path = f"{_TRACES}/tr-{trace_id}"
            status, answer = await self._api.ask("GET", path, expected=(404,))
            if status == 404:
                missing += group
                continue
            known = _ours(answer)
            for evaluation in group:
                await self._assess(path, evaluation, known.get(_key(evaluation)))
        return missing

    async def close(self) -> None:
        """See `Sink.close`."""
        await self._api.close()

    async def _assess(self, path: str, evaluation: Evaluation, known_id: str | None) -> None:
        assessment = _assessment(evaluation)
        if known_id is None:
            await self._api.ask("POST", f"{path}/assessments", {"assessment": assessment})
            return
        changed = {name: assessment[name] for name in ("feedback", "rationale", "metadata")}
        body = {"assessment": changed, "update_mask": ",".join(changed)}
        await self._api.ask("PATCH", f"{path}/assessments/{known_id}", body)


def _key(evaluation: Evaluation) -> tuple[str, str, str]:
    """What an assessment of ours is known by."""
    return evaluation.metric, evaluation.scope, evaluation.target.span_id


def _ours(answer: Any) -> dict[tuple[str, str, str], str]:
    """The ids of the assessments that spanscore made of a trace, by `_key`."""
    found: dict[tuple[str, str, str], str] = {}
    info = answer.get("trace", {}).get("trace_info", {}) if isinstance(answer, Mapping) else {}
    for assessment in info.get("assessments") or ():
        metadata = assessment.get("metadata") or {}
        if "spanscore.uid" in metadata:
            parts = assessment.get("assessment_name"), metadata.get("spanscore.scope"), assessment.get("span_id")
            name, scope, span_id = map(str, parts)
            found[name, scope, span_id] = str(assessment["assessment_id"])
    return found


def _assessment(evaluation: Evaluation) -> dict[str, Any]:
    outcome, evaluator = evaluation.outcome, evaluation.evaluator
    if isinstance(outcome, Failure):
        message = wording.cut(outcome.message, _MAX_TEXT_LENGTH)
        feedback: dict[str, Any] = {"error": {"error_code": outcome.type, "error_message": message}}
    else:
        feedback = {"value": evaluation.value}
    facts = provenance(evaluation)
    if evaluation.label is not None:
        facts["spanscore.label"] = evaluation.label
    if evaluation.scope == "session":
        facts["mlflow.trace.session"] = evaluation.session_id
    return {
        "assessment_name": evaluation.metric,
        "trace_id": f"tr-{evaluation.target.trace_id}",
        "span_id": evaluation.target.span_id,
        "source": {"source_type": _SOURCES[evaluator.kind], "source_id": evaluator.model or "spanscore"},
        "feedback": feedback,
        "rationale": wording.cut(evaluation.reason, _MAX_TEXT_LENGTH),
        # MLflow takes text only.
        "metadata": {name: x if isinstance(x, str) else dumps(x) for name, x in facts.items()},
    }
