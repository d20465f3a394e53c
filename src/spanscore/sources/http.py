"""Requests to a backend's query API."""

import asyncio
import base64
import errno
import itertools
import json
import logging
import os
import random
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import aiohttp
from google.protobuf.message import Message

from spanscore import retry
from spanscore.errors import InputError, RetryableError
from spanscore.model.json import loads
from spanscore.model.span import Value
from spanscore.otlp import check, codec
from spanscore.sources.location import Connection, Location
from spanscore.sources.port import MAX_TRACE_BYTES, Query, Stored, within

_log = logging.getLogger(__name__)

_MAX_WAIT_S: Final = 60.0
"""The longest wait that a backend may ask for."""

_FIRST_WAIT_S: Final = 0.5
_MAX_SHOWN_CHARS: Final = 300
_CHUNK_BYTES: Final = 2**16


@dataclass(frozen=True, slots=True)
class Answer:
    """What a backend answered; `is_cut`: it was longer than `max_bytes`, and `body` is its
    beginning.
    """

    status: int
    body: bytes
    content_type: str
    is_cut: bool = False


class Http:
    """One session to one backend, opened with the first request; requests may run side by side."""

    def __init__(
        self,
        connection: Connection,
        backend: str,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`backend` names it in messages.

        Raises InputError where a file of the TLS options cannot be used.
        """
        self._connection = connection
        self._backend = backend
        self._sleep = sleep
        self._chance = chance
        self._tls = _tls(connection)
        self._headers = dict(connection.headers)
        if connection.user is not None:
            pair = f"{connection.user}:{connection.password or ''}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        self._session: aiohttp.ClientSession | None = None

    async def get(self, path: str, query: Any = None, **options: Any) -> Answer:
        """The answer to a GET; see `ask`."""
        return await self.ask("GET", path, query=query, **options)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        expected: tuple[int, ...] = (),
    ) -> Answer:
        """The answer, once it is 2xx or `expected`; of one that is longer than MAX_TRACE_BYTES only
        the beginning.

        `body` is sent as JSON, text as it is. 429, 5xx and broken connections are tried again, as
        often as the connection says, after the wait that the backend asks for or longer and longer
        ones. Raises RetryableError when none of that helped, InputError for any other answer.
        """
        tries = self._connection.retries + 1
        sent = {"data" if isinstance(body, str) else "json": body, "params": query}
        sent["headers"] = headers
        for number in itertools.count(1):
            try:
                return await self._once(method, path, expected, sent)
            except RetryableError as error:
                if number == tries:
                    tried = f" (tried {tries} times)" if tries > 1 else ""
                    raise RetryableError(f"{error}{tried}") from None
                backoff_s = retry.backoff_s(number, _FIRST_WAIT_S, self._chance())
                wait_s = max(error.retry_after_s, backoff_s)
                what = "%s; trying again in %.1f s (%d of %d tries done)"
                _log.info(what, error, wait_s, number, tries)
                await self._sleep(wait_s)
        raise AssertionError("unreachable")

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _once(
        self, method: str, path: str, expected: tuple[int, ...], sent: Mapping[str, Any]
    ) -> Answer:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self._connection.timeout_s)
            self._session = aiohttp.ClientSession(timeout=timeout, headers=self._headers)
        try:
            async with self._session.request(
                method,
                self._connection.base_url + path,
                ssl=self._tls,
                allow_redirects=False,  # credentials go where the user said, and nowhere else
                **sent,
            ) as response:
                content, is_cut = await _read(response, MAX_TRACE_BYTES)
                found = Answer(response.status, content, response.content_type, is_cut)
                if response.status // 100 != 2 and response.status not in expected:
                    raise self._error(path, found, response.headers)
                return found
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            what = f"{self._where(path)}: {''.join(failure(error))}"
            raise RetryableError(what, retry_after_s=0) from None

    def _where(self, path: str) -> str:
        return f"{self._backend} at {self._connection.base_url}{path}"

    def _error(self, path: str, answer: Answer, headers: Mapping[str, str]) -> Exception:
        begins = answer.body[: _MAX_SHOWN_CHARS * 2].decode(errors="replace").split()
        answered = f": {' '.join(begins)[:_MAX_SHOWN_CHARS]}" if begins else ""
        what = f"{self._where(path)} answered HTTP {answer.status}{answered}"
        if answer.status == 429 or (answer.status // 100 == 5 and answer.status != 501):
            wait_s = retry.retry_after_s(headers.get("Retry-After"), time.time_ns()) or 0.0
            return RetryableError(what, retry_after_s=min(wait_s, _MAX_WAIT_S))
        hint = {
            301: f"it redirects to {headers.get('Location', 'another place')}; give that one",
            401: (
                "give its credentials: user:password@ or token=, such as token=${env:TOKEN}, or"
                " header.NAME"
            ),
            403: "these credentials may not read it",
            404: "is this the address of its query API?",
        }
        hint_text = hint[301] if answer.status // 100 == 3 else hint.get(answer.status, "")
        return InputError(f"{what}{'; ' if hint_text else ''}{hint_text}")


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> tuple[bytes, bool]:
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > max_bytes:
            del body[max_bytes:]
            return bytes(body), True
    return bytes(body), False


def _tls(connection: Connection) -> ssl.SSLContext | bool:
    if connection.insecure_skip_verify:
        return False
    try:
        context = ssl.create_default_context(cafile=connection.ca_file)
        if connection.cert_file is not None:
            context.load_cert_chain(connection.cert_file, connection.key_file)
    except OSError as error:  # ssl.SSLError is one as well
        raise InputError(
            f"{connection.ca_file or connection.cert_file}: cannot be used for TLS ({error})"
        ) from None
    return context


def failure(error: Exception) -> tuple[str, str]:
    """Why there is no answer, for a person, without how the HTTP client prints its TLS settings;
    and what to do about it, if anything.
    """
    if isinstance(error, TimeoutError):
        return "no answer in time", "; a longer time can be given as timeout=2m"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "") or error.certificate_error
        why = f"the certificate of {error.host}:{error.port} is not trusted ({reason})"
        return why, "; give ca_file=PATH of the authority that signed it"
    if not isinstance(error, aiohttp.ClientConnectorError):
        return str(error) or type(error).__name__, ""
    where, cause = f"cannot connect to {error.host}:{error.port}", _cause(error.os_error)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        advice = "; where it listens for plain HTTP, leave out +https"
        return f"{where} by TLS ({cause})", advice
    is_refused = isinstance(error.os_error, ConnectionRefusedError)
    advice = "; is it running there, and is this the port of its query API?" if is_refused else ""
    return f"{where} ({cause})", advice


def _cause(error: OSError) -> str:
    """What the operating system or OpenSSL says, without the address that the message has
    already.
    """
    if isinstance(error, ConnectionRefusedError):
        return os.strerror(error.errno or errno.ECONNREFUSED)
    return error.strerror or str(error) or type(error).__name__


class Backend:
    """What the sources of all backends have in common; see `port.Source`."""

    title = ""
    """What the backend is called in messages."""

    depth = 1
    """How deep a list of spans lies in an answer."""

    def __init__(self, location: Location, http: Http | None = None) -> None:
        """Raises InputError where a file of the TLS options cannot be used."""
        self._http = http or Http(location.connection, self.title)
        self._where = str(location)

    def pushed(self, query: Query) -> frozenset[str]:
        """See `port.Source`."""
        return frozenset(query.conditions)

    def is_exact(self, _query: Query) -> bool:
        """See `port.Source`."""
        return True

    async def close(self) -> None:
        """See `port.Source`."""
        await self._http.close()

    def _parsed(self, answer: Answer, depth: int = 0) -> dict[str, Any]:
        """An answer's JSON; of one that was cut what is whole. Raises InputError."""
        try:
            is_cut, depth = answer.is_cut, depth or self.depth
            body = loads(whole_prefix(answer.body, depth) if is_cut else answer.body)
        except ValueError as error:
            raise InputError(
                f"{self._where}: its answer is no JSON ({error}); is this the address of its query"
                " API?"
            ) from None
        return body if isinstance(body, dict) else {}


def as_sent(value: Value) -> Value:
    """An attribute as it was sent: no SDK sends objects, so what is one here was its text."""
    is_json = isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(x, dict | list) for x in value)
    )
    # spaced as most SDKs write it
    return json.dumps(value, ensure_ascii=False) if is_json else value


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_of(text: str) -> int:
    """A time in ISO 8601, in Unix nanoseconds."""
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1) * 1000


def as_json(value: Any) -> str:
    """A value as a parameter of a URL has it."""
    return json.dumps(value, separators=(",", ":"))


CUT = f"its answer is longer than {MAX_TRACE_BYTES // 2**20} MiB, of which the beginning is read"


def stored(
    trace_id: str, requests: Iterable[Message], truncated: str = "", size_bytes: int = 0
) -> Stored:
    """The spans of export requests that belong to a trace; `truncated` as `Stored` has it."""
    refused: list[str] = []
    spans = []
    for request in requests:
        refused += [
            f"{x.name!r} of trace {trace_id}: {x.reason}" for x in check.remove_damaged(request)
        ]
        spans += [x for x in codec.spans(request) if x.trace_id == trace_id]
    first_spans, too_many = within(spans)
    return Stored(trace_id, first_spans, (), truncated or too_many, refused, size_bytes)


_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},"]', re.DOTALL)
_CLOSERS: Final = {b"[": b"]", b"{": b"}"}


def whole_prefix(text: bytes, depth: int) -> bytes:
    """`text` up to its last complete element at most `depth` arrays and objects deep, with all that
    is open closed.

    >>> whole_prefix(b'{"a": [{"b": [1, 2]}, {"b": [3', 2)
    b'{"a": [{"b": [1, 2]}]}'
    """
    open_: list[bytes] = []
    end, closing = 0, b""
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark == b'"':  # of a text that does not end
            break
        if mark in _CLOSERS:
            open_.append(_CLOSERS[mark])
        elif mark in {b"]", b"}"}:
            if open_:
                open_.pop()
        elif mark != b"," or not open_:
            continue
        if len(open_) <= depth and mark != b"{" and (mark != b"," or open_[-1] == b"]"):
            end = token.start() if mark == b"," else token.end()
            closing = b"".join(reversed(open_))
    return text[:end] + closing


T = TypeVar("T")

_SHORTEST_NS: Final = 1_000_000
"""A range this short is not halved again: what does not fit is said to be missing."""


async def sliced(
    start_ns: int,
    end_ns: int,
    search: Callable[[int, int], Awaitable[tuple[Sequence[T], bool]]],
    overfull: Callable[[int, int], None],
    *,
    shortest_ns: int = _SHORTEST_NS,
) -> AsyncIterator[T]:
    """Everything between two times, the newest ranges first; what lies in two ranges may come
    twice.

    `search` is given a range (its end is part of it) and gives what it found and whether there may
    be more. `overfull` is told of the ranges that cannot be halved again, being `shortest_ns` long,
    and have more than the backend gives.
    """
    waiting = [(start_ns, end_ns)]
    while waiting:
        low_ns, high_ns = waiting.pop()
        found, has_more = await search(low_ns, high_ns)
        if has_more and high_ns - low_ns > shortest_ns:
            middle_ns = (low_ns + high_ns) // 2
            waiting += [(low_ns, middle_ns), (middle_ns + 1, high_ns)]
            continue
        if has_more:
            overfull(low_ns, high_ns)
        for item in found:
            yield item
