"""Spans and log records without protobuf, and what they came with: headers, tenant, delivery."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, partial
from typing import Any, Final, TypeAlias, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def record(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """A slotted dataclass whose fields nothing may assign to, which mypy enforces.

    `frozen=True` would enforce it at run time too, and make each field of each new object cost a
    call.
    """
    return dataclass(slots=True, unsafe_hash=True, kw_only=kw_only)


def changed(item: T, /, **values: Any) -> T:
    """`item` with other values in some fields: as `dataclasses.replace`, in a fifth of the time for
    a record of many.

    Nothing is computed anew: for records whose fields are all given when they are made.
    """
    kind: Any = type(item)
    made: T = _changing(kind, *values)(item, **values)
    return made


@cache
def _changing(kind: type[Any], *names: str) -> Callable[..., Any]:
    """What copies a record with other values of `names`; written out, as `dataclass` writes its
    methods.
    """
    lines = [
        f"    made.{x.name} = {x.name if x.name in names else f'item.{x.name}'}"
        for x in fields(kind)
    ]
    head = f"def change({', '.join(['item', '*', *names] if names else ['item'])}):"
    namespace: dict[str, Any] = {"new": partial(object.__new__, kind)}
    exec("\n".join([head, "    made = new()", *lines, "    return made"]), namespace)  # noqa: S102 - of nothing but names of fields
    changing: Callable[..., Any] = namespace["change"]
    return changing


Value: TypeAlias = "None | str | bool | int | float | bytes | list[Value] | dict[str, Value]"
"""An OTLP AnyValue: arrays are lists, kvlists are dicts, an empty AnyValue is None."""

Scalar: TypeAlias = str | bool | int | float
"""An AnyValue that holds no others."""

Attributes: TypeAlias = Mapping[str, Value]

STATUS_UNSET, STATUS_OK, STATUS_ERROR = 0, 1, 2
"""OTLP's status codes."""


@record()
class Resource:
    """What emitted a span or log record."""

    attributes: Attributes = field(default_factory=dict)

    @property
    def service_name(self) -> str | None:
        """`service.name`, or None where the resource does not name one."""
        name = self.attributes.get("service.name")
        return name if isinstance(name, str) else None


@record()
class Scope:
    """The instrumentation scope of a span or log record."""

    name: str = ""
    version: str = ""


@record()
class Event:
    """A span event; `time_ns` is Unix time in nanoseconds."""

    name: str
    time_ns: int = 0
    attributes: Attributes = field(default_factory=dict)
    dropped_attributes_count: int = 0


@record()
class Link:
    """A span link; ids are lower-case hex."""

    trace_id: str
    span_id: str
    attributes: Attributes = field(default_factory=dict)


@record()
class Span:
    """One span.

    Ids are lower-case hex, `parent_span_id` is "" for none; times are Unix time in nanoseconds.

    `recorded` is False where no such span was received: it stands for what log records contain, its
    ids derive from theirs, and its links name the spans that those were written under.
    """

    trace_id: str
    span_id: str
    parent_span_id: str
    name: str
    kind: int
    start_ns: int
    end_ns: int
    status_code: int
    status_message: str
    attributes: Attributes
    resource: Resource
    scope: Scope
    events: Sequence[Event] = ()
    links: Sequence[Link] = ()
    dropped_attributes_count: int = 0
    dropped_events_count: int = 0
    dropped_links_count: int = 0
    recorded: bool = True


@record()
class LogRecord:
    """One log record.

    `event_name` is the protobuf field, else the attribute `event.name`, else ""; ids "" for none.
    """

    trace_id: str
    span_id: str
    time_ns: int
    event_name: str
    body: Value
    attributes: Attributes
    resource: Resource
    scope: Scope
    severity_number: int = 0
    dropped_attributes_count: int = 0


Headers: TypeAlias = tuple[tuple[str, str], ...]
"""Name, in lower case, and value."""

TENANT: Final = ":tenant"
"""The name under which a request's tenant is kept among its headers.

No header that is sent is called so.
"""

_PREFIX: Final = "spanscore.header."
_TENANT_KEY: Final = _PREFIX + TENANT
_MAX_VALUE_CHARS: Final = 1024


def chosen_headers(received: Iterable[tuple[str, str | bytes]], wanted: frozenset[str]) -> Headers:
    """The headers of a request that are `wanted`, by their names in lower case.

    Values that could not be sent on are left out: gRPC takes printable ASCII and nothing else.
    """
    return tuple(
        (name.lower(), value)
        for name, value in received
        if name.lower() in wanted
        and not name.startswith(":")
        and isinstance(value, str)
        and len(value) <= _MAX_VALUE_CHARS
        and value.isascii()
        and value.isprintable()
    )


def with_headers(resource: Attributes, headers: Headers) -> dict[str, Value]:
    """A resource's attributes with the headers that it came with, and no others that a sender has
    made up.
    """
    own = without_headers(resource)
    return {**own, **{_PREFIX + name: value for name, value in headers}}


def without_headers(resource: Attributes) -> dict[str, Value]:
    """A resource's attributes as they came."""
    return {key: value for key, value in resource.items() if not key.startswith(_PREFIX)}


def headers_of(resource: Attributes) -> Headers:
    """The headers that a resource came with."""
    return tuple(
        (key[len(_PREFIX) :], str(value))
        for key, value in resource.items()
        if key.startswith(_PREFIX)
    )


def tenant_of(resource: Attributes) -> str:
    """The tenant that a resource belongs to; "" without tenants.

    >>> tenant_of(with_headers({"service.name": "shop"}, ((":tenant", "acme"),)))
    'acme'
    """
    return str(resource.get(_TENANT_KEY, ""))


def tenant_in(headers: Headers) -> str:
    """The tenant that a request with these headers belongs to; "" without tenants."""
    return next((value for name, value in headers if name == TENANT), "")


def owner_of(resource: Attributes) -> Headers:
    """Whom what came with a resource belongs to: its tenant; without tenants the headers tell
    senders apart.
    """
    headers = headers_of(resource)
    return tuple(x for x in headers if x[0] == TENANT) or headers


def without_tenant(headers: Headers) -> Headers:
    """The headers that were sent: what a request may leave with again."""
    return tuple(x for x in headers if x[0] != TENANT)


def of_tenant(tenant: str) -> Headers:
    """The headers of which nothing is known but the tenant; none without tenants."""
    return ((TENANT, tenant),) if tenant else ()


MAX_TENANT_CHARS: Final = 128


def tenant_problem(tenant: str) -> str | None:
    """Why this cannot be the name of a tenant; None where it can be.

    It travels in headers, and stands in the store and in logs: 1 to 128 printable characters of
    ASCII without `/`.

    >>> tenant_problem("acme")
    >>> tenant_problem("a/b")
    'a tenant is 1 to 128 printable ASCII characters without `/` and blanks at its ends'
    """
    is_short = 1 <= len(tenant) <= MAX_TENANT_CHARS
    if (
        is_short
        and tenant.isascii()
        and tenant.isprintable()
        and "/" not in tenant
        and tenant == tenant.strip()
    ):
        return None
    return (
        f"a tenant is 1 to {MAX_TENANT_CHARS} printable ASCII characters without `/` and blanks at"
        " its ends"
    )


Partition: TypeAlias = tuple[str, int]
"""A topic, and the number of one of its partitions."""


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """A message that the broker delivers again, after a restart too, until it is done.

    `done` is called once nothing needs the message any more.
    """

    partition: Partition
    offset: int
    done: Callable[[], None]
