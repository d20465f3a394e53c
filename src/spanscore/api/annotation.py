"""AnnotationService: labels wanted, and judges' agreement with labels."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from google.protobuf.empty_pb2 import Empty

from spanscore import calibration
from spanscore.api import messages, requests
from spanscore.api.backend import Backend
from spanscore.api.convert import SCOPES
from spanscore.api.requests import name_of
from spanscore.api.servicer import Call, Servicer, needs
from spanscore.api.v1 import annotation_service_pb2 as pb
from spanscore.calibration import Label, Matched, Measure, Verdict
from spanscore.errors import FieldError, NotFoundError, StateError
from spanscore.model.score import Evaluation
from spanscore.store.annotation import Item, Queue, Strategy
from spanscore.store.calibrations import Labelled
from spanscore.store.stored_rows import subject_of
from spanscore.threads import in_thread

_STORED: Final = Path("the stored labels")
_OF_ALL_SCORES: Final = ("pass rate", "mean grade")
"""How measures begin that rest on what nobody has labelled too, which is not read here."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Labels beside a metric's scores, by judge: those of the random order, and all."""

    at_random: Sequence[Matched]
    all: Sequence[Matched]
    given_ns: dict[str, int]
    without_verdict: int
    of_nothing_scored: int


def compared(found: Labelled, metric: str, pass_from: float | None) -> Compared:
    """The labels beside the scores.

    Raises InputError where they cannot be held against each other.
    """
    given = [
        (x, calibration.label_of(x, metric, n, pass_from)) for n, x in enumerate(found.labels, 1)
    ]
    verdicts = [x for score in found.scores for x in _verdict(score)]
    scored = {(name, x.is_session) for x in verdicts for name in x.names}
    seen = [(subject_of(x), x.scope == "session", metric) for x in found.scores]
    known = scored | {(name, is_session) for name, is_session, _ in seen}
    labels = [
        (x, y) for x, y in given if y is not None and (subject_of(x), x.scope == "session") in known
    ]
    kept = [replace(y, subject=subject_of(x)) for x, y in labels]
    given_ns: dict[str, int] = {}
    for score, _ in labels:
        given_ns[subject_of(score)] = max(given_ns.get(subject_of(score), 0), score.evaluated_at_ns)
    verdictless = sum(y is None for _, y in given)
    at_random = [x for x in kept if x.subject in found.at_random]
    return Compared(
        _matched(at_random, verdicts, seen),
        _matched(kept, verdicts, seen),
        given_ns,
        verdictless,
        len(given) - verdictless - len(kept),
    )


def encode(found: Compared, level: float) -> pb.Agreement:
    """The message of it."""
    at_random = {x.judge: x for x in found.at_random}
    judges = [
        _judge(x, at_random.get(x.judge), found, level) for x in found.all if x.pairs or x.tied
    ]
    return messages.encode(pb.Agreement, found, judges=judges)


def level_of(request: pb.GetAgreementRequest) -> float:
    """The level of the intervals. Raises FieldError."""
    if not request.HasField("level"):
        return 0.95
    if not 0 < request.level < 1:
        raise FieldError("level", f"{request.level:g}: give a share between 0 and 1, such as 0.95")
    return request.level


def _verdict(score: Evaluation) -> Iterator[Verdict]:
    verdict = Verdict.of(score)
    if verdict is not None:
        yield replace(verdict, session_id=subject_of(score)) if verdict.is_session else verdict


def _matched(
    labels: Sequence[Label], verdicts: Sequence[Verdict], seen: Sequence[tuple[str, bool, str]]
) -> list[Matched]:
    return calibration.match(_STORED, labels, verdicts, seen) if labels else []


def _judge(
    matched: Matched, at_random: Matched | None, found: Compared, level: float
) -> pb.JudgeAgreement:
    points: Sequence[calibration.Point] = ()
    if at_random is not None and at_random.pairs:
        points = calibration.growth(at_random, found.given_ns, level)
    return messages.encode(
        pb.JudgeAgreement,
        None,
        **dict(zip(_JUDGE, matched.judge, strict=True)),
        at_random=None if at_random is None else _table(at_random, level),
        all=_table(matched, level),
        history=points,
    )


_JUDGE = ("metric", "evaluator", "version", "model", "prompt_hash", "embedding", "threshold")
_CELLS = ("true_pass", "false_fail", "false_pass", "true_fail")


def _table(matched: Matched, level: float) -> pb.AgreementTable:
    if not matched.pairs:
        return pb.AgreementTable(tied=matched.tied)
    counts = calibration.counted_pairs(matched)
    alone = replace(matched, others=())
    measured = [
        x for x in calibration.measures(alone, level) if not x.name.startswith(_OF_ALL_SCORES)
    ]
    return pb.AgreementTable(
        **{cell: int(getattr(counts, cell)) for cell in _CELLS},
        tied=matched.tied,
        measures=map(_measure, measured),
    )


@messages.encoder(Measure)
def _measure(measure: Measure) -> pb.AgreementMeasure:
    message = messages.encode(pb.AgreementMeasure, measure)
    if measure.estimate is not None:
        messages.fill(message, measure.estimate)
        messages.fill(message, measure.estimate.interval)
    return message


_MAX_NAME_CHARS: Final = 256
_MAX_LEASED: Final = 100
_MAX_LEASE_S: Final = 86_400
_USUAL_LEASE_S: Final = 600
_MAX_AGAINST: Final = 20
_MAX_LABELS_WANTED: Final = 100
_LEVEL: Final = 0.95
_STRATEGIES: Final[Mapping[int, Strategy]] = {
    pb.ANNOTATION_STRATEGY_UNSPECIFIED: "random",
    **messages.words_by_number(pb.AnnotationStrategy.DESCRIPTOR),
}


class AnnotationService(Servicer):
    """See annotation_service.proto."""

    service = pb.DESCRIPTOR.services_by_name["AnnotationService"]

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @needs("read")
    async def list_annotation_items(
        self, request: pb.ListAnnotationItemsRequest, call: Call
    ) -> pb.ListAnnotationItemsResponse:
        """A page of what is to be labelled."""
        queue, limit = _queue(request.queue, call), requests.limit(request.page_size)
        place = requests.place(request, call, 2)
        after = None if place is None else (place[0], place[1])
        found = await in_thread(self._backend.annotation.page, queue, limit, after)
        shown = requests.fitting(map(_encoded, found.items), limit)
        following = (
            found.items[len(shown) - 1].place if len(shown) < len(found.items) else found.next
        )
        token = "" if following is None else requests.token(request, call, following)
        return pb.ListAnnotationItemsResponse(items=shown, next_page_token=token)

    @needs("write")
    async def lease_annotation_items(
        self, request: pb.LeaseAnnotationItemsRequest, call: Call
    ) -> pb.LeaseAnnotationItemsResponse:
        """Take the next items."""
        queue = _queue(request.queue, call)
        count = _number("max_items", request.max_items, 1, _MAX_LEASED)
        lease_s = _number("lease_s", request.lease_s, _USUAL_LEASE_S, _MAX_LEASE_S)
        found = await in_thread(self._backend.annotation.lease, queue, count, lease_s * 10**9)
        return pb.LeaseAnnotationItemsResponse(items=map(_encoded, found))

    @needs("write")
    async def release_annotation_item(
        self, request: pb.ReleaseAnnotationItemRequest, call: Call
    ) -> Empty:
        """Give an item back."""
        queue = _queue(request.queue, call)
        if not request.subject_id:
            raise FieldError("subject_id", "is empty: give that of the item")
        scope = SCOPES.get(request.scope, "trace")
        release = self._backend.annotation.release
        if not await in_thread(release, queue, scope, request.subject_id, skip=request.skip):
            raise NotFoundError(f"{request.subject_id[:80]!r} is not leased to {queue.author!r}")
        return Empty()

    @needs("read")
    async def get_agreement(self, request: pb.GetAgreementRequest, call: Call) -> pb.Agreement:
        """How far a judge agrees with people."""
        level = level_of(request)
        found = await in_thread(self._compared, request, call)
        return await in_thread(encode, found, level)

    @needs("write")
    async def calibrate_judge(
        self, request: pb.CalibrateJudgeRequest, call: Call
    ) -> pb.CalibrateJudgeResponse:
        """Keep a judge's error."""
        found = await in_thread(self._compared, request, call)
        used = [x for x in (found.all if request.all_labels else found.at_random) if x.pairs]
        if not used:
            which = "label" if request.all_labels else "label of the random order"
            raise StateError(f"no {which} is stored of what {request.metric!r} passes or fails")
        now_ns = time.time_ns()
        required, labels = self._backend.required_of_judges, self._backend.labels
        known = await in_thread(labels.calibrations, call.tenant)
        made = calibration.calibrations(used, now_ns, required, known)
        await in_thread(labels.keep, call.tenant, made, now_ns)
        kept = replace(found, all=used, at_random=() if request.all_labels else used)
        shown = await in_thread(encode, kept, _LEVEL)
        return pb.CalibrateJudgeResponse(judges=shown.judges)

    def _compared(
        self, request: pb.GetAgreementRequest | pb.CalibrateJudgeRequest, call: Call
    ) -> Compared:
        """Runs in a thread. Raises FieldError, InputError."""
        metric = _name(
            "metric", request.metric, "name the metric whose scores are held against labels"
        )
        label = _name("label", request.label or metric, "")
        pass_from = request.pass_from if request.HasField("pass_from") else None
        if pass_from is not None and not math.isfinite(pass_from):
            raise FieldError("pass_from", "is no finite number")
        return compared(self._backend.labels.read(call.tenant, metric, label), metric, pass_from)


def _queue(queue: pb.AnnotationQueue, call: Call) -> Queue:
    """The queue that a request asks for. Raises FieldError."""
    if queue.strategy not in _STRATEGIES:
        raise FieldError("queue.strategy", f"{queue.strategy} is none that this server knows")
    if len(queue.against) > _MAX_AGAINST:
        raise FieldError(
            "queue.against", f"has {len(queue.against)} names: give {_MAX_AGAINST} at most"
        )
    if queue.HasField("threshold") and not math.isfinite(queue.threshold):
        raise FieldError("queue.threshold", "is no finite number")
    metric = _name("queue.metric", queue.metric, "name the metric whose scores people are to label")
    return messages.decode(
        Queue,
        queue,
        tenant=call.tenant,
        metric=metric,
        label=_name("queue.label", queue.label or metric, ""),
        author=_name("queue.author", queue.author, "say who labels, such as a user's name"),
        strategy=_STRATEGIES[queue.strategy],
        against=tuple(_name("queue.against", x, "leave it out") for x in queue.against),
        labels_wanted=_number("queue.labels_wanted", queue.labels_wanted, 1, _MAX_LABELS_WANTED),
    )


def _name(field: str, text: str, if_empty: str) -> str:
    if not text.strip():
        raise FieldError(field, f"is empty: {if_empty}")
    if len(text) > _MAX_NAME_CHARS or "\0" in text:
        raise FieldError(
            field, f"is no name: give {_MAX_NAME_CHARS} characters at most, without NUL"
        )
    return text.strip()


def _number(field: str, given: int, usual: int, highest: int) -> int:
    if not 0 <= given <= highest:
        raise FieldError(
            field, f"{given}: give a number from 1 to {highest:,}, or leave it out for {usual}"
        )
    return given or usual


def _encoded(item: Item) -> pb.AnnotationItem:
    subject = subject_of(item.score)
    return messages.encode(
        pb.AnnotationItem,
        item,
        scope=item.score.scope,
        subject_id=subject,
        subject=name_of(f"{item.score.scope}s", subject),
        leased_until_ns=item.until_ns,
    )
