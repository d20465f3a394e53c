"""What a monitor makes of scores: from the sessions that have settled to its next state, and the
alerts that follow.
"""

import hashlib
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from spanscore.model.json import dumps
from spanscore.model.score import Evaluation
from spanscore.monitoring import alerts, watching
from spanscore.monitoring.alerts import Origin
from spanscore.monitoring.config import Watch
from spanscore.store.monitor_scores import SettledSession
from spanscore.store.monitors import Advanced, Former

_log = logging.getLogger(__name__)

_STATISTICS = (
    "metric",
    "scope",
    "of",
    "service",
    "agent",
    "floor",
    "reference",
    "alpha",
    "heaviest",
)
"""What a monitor's state follows from; where one is changed it begins anew."""


def advanced(
    origin: Origin,
    watched: Watch,
    receivers: Iterable[str],
    former: Former | None,
    sessions: Sequence[SettledSession],
    now_ns: int,
) -> Advanced:
    """The state after these sessions too, with an alert for each of the `receivers` where one
    begins or ends.
    """
    known = former.state if former is not None else {}
    records = []
    if former is not None and former.is_same:
        state = watching.State.from_json(known["state"])
    else:
        state = watching.start(watched)
        records += _end_of(known, "its monitor was changed", now_ns)
    began_ns, number, alert = known.get("began_ns", 0), _count(known), known.get("alert")
    units = [unit_of(x) for x in sessions]
    state, changes = watching.advance(watched, state, units)
    for change in changes:
        if change.status == "firing":
            began_ns, number = now_ns, number + 1
        alert = alerts.record(
            origin, watched, change, number=number, began_ns=began_ns, now_ns=now_ns
        )
        _log.log(
            logging.WARNING if change.status == "firing" else logging.INFO, "%s", alert["summary"]
        )
        records.append(alert)
    outcome = changes[-1].status if changes else state.phase if units else "unchanged"
    record = {"state": state.to_json(), "began_ns": began_ns, "number": number, "alert": alert}
    return Advanced(record, outcome, _to_all(receivers, records))


def ended(known: dict[str, Any], receivers: Iterable[str], why: str, now_ns: int) -> Advanced:
    """What is still to be sent of a monitor that ends: the end of its alert, where one is
    firing.
    """
    return Advanced(known, "", _to_all(receivers, _end_of(known, why, now_ns)))


def value_of(watched: Watch, evaluation: Evaluation, run: str | None = None) -> float | None:
    """What a monitor takes from a score, on the scale 0..1; None where it leaves it out.

    Left out are other services and agents, scores of other evaluation runs than `run`, skips and
    failures, and for a pass rate what neither passes nor fails.
    """
    if evaluation.run != run:
        return None
    for wanted, found in (
        (watched.service, evaluation.service_name),
        (watched.agent, evaluation.agent_name),
    ):
        if wanted is not None and wanted != found:
            return None
    if watched.of == "pass_rate":
        return None if evaluation.passed is None else float(evaluation.passed)
    if evaluation.value is None:
        return None
    low, high = evaluation.scale or (0.0, 1.0)
    return min(1.0, max(0.0, (evaluation.value - low) / (high - low)))


def unit_of(session: SettledSession) -> watching.Unit:
    """A session as one unit: the mean of its scores, each by the inverse of the chance with which
    it was drawn.
    """
    weights = [1 / max(x, 1e-9) for x in session.chances]
    total = sum(weights)
    mean = (
        sum(value * weight for value, weight in zip(session.values, weights, strict=True)) / total
    )
    return watching.Unit(min(1.0, max(0.0, mean)), total)


def digest(watched: Watch, *, of_runs: bool) -> str:
    """Of the settings that a monitor's state follows from; `of_runs`: its scores are those of runs
    that it starts.
    """
    settings = watched.model_dump(mode="json", include=set(_STATISTICS))
    if of_runs:
        settings["of_runs"] = True
    return hashlib.sha256(dumps(settings).encode()).hexdigest()


def _count(known: dict[str, Any]) -> int:
    """How many alerts a monitor has raised, also before its settings were changed."""
    number: int = known["number"] if "number" in known else known.get("state", {}).get("alarms", 0)
    return number


def _end_of(known: dict[str, Any], why: str, now_ns: int) -> list[dict[str, Any]]:
    alert = known.get("alert")
    return (
        [] if alert is None or alert["status"] != "firing" else [alerts.ended(alert, why, now_ns)]
    )


def _to_all(
    receivers: Iterable[str], records: Sequence[dict[str, Any]]
) -> list[tuple[str, str, dict[str, Any]]]:
    return [(receiver, record["status"], record) for record in records for receiver in receivers]
