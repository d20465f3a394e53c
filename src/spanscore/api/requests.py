"""What requests have in common: names of resources, ids, field masks, and how evaluation is
overridden.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote as percent_encoded
from urllib.parse import unquote

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from spanscore import metrics
from spanscore.api.v1.trace_service_pb2 import EvaluateSessionRequest, EvaluateTraceRequest
from spanscore.errors import FieldError, InputError, NotFoundError
from spanscore.evaluation.config import Overrides
from spanscore.evaluation.rubric import is_rubric
from spanscore.evaluation.rubric import scale_of as rubric_scale

MessageT = TypeVar("MessageT", bound=Message)

_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_SHOWN_CHARS = 80
_MAX_REQUEST_ID_CHARS = 64
_MAX_SOUGHT_CHARS = 4096


def not_found(name: str) -> NotFoundError:
    """The error for a trace or session that is not there."""
    why = "it may not be complete yet, be past its retention, or hold no GenAI spans"
    return NotFoundError(f"nothing is stored under {shown(name)}: {why}")


def shown(text: str) -> str:
    """`text` as it may stand in an error, which travels in a header of bounded size."""
    return repr(text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…")


def name_of(collection: str, id_: str) -> str:
    """The name of a resource.

    >>> name_of("sessions", "a/b c")
    'sessions/a%2Fb%20c'
    """
    return f"{collection}/{percent_encoded(id_, safe='', errors='replace')}"


def id_in(name: str, collection: str, field: str = "name") -> str:
    """The id in a resource's name, which `field` of a request contains. Raises FieldError.

    >>> id_in("sessions/a%2Fb%20c", "sessions")
    'a/b c'
    """
    start, _, id_ = name.partition("/")
    if start != collection or not id_ or "/" in id_:
        raise FieldError(
            field, f"{shown(name)} is no name: write {collection}/ID, with the ID percent-encoded"
        )
    return unquote(id_)


def request_id_in(given: str, field: str = "request_id") -> str | None:
    """The key under which a request that comes twice is done once; None where it has none.

    Raises FieldError.
    """
    if len(given) > _MAX_REQUEST_ID_CHARS:
        raise FieldError(field, f"is longer than {_MAX_REQUEST_ID_CHARS} characters")
    return given or None


def trace_id(text: str, field: str = "trace_id") -> str:
    """The id of an agent trace or of an OTel trace, in lower case. Raises FieldError."""
    found = text.strip().lower()
    if not _TRACE_ID.fullmatch(found):
        raise FieldError(
            field,
            f"{shown(text)} is no id: give the 32 hex digits of an agent trace or an OTel trace",
        )
    return found


def moment(given_ns: int, field: str) -> int:
    """A time in Unix nanoseconds that stored times can be compared with. Raises FieldError."""
    if given_ns >= 2**63:
        raise FieldError(
            field, f"{given_ns}: give nanoseconds since the Unix epoch, before the year 2262"
        )
    return given_ns


def sought(text: str, field: str) -> str:
    """A text that stored ones are compared with. Raises FieldError where it is longer than a
    database takes in a pattern.
    """
    if len(text) > _MAX_SOUGHT_CHARS:
        raise FieldError(
            field, f"has {len(text)} characters; at most {_MAX_SOUGHT_CHARS} are taken"
        )
    return text


def sought_name(text: str, field: str) -> str:
    """As `sought`, of what is never stored with a NUL character, which PostgreSQL takes in no
    text. Raises FieldError.
    """
    if "\x00" in text:
        raise FieldError(field, f"{shown(text)} contains a NUL character; there is no such name")
    return sought(text, field)


def masked(message: MessageT, mask: FieldMask) -> MessageT:
    """The fields of `message` that `mask` names; all of them without a mask, or with `*`.

    Raises FieldError.
    """
    if not mask.paths or list(mask.paths) == ["*"]:
        return message
    descriptor: Any = message.DESCRIPTOR
    wrong = next(
        (x for x in mask.paths if not FieldMask(paths=[x]).IsValidForDescriptor(descriptor)), None
    )
    if wrong is not None:
        raise FieldError("read_mask", f"{descriptor.name} has no field {shown(wrong)}")
    kept = type(message)()
    mask.MergeMessage(message, kept)
    return kept


def overrides(
    request: EvaluateTraceRequest | EvaluateSessionRequest,
    signal_weights: Mapping[str, float] | None = None,
) -> Overrides:
    """What the request changes. Raises InputError where it cannot be met."""
    threshold = request.threshold if request.HasField("threshold") else None
    weights = dict(signal_weights or {})
    for name, weight in weights.items():
        if not (math.isfinite(weight) and weight >= 0):
            raise FieldError(
                "signal_weights", f"the weight of {name} is {weight}; give a number of at least 0"
            )
    found = Overrides(
        metrics=tuple(request.metrics) or None,
        model=request.model or None,
        threshold=threshold,
        signal_weights=weights or None,
    )
    try:
        found.applied(())  # refuses metrics that there are not, before anything is done
    except InputError as error:
        raise FieldError("metrics", str(error)) from None
    if threshold is not None:
        _require_on_scale(threshold, found.metrics)
    return found


def _require_on_scale(threshold: float, names: Sequence[str] | None) -> None:
    """Raise FieldError where no score of one of these metrics (None: of any) can be what it is held
    against.
    """
    available = metrics.available()
    for name in sorted(available) if names is None else names:
        low, high = rubric_scale(name) if is_rubric(name) else available[name].scale
        if not low <= threshold <= high:  # nor where it is no number
            raise FieldError(
                "threshold",
                f"{threshold:g} is off the scale of {name}, which is {low:g} to {high:g}",
            )
