"""What an alert says, as Alertmanager's API v2 and a webhook take it. Pure."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from spanscore.monitoring.config import Watch
from spanscore.monitoring.watching import Change

ALERT_NAME = "SpanscoreScoreDrop"


@dataclass(frozen=True, slots=True)
class Origin:
    """The monitor of an alert, and the evaluation run whose scores it rests on; None where these
    are live ones.
    """

    monitor: str
    tenant: str = ""
    run: str | None = None


def record(
    origin: Origin, watched: Watch, change: Change, *, number: int, began_ns: int, now_ns: int
) -> dict[str, Any]:
    """All that is known of an alert when it begins or ends, which is stored until it has left, and
    a webhook's body.

    It is the monitor's alert of this `number`, and began at `began_ns`. Means are on the scale
    0..1.
    """
    state = change.state
    return {
        "version": 1,
        "id": f"{origin.monitor}/{number}",
        "status": change.status,
        "monitor": origin.monitor,
        "tenant": origin.tenant or None,
        "metric": watched.metric,
        "scope": watched.scope,
        "of": watched.of,
        "service": watched.service,
        "agent": watched.agent,
        "run": origin.run,
        "labels": dict(watched.labels),
        "began_at": moment(began_ns),
        "changed_at": moment(now_ns),
        "floor": round(state.floor, 4),
        "mean": round(state.low_mean, 4),
        "sessions": state.low_units,
        "sessions_counted": state.counted,
        "alpha": watched.alpha,
        "summary": _summary(origin.monitor, watched, change),
    }


def ended(alert: Mapping[str, Any], why: str, now_ns: int) -> dict[str, Any]:
    """The record of an alert that ends for another reason than that the mean has come back."""
    return {
        **alert,
        "status": "resolved",
        "changed_at": moment(now_ns),
        "summary": f"{alert['monitor']}: the alert ends, {why}",
    }


def for_alertmanager(
    change: Mapping[str, Any], now_ns: int, lasts_ns: int, url: str | None
) -> list[dict[str, Any]]:
    """The body of POST /api/v2/alerts.

    One that fires ends by itself after `lasts_ns`, unless it is sent again.
    """
    own = {"alertname": ALERT_NAME, "monitor": change["monitor"], "metric": change["metric"]}
    given = {"service": change["service"], "agent": change["agent"], "tenant": change.get("tenant")}
    labels = {
        **change["labels"],
        **own,
        **{name: value for name, value in given.items() if value is not None},
    }
    ends = moment(now_ns + lasts_ns) if change["status"] == "firing" else change["changed_at"]
    description = (
        f"Evidence that the mean is below {change['floor']:g}: it was {change['mean']:g} over the"
        f" last {change['sessions']} sessions when the alert began. The chance that this monitor"
        f" ever raises a false alert is {change['alpha']:g}."
    )
    alert = {
        "labels": labels,
        "annotations": {"summary": change["summary"], "description": description},
        "startsAt": change["began_at"],
        "endsAt": ends,
    }
    return [alert if url is None else {**alert, "generatorURL": url}]


def signature(secret: str, sent_at_s: int, body: bytes) -> str:
    """The HMAC by SHA-256 of time, a full stop and body, in hex: who knows the secret can check
    that both are ours.

    >>> signature("s", 1700000000, b"{}")[:16]
    'e9232c9945da8456'
    """
    return hmac.new(secret.encode(), b"%d." % sent_at_s + body, hashlib.sha256).hexdigest()


def moment(time_ns: int) -> str:
    """A time as RFC 3339 has it.

    >>> moment(1_700_000_000_123_000_000)
    '2023-11-14T22:13:20.123Z'
    """
    return (
        datetime.fromtimestamp(time_ns / 1e9, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def _summary(name: str, watched: Watch, change: Change) -> str:
    what = (
        f"{name}: {'the pass rate' if watched.of == 'pass_rate' else 'the mean'} of"
        f" {watched.metric}"
    )
    if change.status == "resolved":
        return f"{what} has come back"
    state = change.state
    return (
        f"{what} fell to {state.low_mean:.2f}, below {state.floor:.2f}, in the last"
        f" {state.low_units} sessions"
    )
