"""What a request's fields can have, beyond their types: what the server refuses else.

Only what holds for a field by itself, wherever its message stands: messages such as Run are sent
and answered alike. What the specs of runs and monitors say is added by `resources.py`.
"""

from typing import Any, Final


def positives(highest: int) -> str:
    """What integers from 1 to `highest` are as texts.

    >>> positives(325)
    '[1-9][0-9]{0,1}|[1-2][0-9]{2}|3[0-1][0-9]{1}|32[0-4]|325'
    """
    digits = str(highest)
    parts = [f"[1-9][0-9]{{0,{len(digits) - 2}}}"]
    for place, digit in enumerate(digits):
        lowest = 0 if place else 1
        if int(digit) > lowest:
            after = len(digits) - place - 1
            rest = f"[0-9]{{{after}}}" if after else ""
            parts.append(f"{digits[:place]}[{lowest}-{int(digit) - 1}]{rest}")
    return "|".join([*parts, digits])


_ID: Final = "[^/]+"
_HEX_32: Final = "[0-9a-fA-F]{32}"
_NOT_BLANK: Final = r"^[^\u0000]*[^\s\u0000][^\u0000]*$"


def _filter(of: str) -> dict[str, Any]:
    return {"format": f"filter-of-{of}", "maxLength": 4096}


def _text(pattern: str, **more: Any) -> dict[str, Any]:
    return {"pattern": f"^{pattern}$", **more}


_REQUEST_ID: Final = {"maxLength": 64}
_LEVEL: Final = {"minimum": 0.5, "maximum": 0.9999}
_METRIC: Final = {"pattern": _NOT_BLANK, "maxLength": 256}
_METRICS: Final = {"items": {"format": "metric"}}
_MODEL: Final = {"format": "model", "minLength": 1}
_WEIGHTS: Final = {"propertyNames": {"format": "signal"}, "additionalProperties": {"minimum": 0}}
_GROUPS: Final = {
    "enum": [
        *("service", "agent", "environment", "version", "model", "tool"),
        *("evaluator", "evaluator_version", "evaluator_kind", "judge_model", "rule"),
    ]
}
_MASK: Final = {"format": "field-mask"}
_PAGE: Final = {"pageSize": {"minimum": 0}, "pageToken": {"format": "page-token", "maxLength": 256}}

FIELDS: Final[dict[str, dict[str, dict[str, Any]]]] = {}
"""By message, and by field in JSON, what is added to the field's schema."""

REQUIRED: Final[dict[str, list[str]]] = {}
"""By message the fields that must be there."""

ALONE: Final[dict[str, list[str]]] = {"RunSampling": ["share", "count"]}
"""By message the fields of which at most one may be there, beside those of a `oneof`."""

ONE_OF: Final[dict[str, list[str]]] = {}
"""By message the fields of which exactly one must be there."""


def _resources(collection: str, pattern: str, *messages: str, field: str = "name") -> None:
    for message in messages:
        FIELDS.setdefault(message, {})[field] = _text(f"{collection}/{pattern}")
        REQUIRED.setdefault(message, []).append(field)


def _fields(message: str, **fields: dict[str, Any]) -> None:
    FIELDS.setdefault(message, {}).update(fields)


_resources(
    "runs",
    _ID,
    *(f"{x}RunRequest" for x in ("Get", "Pause", "Resume", "Cancel", "Retry", "Delete", "Watch")),
)
_resources("runs", _ID, "ListRunItemsRequest", field="parent")
_resources(
    "monitors",
    _ID,
    *(f"{x}MonitorRequest" for x in ("Get", "Delete", "Pause", "Resume", "Trigger")),
)
_resources("monitors", _ID, "ListMonitorTicksRequest", field="parent")
_resources("scores", _ID, "GetScoreRequest", "DeleteScoreRequest")
_resources("sessions", _ID, "GetSessionRequest", "EvaluateSessionRequest", "GetSessionViewRequest")
_resources("traces", _HEX_32, "EvaluateTraceRequest", "GetTraceViewRequest")

for _message in (
    "RankSessionsRequest",
    "ListAnnotationItemsRequest",
    "ListScoresRequest",
    "ListTracesRequest",
    "ListSessionsRequest",
    "ListRunsRequest",
    "ListRunItemsRequest",
    "ListMonitorsRequest",
    "ListMonitorTicksRequest",
):
    _fields(_message, **_PAGE)
for _message in (
    "CreateScoreRequest",
    "BatchCreateScoresRequest",
    "EvaluateTraceRequest",
    "EvaluateSessionRequest",
    "CreateRunRequest",
    "CreateMonitorRequest",
    "TriggerMonitorRequest",
):
    _fields(_message, requestId=_REQUEST_ID)
for _message in ("SummarizeScoresRequest", "QueryScoreTrendRequest", "CompareScoresRequest"):
    _fields(_message, groupBy={"items": _GROUPS, "uniqueItems": True}, level=_LEVEL)
for _message in ("GetAgreementRequest", "CalibrateJudgeRequest"):
    _fields(_message, metric=_METRIC, label={"maxLength": 256, "format": "label"})
    REQUIRED[_message] = ["metric"]
_fields("GetAgreementRequest", level={"exclusiveMinimum": 0, "exclusiveMaximum": 1})
for _message in ("EvaluateTraceRequest", "EvaluateRequest", "RunMeasure"):
    _fields(_message, metrics=_METRICS, model=_MODEL)
_fields("EvaluateSessionRequest", metrics={"items": {"format": "session-metric"}}, model=_MODEL)
_fields("EvaluateRequest", traceId=_text(_HEX_32), sessionId={"minLength": 1})
ONE_OF["EvaluateRequest"] = ["traceId", "sessionId"]
for _message in ("EvaluateSessionRequest", "EvaluateRequest", "RunMeasure"):
    _fields(_message, signalWeights=_WEIGHTS)

_fields("ScoreSelection", filter=_filter("figures"), run=_text(f"(runs/{_ID})?"))
_fields("QueryScoreTrendRequest", timeZone={"format": "time-zone"})
_fields(
    "QueryScoreDistributionRequest",
    level=_LEVEL,
    bins={"maximum": 100},
    quantiles={"items": {"exclusiveMinimum": 0, "exclusiveMaximum": 1}, "maxItems": 20},
)
_fields("ListScoreHistoryRequest", metric={"minLength": 1}, traceId=_text(_HEX_32))
REQUIRED["ListScoreHistoryRequest"] = ["metric"]
ONE_OF["ListScoreHistoryRequest"] = ["traceId", "sessionId"]
_fields(
    "AnnotationQueue",
    metric=_METRIC,
    author={"pattern": _NOT_BLANK, "maxLength": 256},
    label={"format": "label", "maxLength": 256},
    against={"items": _METRIC, "maxItems": 20},
    labelsWanted={"minimum": 0, "maximum": 100},
)
REQUIRED["AnnotationQueue"] = ["metric", "author"]
REQUIRED["ListAnnotationItemsRequest"] = ["queue"]
_fields(
    "LeaseAnnotationItemsRequest",
    maxItems={"minimum": 0, "maximum": 100},
    leaseS={"minimum": 0, "maximum": 86_400},
)
REQUIRED["LeaseAnnotationItemsRequest"] = ["queue"]
_fields("ReleaseAnnotationItemRequest", subjectId={"minLength": 1})
REQUIRED["ReleaseAnnotationItemRequest"] = ["queue", "subjectId"]
_fields(
    "ListScoresRequest",
    filter=_filter("scores"),
    orderBy={"format": "order-of-scores"},
    run=_text(f"(runs/{_ID})?"),
    traceId=_text(_HEX_32),
    sessionId={"minLength": 1},
)
_fields(
    "ListTracesRequest",
    filter=_filter("traces"),
    orderBy=_text("((stored_ns|started_ns|latency|tokens|tool_errors)( asc| desc)?)?"),
)
_fields("ListSessionsRequest", filter=_filter("sessions"), orderBy={"format": "order-of-sessions"})
_fields(
    "ListRunsRequest",
    orderBy=_text("((created|updated)_ns( asc| desc)?)?"),
    states={"items": {"not": {"enum": ["RUN_STATE_UNSPECIFIED", 0]}}},
)
_fields("GetTraceRequest", traceId=_text(_HEX_32), name=_text(f"traces/{_HEX_32}"))
ONE_OF["GetTraceRequest"] = ["traceId", "name"]
_fields("GetSessionRequest", readMask=_MASK)
_fields("BatchCreateScoresRequest", requests={"minItems": 1, "maxItems": 1000})
REQUIRED["BatchCreateScoresRequest"] = ["requests"]
REQUIRED["CreateScoreRequest"] = ["score"]
REQUIRED["UpdateScoreRequest"] = ["score"]
_fields("ImportTracesRequest", traces={"maxItems": 1000})
_fields("AgentTrace", traceIds={"maxItems": 10_000})
REQUIRED["CreateMonitorRequest"] = ["monitor"]
REQUIRED["UpdateMonitorRequest"] = ["monitor"]
_fields("CreateMonitorRequest", monitorId=_text("([A-Za-z0-9][A-Za-z0-9_.-]{0,63})?"))
_fields("RunBudget", maxTokens={"pattern": f"^({positives(2**63 - 1)})$"})
_fields("RunTarget", where={"format": "filter-of-traces"}, source={"format": "source"})
_fields("GetTraceViewRequest", run=_text(f"(runs/{_ID})?"))
_fields("MonitorSchedule", cron={"format": "cron"}, timeZone={"format": "time-zone"})
