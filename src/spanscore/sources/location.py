"""The URL of stored traces."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, unquote_plus, urlsplit

from spanscore.errors import InputError
from spanscore.model.options import duration_ns, moment_ns
from spanscore.sources.port import Query

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_REFERENCE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_ESCAPED: Final = re.compile(r"%24%7B.*?%7D")
_TRACE_ID: Final = re.compile(r"[0-9a-fA-F]{1,32}")
_CONDITIONS: Final = ("service", "since", "until", "errors", "min_duration", "trace_id", "limit")
_FILES: Final = ("ca_file", "cert_file", "key_file")
_CONNECTION: Final = ("timeout", "retries", "token", "insecure_skip_verify", *_FILES)
_PREFIXES: Final = ("attribute.", "header.")
_ESCAPE: Final = "percent-encode / ? # @ in a user, password or path (%2F %3F %23 %40)"
_TRUTHS: Final = {"true": True, "1": True, "": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach a backend over HTTP. `repr` has no secret in it."""

    base_url: str
    """Scheme, host, port and path, without a slash at its end."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    timeout_s: float = 30.0
    """For one request, its whole answer included."""

    retries: int = 5
    """How often a request is sent again that got no answer, or 429 or a 5xx one."""

    insecure_skip_verify: bool = False
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed URL. `str` shows it without credentials."""

    scheme: str
    """The backend's name, or the protocol of files."""

    url: str = field(repr=False)
    """Of files: what fsspec is given."""

    shown: str
    """The URL as messages have it: without credentials."""

    connection: Connection
    query: Query
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What only this backend has, such as Phoenix's `project`."""

    has_since: bool = False

    def __str__(self) -> str:
        return self.shown

    @property
    def name(self) -> str:
        """What a report is called that is made of it."""
        return self.shown

    @property
    def wanted(self) -> str:
        """Which traces are wanted, in words."""
        query = self.query
        times = (("since", query.since_ns), ("before", query.until_ns))
        conditions = [f"that started {x} {_time(ns)}" for x, ns in times if ns is not None]
        conditions += [f"for {x}" for x in query.conditions if x not in {"since", "until"}]
        return ", ".join(conditions)

    def option(self, name: str, default: str = "") -> str:
        """The last value of an option of this backend."""
        return self.options.get(name, [default])[-1]


def is_url(text: str) -> bool:
    """Whether a text is a URL rather than the path of a file."""
    return _SCHEME.match(text) is not None


def parse_location(
    text: str,
    *,
    options: Collection[str],
    port: int | None,
    now_ns: int,
    environ: Mapping[str, str] | None,
) -> Location:
    """`text` as a location whose backend has these options of its own, and listens on `port` unless
    it names another.

    `${env:NAME}` and `${env:NAME:-default}` are filled in from `environ`; None: they stay as they
    are, for a URL that came over the network. `port` None: it is a URL of files. Raises InputError,
    which never shows a credential.
    """
    try:
        parts, given = _split(text, environ), dict[str, list[str]]()
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            given.setdefault(name, []).append(_filled(value, environ))
        return _Parsing(parts, given, options, environ, now_ns).location(port)
    except ValueError as error:
        raise InputError(f"{_shown_text(text)}: {error}") from None


@dataclass(frozen=True, slots=True)
class _Parsing:
    """The parts of a URL, its parameters, and the names of those that only this backend has."""

    parts: SplitResult
    given: Mapping[str, Sequence[str]]
    own: Collection[str]
    environ: Mapping[str, str] | None
    now_ns: int

    def location(self, port: int | None) -> Location:
        parts, is_http = self.parts, port is not None
        scheme, _, secure = parts.scheme.partition("+")
        _require_whole_credentials(parts, is_http)
        known = (*_CONDITIONS, *(_CONNECTION if is_http else ()), *self.own)
        unknown = [x for x in self.given if x not in known and not x.startswith(_PREFIXES)]
        if unknown:
            if "@" in unknown[0]:  # it may be the end of a password, and is not shown
                raise ValueError(f"a name after ? has an @ in it and is no parameter; {_ESCAPE}")
            raise ValueError(
                f"{unknown[0]!r} is no parameter of it; there are {', '.join(known)},"
                " attribute.NAME" + (", header.NAME" if is_http else "")
            )
        return Location(
            scheme,
            parts._replace(query="").geturl(),
            _shown(parts),
            self._connection(secure, port) if port is not None else Connection(""),
            self._query(),
            {name: self.given[name] for name in self.own if name in self.given},
            has_since="since" in self.given,
        )

    def _query(self) -> Query:
        query = Query(
            service=self._last("service") or None,
            since_ns=self._time("since", self._moment),
            until_ns=self._time("until", self._moment),
            attributes=self._named("attribute."),
            errors=self._truth("errors"),
            min_duration_ns=self._time("min_duration", duration_ns),
            trace_ids=tuple(dict.fromkeys(map(_trace_id, self.given.get("trace_id", ())))),
            limit=self._count("limit", least=1),
        )
        times = [x for x in (query.since_ns, query.until_ns) if x is not None]
        if len(times) == 2 and times[0] >= times[1]:
            raise ValueError("since is not before until: no trace can be in between")
        return query

    def _connection(self, secure: str, port: int) -> Connection:
        parts = self.parts
        if not parts.hostname:
            raise ValueError("it names no host: write SCHEME://HOST:PORT")
        if secure not in {"", "http", "https"}:
            backend = parts.scheme.partition("+")[0]
            raise ValueError(f"write {backend}:// or {backend}+https://")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        scheme = secure or "http"
        headers = self._named("header.")
        if token := self._last("token"):
            headers["Authorization"] = f"Bearer {token}"
        if "authorization" in map(str.lower, headers) and parts.username is not None:
            raise ValueError(
                "give one kind of credentials: user:password@, token or header.Authorization"
            )
        _require_sendable(headers)
        return Connection(
            f"{scheme}://{host}:{parts.port or port}{parts.path.rstrip('/')}",
            headers,
            self._credential(parts.username),
            self._credential(parts.password),
            (self._time("timeout", duration_ns) or 30 * 10**9) / 1e9,
            self._count("retries", least=0, default=5) or 0,
            self._truth("insecure_skip_verify"),
            *(Path(x) if (x := self._last(name)) else None for name in _FILES),
        )

    def _credential(self, text: str | None) -> str | None:
        return None if text is None else _filled(unquote(text), self.environ)

    def _last(self, name: str) -> str:
        return self.given.get(name, [""])[-1]

    def _truth(self, name: str) -> bool:
        text = self.given.get(name, ["false"])[-1].lower()
        if text not in _TRUTHS:
            raise ValueError(f"{name}={text}: write true or false")
        return _TRUTHS[text]

    def _named(self, prefix: str) -> dict[str, str]:
        """The last values of the parameters that begin so."""
        found = {name: x[-1] for name, x in self.given.items() if name.startswith(prefix)}
        return {name.removeprefix(prefix): value for name, value in found.items()}

    def _time(self, name: str, read: Callable[[str], int]) -> int | None:
        try:
            return read(self._last(name)) if name in self.given else None
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def _moment(self, text: str) -> int:
        return moment_ns(text.replace(" ", "+"), self.now_ns)

    def _count(self, name: str, *, least: int, default: int | None = None) -> int | None:
        if name not in self.given:
            return default
        text = self._last(name)
        if not text.isascii() or not text.isdecimal() or len(text) > 9 or int(text) < least:
            raise ValueError(f"{name}={text}: write a number of at least {least}")
        return int(text)


def _time(ns: int) -> str:
    return f"{datetime.fromtimestamp(ns // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"


def since_default(location: Location, since_ns: int) -> Location:
    """The location with this `since` where neither it nor a trace id is given."""
    query = location.query
    if query.since_ns is not None or query.trace_ids:
        return location
    return replace(location, query=replace(query, since_ns=since_ns))


def _split(text: str, environ: Mapping[str, str] | None) -> SplitResult:
    """The parts of a URL; a reference has characters that would end a part, so these are escaped
    meanwhile.

    A # is part of a path or a value: files may be named with one, and nothing that is read here has
    fragments.
    """
    try:
        escaped = _REFERENCE.sub(lambda x: quote(x[0], safe=""), text)
        parts = urlsplit(escaped, allow_fragments=False)
    except ValueError:  # its message may quote the password
        raise ValueError(f"its host is no valid one; {_ESCAPE}, and brackets (%5B %5D)") from None
    user, at, host = parts.netloc.rpartition("@")
    host, path = (
        _filled(_ESCAPED.sub(lambda x: unquote(x[0]), x), environ) for x in (host, parts.path)
    )
    return parts._replace(netloc=f"{user}{at}{host}", path=path)


def _filled(text: str, environ: Mapping[str, str] | None) -> str:
    if environ is None:
        return text
    return _REFERENCE.sub(lambda x: environ.get(x[1]) or x[2] or "", text)


def _trace_id(text: str) -> str:
    if not _TRACE_ID.fullmatch(text):
        raise ValueError(f"trace_id={text}: write up to 32 hexadecimal digits")
    return text.lower().zfill(32)


def _require_whole_credentials(parts: SplitResult, is_http: bool) -> None:
    """Raise ValueError where the user or password seems to have ended early, at one of / ? #.

    A URL of files may have an @ in its path, and several colons in place of a host, as an ARN of S3
    does.
    """
    has_at = "@" in parts.path
    try:
        if is_http or (parts.netloc.count(":") == 1 and (has_at or "@" in parts.query)):
            _ = parts.port
    except ValueError:
        raise ValueError(f"its port is no number from 0 to 65535; {_ESCAPE}") from None
    if is_http and (wrong := next((x for x in "@#" if x in parts.path), None)):
        raise ValueError(f"it has {wrong} in its path; {_ESCAPE}")


def _require_sendable(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or re.search(r"[\r\n\0]", value):
            raise ValueError(
                f"the header {name!r} cannot be sent: it has a line break or a character of no"
                " header"
            )


def _shown(parts: SplitResult) -> str:
    """A URL without what may be a credential: the user, values of headers and tokens."""
    netloc = parts.netloc.rpartition("@")[2]
    secret = ("header.", "token=")
    pairs = [x for x in parts.query.split("&") if x and not unquote_plus(x).startswith(secret)]
    return parts._replace(netloc=netloc, query="&".join(pairs)).geturl()


def _shown_text(text: str) -> str:
    """The start of a URL that cannot be used, without its user; only the scheme where it is not
    clear what is the user.

    >>> _shown_text("jaeger://me:secret@there?limit=x")
    'jaeger://there'
    >>> _shown_text("jaeger://me:sec/ret@there")
    'jaeger://…'
    """
    scheme, _, rest = text.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in rest[len(authority) :]:
        return f"{scheme}://…"
    return f"{scheme}://{re.split(r'[?#]', rest, maxsplit=1)[0].rpartition('@')[2]}"
