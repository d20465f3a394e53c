"""Scores to one OTLP backend: those of a batch, and those that it did not take before and is asked
to take again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from spanscore.export.batches import Part, Request, parts
from spanscore.export.config import Config, Emit
from spanscore.export.delivery import Delivery, Loss
from spanscore.model.score import Evaluation
from spanscore.model.undelivered import Undelivered
from spanscore.otlp.signal import SIGNALS, Signal


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
