"""Batches of scores out of the outbox."""

import asyncio
import logging
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from spanscore.export import events, spans
from spanscore.export.config import Config, Emit
from spanscore.export.delivery import Delivery, Loss
from spanscore.model.score import Evaluation, Undelivered
from spanscore.model.span import Headers, headers_of, without_tenant
from spanscore.otlp.signal import SIGNALS, Signal
from spanscore.store.store import Store
from spanscore.threads import Turns

_log = logging.getLogger(__name__)

_SHARED = 4
"""Encoded batches that are kept for exporters a step behind; about a megabyte each."""

_SKIPS_BESIDE = 8
"""How many times more evaluations than scores a batch may have: without a judge most are skips,
which do not leave.
"""

_MAX_REQUEST_BYTES = 2 * 2**20
"""A longer request is halved: gRPC servers refuse what is above 4 MiB, unless they are told
otherwise.
"""


@dataclass(frozen=True, slots=True)
class Batch:
    """`count` scores up to `last_seq`, in parts that leave with different headers."""

    last_seq: int
    count: int
    parts: Sequence["Part"]


@dataclass(frozen=True, slots=True)
class Part:
    """Scores that leave with the same headers, and the requests that carry them."""

    headers: Headers
    evaluations: Sequence[Evaluation]
    requests: Sequence["Request"]


@dataclass(frozen=True, slots=True)
class Request:
    """A serialised request, and the sequence numbers of the scores in it."""

    signal: Signal
    body: bytes
    seqs: frozenset[int]


class Window:
    """The newest scores in memory, by sequence number; above `max_size` the first to come is the
    first to go.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        # and whether it leaves
        self._pairs: OrderedDict[int, tuple[Evaluation, bool]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pairs)

    def add(self, pairs: Iterable[tuple[int, Evaluation]]) -> None:
        """Keep these, in whatever order they come."""
        self._pairs.update((seq, (evaluation, _leaves(evaluation))) for seq, evaluation in pairs)
        while len(self._pairs) > self._max_size:
            self._pairs.popitem(last=False)

    def forget(self, up_to: int) -> None:
        """Let go of what all exporters are done with."""
        while self._pairs and next(iter(self._pairs)) <= up_to:
            self._pairs.popitem(last=False)

    def oldest_ns(self, after: int) -> int | None:
        """When the first score after a sequence number was made, as far as it is here; None where
        nothing is.
        """
        found = self._pairs.get(after + 1) or next(iter(self._pairs.values()), None)
        return None if found is None else found[0].evaluated_at_ns

    def after(self, seq: int, limit: int) -> list[tuple[int, Evaluation]]:
        """What follows `seq` without a gap, with at most `limit` scores that leave; empty where the
        next is not here.

        A gap is filled by the store: commits are handed over in whatever order their threads come
        back.
        """
        return self._following(seq, limit)[0]

    def has_full_batch(self, seq: int, limit: int) -> bool:
        """Whether as much follows `seq` as `after` gives at once."""
        found, leaving = self._following(seq, limit)
        return _is_full(leaving, len(found), limit)

    def _following(self, seq: int, limit: int) -> tuple[list[tuple[int, Evaluation]], int]:
        """What `after` gives, and how much of it leaves."""
        found: list[tuple[int, Evaluation]] = []
        leaving = 0
        while (
            not _is_full(leaving, len(found), limit)
            and (batch := self._pairs.get(seq + 1)) is not None
        ):
            seq += 1
            leaving += batch[1]
            found.append((seq, batch[0]))
        return found, leaving


def _is_full(leaving: int, evaluations: int, limit: int) -> bool:
    return leaving >= limit or evaluations >= limit * _SKIPS_BESIDE


def _leaves(evaluation: Evaluation) -> bool:
    """Whether an evaluation is in any request: of most skips there is neither a span, nor an event,
    nor a count.
    """
    return evaluation.is_shown or evaluation.tally is not None or evaluation.value is not None


class Batches:
    """Makes each batch once, whoever asks first."""

    def __init__(
        self, config: Config, outbox: Store, *, by_tenant: bool = False, turns: Turns | None = None
    ) -> None:
        self._turns = turns or Turns()
        self._by_tenant = by_tenant
        self.window = Window(config.max_waiting)
        self._config = config
        self._outbox = outbox
        self._made: OrderedDict[int, asyncio.Task[Batch]] = OrderedDict()

    async def after(self, seq: int, latest: int) -> Batch:
        """The batch that follows `seq`, where `latest` is the highest number there is.

        Raises RetryableError or PermanentError where the store cannot be read.
        """
        task = self._made.get(seq)
        if task is None or (task.done() and task.exception() is not None):
            pairs = self.window.after(seq, self._config.batch.max_size)
            task = self._made[seq] = asyncio.create_task(
                asyncio.to_thread(self._turns.run, self._make, pairs, seq, latest)
            )
            # also where nobody waits
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            if len(self._made) > _SHARED:
                self._made.popitem(last=False)
        return await asyncio.shield(task)  # one exporter that is stopped takes it from no other

    def _make(self, pairs: list[tuple[int, Evaluation]], seq: int, latest: int) -> Batch:
        pairs = pairs or self._outbox.outbox(seq, self._config.batch.max_size)
        return Batch(
            pairs[-1][0] if pairs else latest,
            len(pairs),
            parts(pairs, self._config, by_tenant=self._by_tenant),
        )


def parts(
    pairs: Iterable[tuple[int, Evaluation]], config: Config, *, by_tenant: bool = False
) -> list[Part]:
    """Scores, by their sequence numbers, as the requests that carry their spans and events.

    With `by_tenant` the tenant is one of a part's headers, so that no request has scores of two
    tenants.
    """
    by_headers: dict[Headers, list[tuple[int, Evaluation]]] = {}
    for seq, evaluation in pairs:
        if not _leaves(evaluation):
            continue
        headers = headers_of(evaluation.target.resource)
        headers = headers if by_tenant else without_tenant(headers)
        by_headers.setdefault(headers, []).append((seq, evaluation))
    return [
        Part(headers, [x for _, x in some], encoded(some, config))
        for headers, some in by_headers.items()
    ]


def encoded(pairs: Sequence[tuple[int, Evaluation]], config: Config) -> list[Request]:
    """The requests for the spans and events of scores, by sequence number, none longer than a
    backend takes.

    A score that cannot be encoded is logged and left out: it must not hold up all that come after
    it.
    """
    alone = len(pairs) == 1
    try:
        requests = _encoded(pairs, config)
    except (ValueError, TypeError) as error:
        if alone:
            target = pairs[0][1].target
            ids = {
                "trace_id": target.trace_id,
                "span_id": target.span_id,
                "tenant": pairs[0][1].tenant,
            }
            _log.error(
                "a score of %s cannot be exported", pairs[0][1].metric, exc_info=error, extra=ids
            )
            return []
    else:
        if alone or all(len(x.body) <= _MAX_REQUEST_BYTES for x in requests):
            return requests
    middle = len(pairs) // 2
    return encoded(pairs[:middle], config) + encoded(pairs[middle:], config)


def _encoded(pairs: Sequence[tuple[int, Evaluation]], config: Config) -> list[Request]:
    evaluations = [x for _, x in pairs]
    requests: list[Request] = []
    if config.emit.spans:
        body = spans.request(evaluations, config.placement, config.max_text_length, config.spans)
        requests.append(
            Request(
                "traces", body, frozenset(seq for seq, x in pairs if spans.has_any(x, config.spans))
            )
        )
    if config.emit.events:
        body = events.request(evaluations, config.max_text_length)
        requests.append(Request("logs", body, frozenset(seq for seq, x in pairs if x.is_shown)))
    return [x for x in requests if x.body]


async def send(
    delivery: Delivery,
    found: Iterable[Part],
    now_ns: int,
    *,
    signals: Collection[Signal] = SIGNALS,
    patient: bool = True,
) -> list[Undelivered]:
    """Deliver all requests of these parts with these signals.

    Gives the scores that did not arrive, with what of them did not.
    """
    lost: defaultdict[int, dict[str, Loss]] = defaultdict(dict)
    arrived: set[int] = set()
    for part in found:
        # Together, so that there is less time between the first answer and the note that all has
        # arrived.
        requests = [x for x in part.requests if x.signal in signals]
        losses = await asyncio.gather(
            *(_deliver(delivery, x, part, patient=patient) for x in requests)
        )
        for request, loss in zip(requests, losses, strict=True):
            for seq in request.seqs:
                if loss is None:
                    arrived.add(seq)
                else:
                    lost[seq][request.signal] = loss
    return [
        Undelivered(delivery.name, seq, tuple(counted), first.reason, first.error, now_ns)
        for seq, losses_of in sorted(lost.items())
        if (counted := _counted(losses_of, seq in arrived))
        and (first := next(iter(counted.values())))
    ]


async def send_again(
    delivery: Delivery,
    config: Config,
    rows: Sequence[tuple[Undelivered, Evaluation]],
    now_ns: int,
    signals: Collection[Signal] = SIGNALS,
    *,
    by_tenant: bool = False,
) -> list[Undelivered]:
    """Deliver of each score what did not arrive, of these signals; gives those that still do not,
    each found alone.

    With `by_tenant` no request has scores of two tenants.
    """
    still: list[Undelivered] = []
    for forms in dict.fromkeys(note.forms for note, _ in rows):
        of_forms = [(note.seq, x) for note, x in rows if note.forms == forms]
        wanted = set(forms).intersection(signals)
        emit = Emit(spans="traces" in wanted, events="logs" in wanted, metrics=False)
        divided = partial(
            parts, config=config.model_copy(update={"emit": emit}), by_tenant=by_tenant
        )
        still += await _send_halves(delivery, divided, of_forms, now_ns)
    return still


async def _send_halves(
    delivery: Delivery,
    divided: Callable[[Sequence[tuple[int, Evaluation]]], list[Part]],
    pairs: Sequence[tuple[int, Evaluation]],
    now_ns: int,
) -> list[Undelivered]:
    still = await send(delivery, divided(pairs), now_ns, patient=False)
    failed = {x.seq for x in still}
    again = [pair for pair in pairs if pair[0] in failed]
    if len(again) < 2:
        return still
    middle = len(again) // 2
    return [
        x
        for half in (again[:middle], again[middle:])
        for x in await _send_halves(delivery, divided, half, now_ns)
    ]


async def _deliver(
    delivery: Delivery, request: Request, part: Part, *, patient: bool
) -> Loss | None:
    return await delivery.deliver(request.signal, request.body, part.headers, patient=patient)


def _counted(losses: dict[str, Loss], has_arrived: bool) -> dict[str, Loss]:
    """What is missed of a score: a form that the backend does not know is, only where it knows
    none.
    """
    known = {signal: x for signal, x in losses.items() if x.reason != "unsupported"}
    return known or ({} if has_arrived else losses)
