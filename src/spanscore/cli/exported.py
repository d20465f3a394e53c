"""Scores in files: the JSON lines of `spanscore eval`, runs of a suite, and what a server has
exported by OTLP.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spanscore.cli import compared_files, recorded
from spanscore.errors import InputError
from spanscore.model.score import (
    Annotation,
    Evaluation,
    Evaluator,
    Failure,
    JudgeUsage,
    Outcome,
    Score,
    Skip,
)
from spanscore.model.trace import Target
from spanscore.received_scores import read_own

PATH_HELP = (
    "files of scores: OTLP that a server exported, JSON lines of `spanscore eval`, a run of"
    " `spanscore test`; without any, a store or server is read"
)
_ADDED = ("threshold", "success")
"""What the JSON form of a score adds to its metadata."""


def scores(paths: Sequence[Path]) -> Iterator[Evaluation]:
    """The scores in these files, the newest first. Raises InputError where a file has none."""
    found = [score for path in paths for score in _of_file(path)]
    return iter(sorted(found, key=lambda x: x.evaluated_at_ns, reverse=True))


def _of_file(path: Path) -> list[Evaluation]:
    return listed(path) if compared_files.is_readable(path) else _of_telemetry(path)


def listed(path: Path) -> list[Evaluation]:
    """The scores in a file of JSON lines, or in a run of a suite.

    Raises InputError where it contains others than spanscore writes.
    """
    try:
        return [_evaluation(x) for x in compared_files.scores(path)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: contains no scores as spanscore writes them ({error})") from None


def _of_telemetry(path: Path) -> list[Evaluation]:
    telemetry = recorded.loaded([path])
    found = read_own(telemetry.spans, telemetry.logs)
    if not found:
        raise InputError(
            f"{path}: contains no scores: give what `spanscore eval --jsonl` or an exporter of a"
            " server wrote"
        )
    return found


def _evaluation(score: Mapping[str, Any]) -> Evaluation:
    latency_s, by, usage = score.get("latency_s"), score["evaluator"], score.get("usage") or {}
    scale = score.get("scale")
    trace_id = str(score.get("trace_id") or "")
    session_key = score.get("session_key") or score.get("session_id")
    return Evaluation(
        scope=score["scope"],
        subject_id=str(
            score.get("subject_id") or (session_key if score["scope"] == "session" else trace_id)
        ),
        metric=str(score["metric"]),
        outcome=_outcome(score, by),
        threshold=score.get("threshold"),
        scale=None if scale is None else (float(scale[0]), float(scale[1])),
        evaluator=Evaluator(**{name: by.get(name) for name in Evaluator.__dataclass_fields__}),
        target=Target(
            trace_id, str(score.get("span_id") or ""), 0, round((latency_s or 0) * 1e9), {}
        ),
        session_id=score.get("session_id"),
        agent_name=score.get("agent_name"),
        service_name=score.get("service_name"),
        usage=JudgeUsage(
            **{name: x for name, x in usage.items() if name in JudgeUsage.__dataclass_fields__}
        ),
        revision=int(score.get("revision") or 1),
        evaluated_at_ns=int(score.get("evaluated_at_ns") or 0),
        sampling=float(score.get("sampling") or 1.0),
        rule=score.get("rule"),
        session_key=session_key,
        received_uid=score.get("uid"),
    )


def _outcome(score: Mapping[str, Any], by: Mapping[str, Any]) -> Outcome | Annotation:
    reason, label = str(score.get("reason") or ""), score.get("label")
    if score["status"] == "failed":
        error = score.get("error") or {}
        return Failure(str(error.get("type")), str(error.get("message") or reason))
    if score["status"] == "skipped":
        return Skip(reason, score.get("skip_cause") or "other")
    metadata = {name: x for name, x in (score.get("metadata") or {}).items() if name not in _ADDED}
    if by.get("source") is not None:
        passed = (score.get("metadata") or {}).get("success")
        return Annotation(
            score.get("value"),
            label,
            reason,
            metadata,
            passed if isinstance(passed, bool) else None,
        )
    is_of_threshold = score.get("threshold") is not None and label in {"pass", "fail"}
    return Score(float(score["value"]), reason, metadata, None if is_of_threshold else label)
