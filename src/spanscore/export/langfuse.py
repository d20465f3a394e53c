"""Scores as Langfuse's own, which it shows on traces, observations and sessions and adds up in its dashboards."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from spanscore.errors import PermanentError
from spanscore.export import wording
from spanscore.export.config import LangfuseConfig
from spanscore.export.json_api import JsonApi
from spanscore.export.port import UndeliveredError
from spanscore.export.sink import provenance
from spanscore.model.score import Evaluation, Score

_PATH = "/api/public/ingestion"
_MAX_TEXT_LENGTH = 8192


class LangfuseSink:
    """A `Sink` for one Langfuse project. Langfuse takes scores of what it has not got yet, so none waits.

    A failure has no value, so it is not filed.
    """

    def __init__(self, config: LangfuseConfig) -> None:
        """Raises ConfigError where a file of the TLS settings cannot be used."""
        pair = f"{config.public_key}:{config.secret_key.get_secret_value()}"
        self._api = JsonApi(config, {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"})

    async def file(self, evaluations: Sequence[Evaluation]) -> Sequence[Evaluation]:
        """See `Sink.file`."""
        batch = [_event(x) for x in evaluations if isinstance(x.outcome, Score)]
        if batch:
            _, answer = await self._api.ask("POST", _PATH, {"batch": batch})
            _raise_refused(answer, len(batch))
        return ()

    async def close(self) -> None:
        """See `Sink.close`."""
        await self._api.close()


def _raise_refused(answer: Any, count: int) -> None:
    """Langfuse answers 207 for any batch, with an error for each event that it did not take."""
    errors = answer.get("errors") if isinstance(answer, Mapping) else None
    if not errors:
        return
    told = f"{len(errors)} of {count} scores not taken: {errors[0].get('message') or errors[0].get('status')}"
    if any(isinstance(x.get("status"), int) and x["status"] < 500 and x["status"] != 429 for x in errors):
        raise PermanentError(told)
    raise UndeliveredError(told, maybe_delivered=True)


def _event(evaluation: Evaluation) -> dict[str, Any]:
    """A `score-create` event; the score's id is the same for every revision, so that a later one replaces it."""
    seed = f"{evaluation.scope}\n{evaluation.subject_id}\n{evaluation.target.span_id}\n{evaluation.metric}"
    of_session = evaluation.scope == "session"
    body = {
        "id": hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:32],
        "traceId": None if of_session else evaluation.target.trace_id,
        "observationId": None if of_session else evaluation.target.span_id,
        "sessionId": evaluation.session_id if of_session else None,
        "name": evaluation.metric,
        "value": evaluation.value,
        "dataType": "NUMERIC",
        "comment": wording.cut(_comment(evaluation), _MAX_TEXT_LENGTH),
        "metadata": provenance(evaluation),
    }
    at = datetime.fromtimestamp(evaluation.evaluated_at_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    return {
        "id": evaluation.uid,
        "timestamp": at.replace("+00:00", "Z"),
        "type": "score-create",
        "body": {name: value for name, value in body.items() if value is not None},
    }


def _comment(evaluation: Evaluation) -> str:
    return f"{evaluation.label}: {evaluation.reason}" if evaluation.label else evaluation.reason
