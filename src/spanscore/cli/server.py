"""Servers and stores that commands read."""

import argparse
import importlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf import json_format

from spanscore import config
from spanscore.api import keywords
from spanscore.api.messages import words, words_by_number
from spanscore.cli.options import SERVER, Action, Declare, add_limit, argument
from spanscore.cli.terminal import on_one_line, print_json, utc
from spanscore.errors import ConfigError, InputError, SpanscoreError, nearest
from spanscore.model.options import moment_ns
from spanscore.rpc import CHANNEL_OPTIONS, TENANT_HEADER, authorization, tenant_named

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from sqlalchemy.engine import Connection

    from spanscore.store.config import Config
    from spanscore.store.listing import Page
    from spanscore.store.ordering import Place

ItemT = TypeVar("ItemT")

PAGE = 200
"""How many items are asked for at once."""

_USUAL_SERVER = "127.0.0.1:4329"
_LAST_NS = 2**63 - 1
_TIMEOUT_S = 30.0
_MAX_CHARS = 500
_BAD_INPUT = frozenset(
    {"INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION", "ABORTED"}
)
_HINTS = {
    "UNAVAILABLE": "is a server running there, and is this its api.endpoint?",
    "PERMISSION_DENIED": "give a token with that scope by --token-file",
    "UNAUTHENTICATED": "give its token by --token-file",
    "UNIMPLEMENTED": "it is older than this command; read its store instead",
}


def add_selection(parser: argparse.ArgumentParser, what: str, *, limit: int = 50) -> None:
    """Declare the options that say which `what` are wanted."""
    argument(parser, "--since TIME", f"only {what} stored since: 24h, or 2026-05-01T12:00 (UTC)")
    argument(parser, "--service NAME", "only of the service with this service.name")
    argument(parser, "--session ID", "only of this session")
    add_limit(parser, limit)


def require_place(args: argparse.Namespace, *, elsewhere: bool = False) -> None:
    """Have SPANSCORE_SERVER name the server where the line names no place, and nothing is read from
    `elsewhere`; refuse options that do not go together. Raises InputError.
    """
    _require_limit(vars(args).get("limit", 0))
    if args.store and args.server:
        raise InputError("--store and --server: give one of them")
    if not (args.store or args.server or elsewhere):
        args.server = os.environ.get("SPANSCORE_SERVER")
    if not args.server and (args.token_file or args.ca_file):
        raise InputError("--token-file and --ca-file: go with --server")


def _require_limit(limit: int) -> None:
    if limit < 0:
        raise InputError(f"--limit {limit}: give a number of at least 0; 0 shows all")


def since_ns(text: str | None, option: str = "--since") -> int | None:
    """The Unix nanoseconds that an option names, a duration before now or a time.

    Raises InputError.

    What lies before 1970 or after 2262 is the first or the last moment that a store can keep.
    """
    if text is None:
        return None
    try:
        found = moment_ns(text, time.time_ns())
    except (ValueError, OverflowError):
        how = "give a duration such as 24h, or a time such as 2026-05-01T12:00"
        raise InputError(f"{option} {text}: {how}") from None
    return min(max(found, 0), _LAST_NS)


def store_config(args: argparse.Namespace) -> "Config":
    """The store that the options name. Raises ConfigError."""
    settings = config.load(args.config)
    if args.store is None:
        return settings.store
    url = args.store if "://" in args.store else f"sqlite:///{args.store}"
    return settings.store.model_copy(update={"url": url})


def of_store(
    args: argparse.Namespace,
    page: "Callable[[Connection, Any, int, Place | None], Page[ItemT]]",
    query: Any,
    limit: int,
) -> Iterator[ItemT]:
    """What the store contains that meets a query, at most `limit`; 0: all. `page` gives a page.

    Raises ConfigError where there is no store.
    """
    from spanscore.store import listing  # noqa: PLC0415 - SQLAlchemy, which --help and --server do not need

    store = store_config(args)
    with _named_places():
        yield from listing.pages(store, lambda x, at: page(x, query, PAGE, at), limit or None)


def read(args: argparse.Namespace, ask: "Callable[[Connection], ItemT]") -> ItemT:
    """What `ask` gives of the store that the options name.

    Raises ConfigError where there is none.
    """
    from spanscore.store import connections  # noqa: PLC0415 - as above

    store = store_config(args)
    with _named_places():
        engine = connections.reader(store)
    with connections.used(engine), connections.snapshot(engine) as connection:
        return ask(connection)


@contextmanager
def _named_places() -> Iterator[None]:
    """Say of a store that cannot be used what else can be named."""
    try:
        yield
    except ConfigError as error:
        how = "or name the store by --store, or a running server by --server"
        raise ConfigError(f"{error}, {how}") from None


class Ask:
    """Asks one service of a running server."""

    def __init__(self, stub: Any, args: argparse.Namespace) -> None:
        self._stub = stub
        self._metadata = _metadata(args)

    def __call__(self, method: str, request: Any, *, is_stream: bool = False) -> Any:
        """The answer of a method; of one that streams all answers, for as long as they come."""
        timeout_s = None if is_stream else _TIMEOUT_S
        return getattr(self._stub, method)(request, timeout=timeout_s, metadata=self._metadata)

    def or_none(self, method: str, request: Any) -> Any:
        """The answer of a method; None where the server has nothing of that name."""
        import grpc  # noqa: PLC0415 - which reading a store does not need

        try:
            return self(method, request)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            return None


@contextmanager
def service(args: argparse.Namespace, name: str) -> Iterator[Ask]:
    """A service, such as Run, of the server that `--server` names.

    What it refuses is raised as an error that says so. Raises SpanscoreError where it does not
    answer.
    """
    import grpc  # noqa: PLC0415 - which reading a store does not need

    args.server = args.server or os.environ.get("SPANSCORE_SERVER") or _USUAL_SERVER
    stubs = importlib.import_module(f"spanscore.api.v1.{name.lower()}_service_pb2_grpc")
    try:
        with _channel(args) as channel:
            yield Ask(getattr(stubs, f"{name}ServiceStub")(channel), args)
    except grpc.RpcError as error:
        code, details = error.code(), error.details()
        if code.name in _BAD_INPUT:
            raise InputError(f"{args.server}: {details}") from None
        hint = _HINTS.get(code.name, "its log has more")
        raise SpanscoreError(f"{args.server}: {code.name}: {details}; {hint}") from None


def trace_url(args: argparse.Namespace) -> str:
    """`page.trace_url` of the configuration, else of the server; "" where neither has one."""
    configured = config.load(args.config).page.trace_url
    if configured or not args.server:
        return configured
    from spanscore.api.v1.view_service_pb2 import GetViewerRequest  # noqa: PLC0415 - as above

    with service(args, "View") as ask:
        url: str = ask("GetViewer", GetViewerRequest()).trace_url
    return url


def pages(ask: Ask, method: str, request: Any, limit: int) -> Iterator[Any]:
    """The messages in the first field of all answers of a method, at most `limit`; 0: all.

    Raises InputError.
    """
    _require_limit(limit)
    request.page_size = min(limit, PAGE) if limit else PAGE
    yield from islice(keywords.pages(partial(ask, method), request), limit or None)


def of_server(
    args: argparse.Namespace, name: str, method: str, request: Any, limit: int
) -> Iterator[Any]:
    """The messages in all answers of a method of a service, as `pages`."""
    with service(args, name) as ask:
        yield from pages(ask, method, request, limit)


def _metadata(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What a request to a server has beside itself: token and tenant.

    Raises InputError, ConfigError.
    """
    found = []
    if (given := _file(args, "token_file")) is not None:
        token_file, token = given
        found.append(authorization(token.decode(errors="replace"), f"--token-file {token_file}"))
    if (tenant := tenant_of(args)) is not None:
        file = getattr(args, "config", None)
        header = config.load(file).tenancy.header if file else TENANT_HEADER
        found.append(tenant_named(tenant, "--tenant", header))
    return found


def tenant_of(args: argparse.Namespace) -> str | None:
    """The tenant that the line, else the environment, names."""
    tenant: str | None = args.tenant or os.environ.get("SPANSCORE_TENANT")
    return tenant


def _file(args: argparse.Namespace, name: str) -> tuple[str, bytes] | None:
    """The file that an option, else its variable of the environment, names, and what is in it.

    Raises InputError where it cannot be read.
    """
    path = getattr(args, name) or os.environ.get(f"SPANSCORE_{name.upper()}")
    try:
        return (str(path), Path(path).read_bytes()) if path else None
    except OSError as error:
        option = f"--{name.replace('_', '-')}"
        raise InputError(f"{option} {path}: cannot be read ({error.strerror})") from None


def _channel(args: argparse.Namespace) -> Any:
    import grpc  # noqa: PLC0415 - as above

    if (given := _file(args, "ca_file")) is None:
        return grpc.insecure_channel(args.server, CHANNEL_OPTIONS)
    credentials = grpc.ssl_channel_credentials(given[1])
    return grpc.secure_channel(args.server, credentials, CHANNEL_OPTIONS)


def read_message(path: Path, message: Any) -> list[tuple[str, Any]]:
    """Set what a file contains in `message`, as YAML or JSON with the names of its fields.

    Returns the path of each field that is given, with its value; `-` is standard input. Raises
    InputError.
    """
    import yaml  # noqa: PLC0415 - which one command in ten needs

    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
        given = yaml.safe_load(text)
        found = list(_fields(given, message.DESCRIPTOR))
        json_format.ParseDict(given, message)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, AttributeError, TypeError, yaml.YAMLError, json_format.ParseError) as error:
        where = "standard input" if str(path) == "-" else path
        raise InputError(f"{where}: {' '.join(str(error).split())}") from None
    return found


def _fields(given: Any, message: "Descriptor", before: str = "") -> Iterator[tuple[str, Any]]:
    """The path of each field that is given, with its value. Raises ValueError."""
    if not isinstance(given, Mapping):
        named = f"{before.rstrip('.')}: " if before else ""
        raise ValueError(f"{named}give fields, such as {message.fields[0].name}")  # noqa: TRY004 - a file's content
    for name, value in given.items():
        field = message.fields_by_name.get(name) or message.fields_by_camelcase_name.get(name)
        if field is None:
            hint = nearest(str(name), message.fields_by_name)
            raise ValueError(f"{before}{name}: there is no such field; {hint}")
        inner, path = field.message_type, f"{before}{field.name}"
        is_own = inner is not None and inner.file.package == message.file.package
        if inner is not None and is_own and value and not inner.GetOptions().map_entry:
            yield from _fields(value, inner, f"{path}.")
        else:
            yield path, value


def describe(message: Any, indent: str = "") -> Iterator[str]:
    """The lines that show a message: one for each field that is set, and several for a message that
    has messages in it.
    """
    for field, value in message.ListFields():
        name = f"{indent}{field.name.removesuffix('_ns').replace('_', ' '):<12}"
        is_one = isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence)
        for one in [value] if is_one else value:
            if hasattr(one, "ListFields") and any(x.message_type for x, _ in one.ListFields()):
                yield name.rstrip()
                yield from describe(one, f"{indent}  ")
            elif shown := _shown(field, one):
                yield f"{name}  {shown}"


def _shown(field: Any, value: Any) -> str:
    """A value of a field as a person reads it."""
    if field.enum_type:
        return _word(field.enum_type, value)
    if field.name.endswith("_ns"):
        return f"{utc(value):%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
    if hasattr(value, "ListFields"):
        return ", ".join(" ".join(x.split()) for x in describe(value))
    if isinstance(value, Mapping):
        plain = {x: as_json(y) if hasattr(y, "ListFields") else y for x, y in value.items()}
        value = ", ".join(f"{x} {y}" for x, y in sorted(plain.items()))
    return on_one_line(str(value), _MAX_CHARS)


def print_one(
    args: argparse.Namespace, message: Any, show: Callable[[Any], None] | None = None
) -> None:
    """Print a message: as JSON with `--json`, else by `show`, or field by field."""
    if args.json:
        print_json(as_json(message))
    elif show:
        show(message)
    else:
        print("\n".join(describe(message)))


def print_all(
    args: argparse.Namespace, found: Iterable[Any], show: Callable[[list[Any]], None]
) -> None:
    """Print messages: with `--json` each as soon as it is there, else all by `show`."""
    if args.json:
        for message in found:
            print_json(as_json(message))
    else:
        show(list(found))


def as_json(message: Any) -> dict[str, Any]:
    """A message as JSON, with the names of fields as the proto has them."""
    found: dict[str, Any] = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return found


def _nothing(_parser: argparse.ArgumentParser) -> None:
    """Declare no option."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of resource of a server: its service, the module of its messages, and what its id is
    called and described as.
    """

    service: str
    messages: ModuleType
    metavar: str
    about: str

    def name(self, given: str) -> str:
        """Its name in the API: runs/ID of an id, or of what is one already."""
        folder = f"{self.service.lower()}s/"
        return folder + given.removeprefix(folder)

    def request(self, method: str, **fields: Any) -> Any:
        """The request of a method."""
        return getattr(self.messages, f"{method}Request")(**fields)

    def action(
        self, summary: str, act: Callable[[argparse.Namespace, Ask], int | None], declare: Declare
    ) -> Action:
        """An action that asks the service; its exit code is 0 where `act` gives none."""

        def run(args: argparse.Namespace) -> int:
            with service(args, self.service) as ask:
                return act(args, ask) or 0

        return Action(summary, declare, run, (*SERVER, "json"))

    def of_one(
        self,
        summary: str,
        method: str,
        declare: Declare = _nothing,
        more: Callable[[argparse.Namespace], Mapping[str, Any]] = lambda _: {},
    ) -> Action:
        """The action of a method that takes a name and, by `more`, further fields; what it answers
        is printed.
        """

        def act(args: argparse.Namespace, ask: Ask) -> None:
            request = self.request(method, name=self.name(args.name), **more(args))
            print_one(args, ask(method, request))

        def add(parser: argparse.ArgumentParser) -> None:
            argument(parser, f"name {self.metavar}", self.about)
            declare(parser)

        return self.action(summary, act, add)

    def delete(
        self,
        summary: str,
        kept: Callable[[argparse.Namespace], str] = lambda _: "",
        declare: Declare = _nothing,
        more: Callable[[argparse.Namespace], Mapping[str, Any]] = lambda _: {},
    ) -> Action:
        """The action that deletes; `kept` is what is said of what stays."""

        def act(args: argparse.Namespace, ask: Ask) -> None:
            method = f"Delete{self.service}"
            for name in args.name:
                ask(method, self.request(method, name=self.name(name), **more(args)))
                if not args.json:
                    print(f"deleted {on_one_line(name, 200)}{kept(args)}")

        def add(parser: argparse.ArgumentParser) -> None:
            argument(parser, f"name {self.metavar}", f"{self.about}; one or more", nargs="+")
            declare(parser)

        return self.action(summary, act, add)

    def list(
        self,
        summary: str,
        method: str,
        show: Callable[[list[Any]], None],
        state: Mapping[str, Any] = MappingProxyType({}),
    ) -> Action:
        """The action of a method that lists, of what it calls its parent where it has one; `state`
        is how the option that selects by states is declared.
        """
        fields = getattr(self.messages, f"{method}Request").DESCRIPTOR.fields_by_name
        of_state = next((x for x in fields.values() if x.enum_type), None)

        def act(args: argparse.Namespace, ask: Ask) -> None:
            given = {"parent": self.name(args.name)} if "parent" in fields else {}
            if of_state:
                given[of_state.name] = _numbers(of_state.enum_type, args.state)
            request = self.request(method, **given)
            print_all(args, pages(ask, method, request, args.limit), show)

        def add(parser: argparse.ArgumentParser) -> None:
            if "parent" in fields:
                argument(parser, f"name {self.metavar}", self.about)
            if of_state:
                argument(parser, "--state", **state, choices=list(words(of_state.enum_type)))
            add_limit(parser)

        return self.action(summary, act, add)


def word(message: Any, field: str) -> str:
    """The value of an enum as a user writes it; "unspecified" where there is none, its number where
    only a newer server knows it.
    """
    return _word(message.DESCRIPTOR.fields_by_name[field].enum_type, getattr(message, field))


def _word(enum: Any, number: int) -> str:
    found: str = words_by_number(enum).get(number, str(number) if number else "unspecified")
    return found


def id_of(message: Any) -> str:
    """The id of a resource, which is the end of its name."""
    found: str = message.name.partition("/")[2]
    return found


def _numbers(enum: Any, given: str | list[str]) -> Any:
    """The numbers of an enum's values, or the number of one."""
    if isinstance(given, str):
        return words(enum)[given]
    return [_numbers(enum, x) for x in given]


def add_file(parser: argparse.ArgumentParser, text: str, **how: Any) -> None:
    """Declare the file that has a message of the API."""
    argument(parser, "-f/--spec FILE", f"{text}, in YAML or JSON; -: standard input", **how)
