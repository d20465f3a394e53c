"""Has each monitor look at its times, and its alerts delivered: two loops, of which neither waits for the other."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from spanscore.errors import PermanentError, RetryableError
from spanscore.export.alerting import Connection
from spanscore.export.alerting_config import Alerting, Alertmanager, Webhook
from spanscore.model.json import dumps
from spanscore.model.score import Evaluation
from spanscore.monitoring import alerts, watching
from spanscore.monitoring.config import Monitor
from spanscore.store.monitors import Advanced, MonitorStore, Notice, SettledSession, Wanted

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
_SECOND = 10**9
_FIRST_WAIT_NS = 5 * _SECOND
_ENDS_AFTER = 4
"""After so many resend intervals without an alert Alertmanager takes it for resolved; as Prometheus has it."""

_STATISTICS = ("metric", "scope", "of", "service", "agent", "floor", "reference", "alpha", "heaviest")
"""What a monitor's state follows from; where one is changed it begins anew."""


class Monitors:
    """The monitors of a running server. Belongs to one event loop; the store is asked in threads."""

    def __init__(
        self,
        monitors: Mapping[str, Monitor],
        alerting: Alerting,
        store: MonitorStore,
        *,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """`monitors` by name. Raises ConfigError where a file of a receiver's TLS settings cannot be used."""
        self._monitors = {name: x for name, x in monitors.items() if not x.paused}
        self._schedules = {name: x.schedule(name) for name, x in monitors.items()}
        self._receivers = alerting.receivers
        self._connections = {name: Connection(x) for name, x in alerting.receivers.items()}
        self._store = store
        self._clock_ns = clock_ns
        self._due_ns: dict[str, int] = {}

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """All that has to run, for ever."""
        if not self._monitors and not self._receivers:
            return []
        return [self._repeatedly(self.look), self._repeatedly(self.deliver)]

    async def close(self) -> None:
        """Close the connections to all receivers."""
        await asyncio.gather(*(x.close() for x in self._connections.values()))

    async def look(self) -> None:
        """Have each monitor look that is due. Raises RetryableError where the store cannot be used now."""
        for name, monitor in self._monitors.items():
            now_ns = self._clock_ns()
            if name not in self._due_ns:
                self._due_ns[name] = await self._first_due_ns(name, monitor, now_ns)
            if (due_ns := self._due_ns[name]) > now_ns:
                continue
            # What was missed while this process was busy or asleep is one look, that of the last time.
            due_ns = self._schedules[name].last_until(now_ns, due_ns - 1) or due_ns
            await asyncio.to_thread(self._look, name, monitor, due_ns, now_ns)
            self._due_ns[name] = self._schedules[name].next_after(now_ns)

    async def deliver(self) -> None:
        """Send the alerts that are due, once each. Raises RetryableError where the store cannot be used now."""
        due = await asyncio.to_thread(self._store.due, self._clock_ns())
        queues: dict[str, list[Notice]] = {}
        for notice in due:
            queues.setdefault(notice.receiver, []).append(notice)
        await asyncio.gather(*(self._deliver(x) for x in queues.values()))

    async def _deliver(self, notices: Sequence[Notice]) -> None:
        """Those of one receiver, one after the other."""
        for notice in notices:
            receiver = self._receivers.get(notice.receiver)
            if receiver is None or (notice.delivered and notice.is_superseded):
                if receiver is None:
                    _log.warning("%s: an alert of %s is dropped, the receiver is gone", notice.receiver, notice.monitor)
                await asyncio.to_thread(self._store.settle, notice, None)
                continue
            try:
                await self._send(receiver, notice)
            except (RetryableError, PermanentError) as error:
                wait_ns = min(_FIRST_WAIT_NS << min(notice.tries, 20), receiver.max_interval)
                _log.error(
                    "%s: the alert %s of monitor %s was not taken (%s); it is sent again in %.0f s",
                    notice.receiver, notice.record["id"], notice.monitor, error, wait_ns / _SECOND,
                )  # fmt: skip
                await asyncio.to_thread(self._store.put_off, notice, self._clock_ns() + wait_ns)
            else:
                await asyncio.to_thread(self._store.settle, notice, self._again_ns(receiver, notice))

    def _again_ns(self, receiver: Alertmanager | Webhook, notice: Notice) -> int | None:
        """When to send again what was taken: Alertmanager wants to hear of an alert as long as it lasts."""
        if isinstance(receiver, Webhook) or notice.status == "resolved" or notice.monitor not in self._schedules:
            return None
        return self._clock_ns() + receiver.resend_interval

    async def _send(self, receiver: Alertmanager | Webhook, notice: Notice) -> None:
        now_ns = self._clock_ns()
        connection = self._connections[notice.receiver]
        if isinstance(receiver, Alertmanager):
            lasts_ns = _ENDS_AFTER * receiver.resend_interval
            body = alerts.for_alertmanager(notice.record, now_ns, lasts_ns, receiver.generator_url)
            await connection.send(_bytes(body))
            return
        body_bytes = _bytes(notice.record)
        sent_at_s = now_ns // _SECOND
        headers = {"X-Spanscore-Timestamp": str(sent_at_s)}
        if receiver.secret is not None:
            signed = alerts.signature(receiver.secret.get_secret_value(), sent_at_s, body_bytes)
            headers["X-Spanscore-Signature"] = f"sha256={signed}"
        await connection.send(body_bytes, headers)

    async def _first_due_ns(self, name: str, monitor: Monitor, now_ns: int) -> int:
        """When to look first: now, where a look was missed while the server was down, else at the next time."""
        last_ns = await asyncio.to_thread(self._store.last_look_ns, name)
        if last_ns is not None and monitor.catch_up:
            missed_ns = self._schedules[name].last_until(now_ns, last_ns)
            if missed_ns is not None:
                return missed_ns
        return self._schedules[name].next_after(now_ns)

    def _look(self, name: str, monitor: Monitor, due_ns: int, now_ns: int) -> None:
        def advance(kept: dict[str, Any] | None, sessions: Sequence[SettledSession]) -> Advanced:
            return self._advanced(name, monitor, kept, sessions, now_ns)

        wanted = Wanted(monitor.metric, monitor.scope, lambda x: value_of(monitor, x))
        settled_ns = now_ns - monitor.settle_after
        self._store.look(name, due_ns, now_ns, wanted, settled_ns, digest(monitor), advance)

    def _advanced(
        self,
        name: str,
        monitor: Monitor,
        kept: dict[str, Any] | None,
        sessions: Sequence[SettledSession],
        now_ns: int,
    ) -> Advanced:
        state = watching.start(monitor) if kept is None else watching.State.from_json(kept["state"])
        began_ns = 0 if kept is None else kept["began_ns"]
        units = [unit_of(x) for x in sessions]
        state, changes = watching.advance(monitor, state, units)
        notices = []
        for change in changes:
            began_ns = now_ns if change.status == "firing" else began_ns
            told = alerts.record(name, monitor, change, began_ns, now_ns)
            _log.log(logging.WARNING if change.status == "firing" else logging.INFO, "%s", told["summary"])
            notices += [(receiver, change.status, told) for receiver in self._receivers]
        outcome = changes[-1].status if changes else state.phase if units else "unchanged"
        return Advanced({"state": state.to_json(), "began_ns": began_ns}, outcome, notices)

    async def _repeatedly(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await work()
            except (RetryableError, PermanentError) as error:
                _log.error("monitors: %s; they try again", error)
            await asyncio.sleep(_LOOK_EVERY_S)


def value_of(monitor: Monitor, evaluation: Evaluation) -> float | None:
    """What a monitor takes from a score, on the scale 0..1; None where it leaves it out.

    Left out are other services and agents, scores of evaluation runs, skips and failures, and for a pass rate what
    neither passes nor fails.
    """
    if evaluation.run is not None:
        return None
    for wanted, found in ((monitor.service, evaluation.service_name), (monitor.agent, evaluation.agent_name)):
        if wanted is not None and wanted != found:
            return None
    if monitor.of == "pass_rate":
        return None if evaluation.passed is None else float(evaluation.passed)
    if evaluation.value is None:
        return None
    low, high = evaluation.scale or (0.0, 1.0)
    return min(1.0, max(0.0, (evaluation.value - low) / (high - low)))


def unit_of(session: SettledSession) -> watching.Unit:
    """A session as one unit: the mean of its scores, each by the inverse of the chance with which it was drawn."""
    weights = [1 / max(x, 1e-9) for x in session.chances]
    total = sum(weights)
    mean = sum(value * weight for value, weight in zip(session.values, weights, strict=True)) / total
    return watching.Unit(min(1.0, max(0.0, mean)), total)


def digest(monitor: Monitor) -> str:
    """Of the settings that a monitor's state follows from."""
    facts = monitor.model_dump(mode="json", include=set(_STATISTICS))
    return hashlib.sha256(_bytes(facts)).hexdigest()


def _bytes(body: Any) -> bytes:
    found = dumps(body)
    return found.encode() if isinstance(found, str) else found
