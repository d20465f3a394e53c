"""Names, ids, masks and page tokens of requests.

A page token is sealed, since a place is often a number that all tenants' rows are counted by: by
authenticated encryption with a synthetic nonce (SIV, RFC 5297), with keyed BLAKE2b in the place of
AES. The nonce is a keyed hash of the content, and the content is masked with SHAKE256 of key and
nonce.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar
from urllib.parse import quote as percent_encoded, unquote

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from spanscore.api.servicer import Call
from spanscore.api.v1.trace_service_pb2 import EvaluateSessionRequest, EvaluateTraceRequest
from spanscore.errors import FieldError, InputError, NotFoundError, shortened
from spanscore.evaluation.config import Overrides
from spanscore.evaluation.rubric import require_on_scale
from spanscore.model.json import loads

ItemT = TypeVar("ItemT")
MessageT = TypeVar("MessageT", bound=Message)

TRACE_ID = re.compile(r"[0-9a-f]{32}")
_SHOWN_CHARS = 80
_MAX_REQUEST_ID_CHARS = 64
_MAX_SOUGHT_CHARS = 4096


def not_found(name: str, why: str = "") -> NotFoundError:
    """The error for a trace or session that is not there; `why`, where that is known."""
    why = why or "it may not be complete yet, be past its retention, or hold no GenAI spans"
    return NotFoundError(f"nothing is stored under {shown(name)}: {why}")


def shown(text: str) -> str:
    """`text` as it may stand in an error, which travels in a header of bounded size."""
    return repr(shortened(text, _SHOWN_CHARS))


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
    if not TRACE_ID.fullmatch(found):
        raise FieldError(
            field,
            f"{shown(text)} is no id: give the 32 hex digits of an agent trace or an OTel trace",
        )
    return found


def json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that a text contains; None where it contains none."""
    try:
        found = loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


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
        require_on_scale("threshold", threshold, found.metrics)
    return found


USUAL_PAGE = 50
MAX_PAGE = 1000
MAX_PAGE_BYTES = 3 * 2**20
"""gRPC's clients read messages of up to 4 MiB unless they are told otherwise."""

_CONDITIONS_BYTES: Final = 16
_PLACE_BYTES: Final = 96  # of every place, so that a token's length shows nothing of it
_MAX_TOKEN_CHARS: Final = 256
_NO_TOKEN = "is no next_page_token; leave it out for the first page"  # noqa: S105 - a sentence


def limit(page_size: int, usual: int = USUAL_PAGE) -> int:
    """How many items a page has at most. Raises FieldError."""
    if page_size < 0:
        raise FieldError("page_size", f"{page_size}: give a number of at least 0")
    return min(page_size, MAX_PAGE) or usual


def fitting(
    items: Iterable[MessageT], limit: int, max_bytes: int = MAX_PAGE_BYTES
) -> list[MessageT]:
    """The first items that make a page: at most `limit`, and `max_bytes` in all; the first one
    whatever its size.
    """
    page: list[MessageT] = []
    for item in islice(items, limit):
        max_bytes -= item.ByteSize()
        if page and max_bytes < 0:
            break
        page.append(item)
    return page


def following(
    request: Any,
    call: Call,
    found: Sequence[ItemT],
    limit: int,
    place_of: Callable[[ItemT], tuple[Any, ...]],
) -> str:
    """The `next_page_token` where more than `limit` items were found; else ""."""
    return token(request, call, place_of(found[limit - 1])) if len(found) > limit else ""


def token(request: Any, call: Call, place: tuple[int | float | str, ...]) -> str:
    """The `next_page_token` with which the same request of the same tenant goes on after
    `place`.
    """
    content = _conditions(request, call) + json.dumps(place).encode().ljust(_PLACE_BYTES)
    return base64.urlsafe_b64encode(seal(call.page_key, content)).decode()


def place(request: Any, call: Call, values: int | None = None) -> tuple[Any, ...] | None:
    """Where the page that is asked for begins: so many values, where that is always the same;
    None: at the beginning.

    Raises FieldError.
    """
    if not request.page_token:
        return None
    content = _content(request.page_token, call)
    found = () if content is None else tuple(json.loads(content[_CONDITIONS_BYTES:]))
    if content is None or len(found) != (values or len(found)):
        raise FieldError("page_token", _NO_TOKEN)
    if content[:_CONDITIONS_BYTES] != _conditions(request, call):
        raise FieldError(
            "page_token",
            "is of another request; give the conditions of the page before, or no token",
        )
    return found


def _content(token: str, call: Call) -> bytes | None:
    """What a token was made of; None where this server has made no such token."""
    if len(token) > _MAX_TOKEN_CHARS:
        return None
    try:
        return opened(call.page_key, base64.urlsafe_b64decode(token))
    except ValueError:
        return None


def _conditions(request: Any, call: Call) -> bytes:
    """The same for requests of one tenant that differ in their page alone."""
    same = type(request)()
    same.CopyFrom(request)
    same.ClearField("page_token")
    same.ClearField("page_size")
    content = same.SerializeToString(deterministic=True)
    owner = f"{request.DESCRIPTOR.full_name}\n{call.tenant}\n".encode("utf-8", "surrogatepass")
    return hashlib.sha256(owner + content).digest()[:_CONDITIONS_BYTES]


_TAG_BYTES: Final = 16


def seal(key: bytes, content: bytes) -> bytes:
    """`content` that only who has the key can read; 16 bytes longer.

    >>> opened(b"key", seal(b"key", b"content")), opened(b"other", seal(b"key", b"content"))
    (b'content', None)
    """
    tag = _tag(key, content)
    return tag + _masked(key, tag, content)


def opened(key: bytes, sealed: bytes) -> bytes | None:
    """What was sealed with this key; None where it is anything else."""
    tag, content = sealed[:_TAG_BYTES], _masked(key, sealed[:_TAG_BYTES], sealed[_TAG_BYTES:])
    return content if _tag(key, content) == tag else None


def _tag(key: bytes, content: bytes) -> bytes:
    return hashlib.blake2b(
        content, key=key, digest_size=_TAG_BYTES, person=b"spanscore tag"
    ).digest()


def _masked(key: bytes, tag: bytes, content: bytes) -> bytes:
    mask = hashlib.shake_256(key + tag).digest(len(content))
    return bytes(x ^ y for x, y in zip(content, mask, strict=True))
