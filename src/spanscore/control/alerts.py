"""Delivery of alerts to their receivers."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from spanscore import monitoring
from spanscore.errors import PermanentError, RetryableError
from spanscore.export.config import Alerting, Alertmanager, AlertReceiver, OtelEvent, Webhook
from spanscore.export.events import alert_request
from spanscore.export.port import Exporter
from spanscore.model.json import dumps
from spanscore.model.span import Attributes, of_tenant
from spanscore.store.monitors import AlertNotices, Notice
from spanscore.telemetry import Meter, declared

if TYPE_CHECKING:
    from spanscore.export.http import Connection

_log = logging.getLogger(__name__)

_SECOND = 10**9
_FIRST_WAIT_NS = 5 * _SECOND
_ENDS_AFTER = 4
"""After so many resend intervals without an alert Alertmanager takes it for resolved; as Prometheus
has it.
"""


@dataclass(frozen=True, slots=True)
class Events:
    """How alerts leave as OpenTelemetry events: the exporters by name, and the attributes of
    spanscore's resource.
    """

    exporters: Mapping[str, Exporter]
    resource: Attributes

    async def send(self, receiver: OtelEvent, alert: Mapping[str, Any]) -> None:
        """Send an alert's record. Raises RetryableError or PermanentError where it is not taken."""
        body = alert_request(alert, self.resource)
        headers = of_tenant(alert["tenant"] or "")
        not_taken = await self.exporters[receiver.exporter].send("logs", body, headers)
        if not_taken is not None:
            raise PermanentError(not_taken)


@dataclass(eq=False)
class Alerts:
    """The alerts of all monitors. Belongs to one event loop; the store is asked in threads.

    Raises ConfigError where a file of a receiver's TLS settings cannot be used.
    """

    alerting: Alerting
    notices: AlertNotices
    is_there: Callable[[str, str], bool]
    """Whether a tenant still has a monitor."""
    meter: Meter
    clock_ns: Callable[[], int]
    events: Events

    def __post_init__(self) -> None:
        self._receivers: Mapping[str, AlertReceiver] = self.alerting.receivers
        self._connections = _connections(self._receivers)

    async def close(self) -> None:
        """Close the connections to all receivers."""
        await asyncio.gather(*(x.close() for x in self._connections.values()))

    async def deliver(self) -> None:
        """Send the alerts that are due, once each.

        Raises RetryableError where the store cannot be used now.
        """
        await asyncio.gather(*(x() for x in self.deliveries()), self.drop_undeliverable())

    def deliveries(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """What `deliver` does, by receiver: repeated side by side, one that hangs holds up no
        other.
        """
        return [partial(self._deliver_to, name) for name in self._receivers]

    async def drop_undeliverable(self) -> None:
        """Forget the alerts whose receiver is gone."""
        for notice in await asyncio.to_thread(self.notices.due, self.clock_ns()):
            if notice.receiver not in self._receivers:
                _log.warning(
                    "%s: an alert of %s is dropped, the receiver is gone",
                    notice.receiver,
                    notice.monitor,
                )
                await asyncio.to_thread(self.notices.settle, notice, None)

    async def _deliver_to(self, name: str) -> None:
        """Send the alerts that are due to one receiver, one after the other."""
        receiver = self._receivers[name]
        due = await asyncio.to_thread(self.notices.due, self.clock_ns())
        for notice in (x for x in due if x.receiver == name):
            if notice.delivered and notice.is_superseded:
                await asyncio.to_thread(self.notices.settle, notice, None)
                continue
            try:
                await self._send(receiver, notice)
            except (RetryableError, PermanentError) as error:
                wait_ns = min(_FIRST_WAIT_NS << min(notice.tries, 20), receiver.max_interval)
                _log.error(
                    "%s: the alert %s of monitor %s was not taken (%s); it is sent again in %.0f s",
                    notice.receiver,
                    notice.record["id"],
                    notice.monitor,
                    error,
                    wait_ns / _SECOND,
                )
                self._count(notice, "failed")
                await asyncio.to_thread(self.notices.put_off, notice, self.clock_ns() + wait_ns)
            else:
                self._count(notice, "sent")
                await asyncio.to_thread(
                    self.notices.settle, notice, self._again_ns(receiver, notice)
                )

    def _again_ns(self, receiver: AlertReceiver, notice: Notice) -> int | None:
        """When to send again what was taken: Alertmanager wants to hear of an alert as long as it
        lasts.
        """
        if not isinstance(receiver, Alertmanager) or notice.status == "resolved":
            return None
        if not self.is_there(notice.tenant, notice.monitor):
            return None
        return self.clock_ns() + receiver.resend_interval

    async def _send(self, receiver: AlertReceiver, notice: Notice) -> None:
        now_ns = self.clock_ns()
        match receiver:
            case OtelEvent():
                await self.events.send(receiver, notice.record)
            case Alertmanager():
                lasts_ns = _ENDS_AFTER * receiver.resend_interval
                body = monitoring.for_alertmanager(
                    notice.record, now_ns, lasts_ns, receiver.generator_url
                )
                await self._connections[notice.receiver].send(_bytes(body))
            case Webhook():
                body_bytes, sent_at_s = _bytes(notice.record), now_ns // _SECOND
                headers = _signed(receiver, sent_at_s, body_bytes)
                await self._connections[notice.receiver].send(body_bytes, headers)

    def _count(self, notice: Notice, outcome: str) -> None:
        self.meter.add(
            declared.MONITOR_ALERTS, receiver=notice.receiver, status=notice.status, outcome=outcome
        )


def _connections(receivers: Mapping[str, AlertReceiver]) -> dict[str, "Connection"]:
    """One to each receiver but those of events, which exporters send."""
    posted = {name: x for name, x in receivers.items() if not isinstance(x, OtelEvent)}
    if not posted:
        return {}
    from spanscore.export.http import Connection  # noqa: PLC0415 - aiohttp, which other servers need not load

    return {name: Connection(x) for name, x in posted.items()}


def _signed(receiver: Webhook, sent_at_s: int, body: bytes) -> dict[str, str]:
    """The headers by which a webhook knows who has sent it a body, and when."""
    headers = {"X-Spanscore-Timestamp": str(sent_at_s)}
    if receiver.secret is not None:
        signed = monitoring.alert_signature(receiver.secret.get_secret_value(), sent_at_s, body)
        headers["X-Spanscore-Signature"] = f"sha256={signed}"
    return headers


def _bytes(body: Any) -> bytes:
    return dumps(body).encode()
