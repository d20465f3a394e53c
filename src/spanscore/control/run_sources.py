"""Configured backends and files that runs may read."""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from spanscore import dialects
from spanscore.errors import ConfigError, FieldError, InputError
from spanscore.evaluation.config import RunSource
from spanscore.model.span import TENANT, with_headers
from spanscore.model.trace import DEFAULT_SCOPE, AgentTrace, in_scope
from spanscore.sources import Location, Query, is_url, parse
from spanscore.sources.stored_traces import Stopped
from spanscore.specs import TargetSpec, TraceFilter
from spanscore.watches import ContentWatch

_BATCH = 200
_SHOWN = 5


@dataclass(eq=False)
class Sources:
    """The configured sources, by name.

    `session_scope` and `stitch_off` are those of the configuration, `attributes` those of spans
    that its rules read. Raises ConfigError where a source has no usable URL.
    """

    configured: Mapping[str, RunSource]
    session_scope: Sequence[str] = DEFAULT_SCOPE
    attributes: Collection[str] = ()
    stitch_off: Collection[str] = ()

    def __post_init__(self) -> None:
        for name, source in self.configured.items():
            _checked(name, source)

    def require(self, tenant: str, target: TargetSpec) -> None:
        """Raise FieldError where a target names a source that there is not for this tenant."""
        if target.source is not None:
            self._source(tenant, target.source)

    def open(self, tenant: str, target: TargetSpec, now_ns: int) -> "Reading":
        """The traces of a target's source, as of `now_ns`, of which times such as `since=24h` count
        back.

        Raises FieldError as `require` does.
        """
        location = parse(self._source(tenant, target.source or "").url, now_ns=lambda: now_ns)
        wanted = replace(location, query=_query(location, target, now_ns))
        return Reading(self, tenant, wanted)

    def owned(self, tenant: str, traces: Iterable[AgentTrace]) -> list[AgentTrace]:
        """Traces as a tenant's, whatever they say, with the keys of their sessions here."""
        headers = ((TENANT, tenant),) if tenant else ()
        own = (
            replace(x, target=replace(x.target, resource=with_headers(x.target.resource, headers)))
            for x in traces
        )
        return in_scope(own, self.session_scope)

    def _source(self, tenant: str, name: str) -> RunSource:
        own = {known: x for known, x in self.configured.items() if tenant in (x.tenants or ("",))}
        if name not in own:
            there = f"there are {', '.join(sorted(own)[:_SHOWN])}" if own else "none is configured"
            raise FieldError(
                "target.source", f"no source {name[:80]!r} in evaluation.runs.sources; {there}"
            )
        return own[name]


@dataclass(eq=False)
class Reading:
    """The agent traces of a tenant in a source, as they are read."""

    sources: Sources
    tenant: str
    location: Location

    def __post_init__(self) -> None:
        self._stopped = Stopped()

    def __str__(self) -> str:
        return str(self.location)

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called: then not all was read."""
        return bool(self._stopped)

    def stop(self) -> None:
        """Read no further. Thread-safe."""
        self._stopped.set()

    def batches(self) -> Generator[Sequence[AgentTrace]]:
        """Some agent traces at a time, by their start.

        Blocks, and is not to be used in an event loop.

        Raises InputError where the source cannot be read, RetryableError where it cannot be reached
        now.
        """
        from spanscore.offline.windows import Options, stored_windows  # noqa: PLC0415 - and all that reads traces: few servers have sources

        options = Options(
            attributes=tuple(self.sources.attributes),
            stitch_off=tuple(self.sources.stitch_off),
            span_names=dialects.configured(),
        )
        for window in stored_windows(self.location, options, ContentWatch(), self._stopped):
            traces = self.sources.owned(self.tenant, window.traces)
            for start in range(0, len(traces), _BATCH):
                if self._stopped:
                    return
                yield traces[start : start + _BATCH]


def _checked(name: str, source: RunSource) -> None:
    where = f"evaluation.runs.sources.{name}.url"
    if not is_url(source.url):
        raise ConfigError(
            f"{where}: write a URL such as jaeger://HOST:16686?service=shop or file:///PATH"
        )
    try:
        parse(source.url)
    except InputError as error:
        raise ConfigError(f"{where}: {error}") from None


def _query(location: Location, target: TargetSpec, now_ns: int) -> Query:
    """The conditions of a location together with those of a target that a source can be asked for.

    Each agent trace is held against the target's filter afterwards, so these only have to leave
    none out. Raises InputError where no trace can fulfil both.
    """
    base, wanted = location.query, target.filter or TraceFilter()
    is_default = not location.has_since and (
        target.trace_ids or wanted.started_after_ns is not None
    )
    since_ns = _of(max, None if is_default else base.since_ns, wanted.started_after_ns)
    until_ns = _of(min, base.until_ns, wanted.started_before_ns, now_ns)
    if since_ns is not None and until_ns is not None and since_ns >= until_ns:
        raise InputError(
            f"{location}: the times that it has and those of the filter have none in common"
        )
    service, attributes = _of_spans(base, wanted)
    return replace(
        base,
        service=service,
        since_ns=since_ns,
        until_ns=until_ns,
        attributes=attributes,
        trace_ids=_named(location, target),
    )


def _of_spans(base: Query, wanted: TraceFilter) -> tuple[str | None, Mapping[str, str]]:
    """The service and the attributes to ask for.

    A service bounds the spans whose attributes and errors count.
    """
    service = base.service
    if service is None and not base.attributes and not base.errors:
        service = wanted.service
    if service is not None and service != wanted.service:
        return service, base.attributes
    return service, {**wanted.resource, **base.attributes}


def _named(location: Location, target: TargetSpec) -> tuple[str, ...]:
    own, wanted = (
        location.query.trace_ids,
        tuple(dict.fromkeys(x.lower() for x in target.trace_ids)),
    )
    if not own or not wanted:
        return own or wanted
    both = tuple(x for x in wanted if x in own)
    if not both:
        raise InputError(f"{location}: none of the trace_ids is one of those that it has")
    return both


def _of(choose: Callable[[Iterable[int]], int], *times_ns: int | None) -> int | None:
    known = [x for x in times_ns if x is not None]
    return choose(known) if known else None
