"""Servers and stores that commands read."""

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf import json_format

from spanscore import config
from spanscore.cli.options import add_config, add_json, add_limit, argument
from spanscore.cli.terminal import print_json
from spanscore.errors import ConfigError, InputError, SpanscoreError
from spanscore.model.options import moment_ns
from spanscore.rpc import CHANNEL_OPTIONS, TENANT_HEADER, authorization, tenant_named

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from spanscore.store.config import Config
    from spanscore.store.listing import Page
    from spanscore.store.ordering import Place

ItemT = TypeVar("ItemT")

PAGE = 200
"""How many items are asked for at once."""

_TENANT_HELP = (
    "what this tenant has, of a server with tenants (tenancy); a tenant's own token needs no name"
)
_LAST_NS = 2**63 - 1
_TIMEOUT_S = 30.0
_BAD_INPUT = frozenset(
    {"INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION", "ABORTED"}
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that say where to read."""
    add_config(parser, "the server's configuration, for its store")
    add_place(parser)


def add_place(parser: argparse.ArgumentParser) -> None:
    """Declare these but for the configuration."""
    where = parser.add_mutually_exclusive_group()
    argument(where, "--store URL", "the store itself: a file, or a URL such as store.url has")
    argument(where, "--server HOST:PORT", "ask a running server's control service (api.endpoint)")
    argument(parser, "--token-file FILE", "with --server: a file with the bearer token")
    argument(parser, "--ca-file FILE", "with --server: use TLS, and trust this PEM file")
    argument(parser, "--tenant NAME", _TENANT_HELP)


def add_conditions(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare the options that say which `what` are wanted, and `--json`."""
    argument(parser, "--failing", f"only {what} that do not pass or were not measured")
    add_selection(parser, what)
    add_json(parser)


def add_selection(parser: argparse.ArgumentParser, what: str, *, limit: int = 50) -> None:
    """Declare the options that say which `what` are wanted."""
    argument(parser, "--since TIME", f"only {what} stored since: 24h, or 2026-05-01T12:00 (UTC)")
    argument(parser, "--service NAME", "only of the service with this service.name")
    argument(parser, "--session ID", "only of this session")
    add_limit(parser, limit)


def check(args: argparse.Namespace) -> None:
    """Refuse options that do not go together. Raises InputError."""
    if args.limit < 0:
        raise InputError(f"--limit {args.limit}: give a number of at least 0; 0 shows all")
    check_place(args)


def check_place(args: argparse.Namespace) -> None:
    """Refuse options of a server where none is named. Raises InputError."""
    if not args.server and (args.token_file or args.ca_file):
        raise InputError("--token-file and --ca-file: go with --server")


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
        raise InputError(
            f"{option} {text}: give a duration such as 24h, or a time such as 2026-05-01T12:00"
        ) from None
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

    try:
        yield from listing.pages(
            store_config(args), lambda x, place: page(x, query, PAGE, place), limit or None
        )
    except ConfigError as error:
        raise ConfigError(
            f"{error}, or name the store by --store, or a running server by --server"
        ) from None


def read(args: argparse.Namespace, ask: "Callable[[Connection], ItemT]") -> ItemT:
    """What `ask` gives of the store that the options name.

    Raises ConfigError where there is none.
    """
    from spanscore.store import connections  # noqa: PLC0415 - as above

    found = store_config(args)
    engine = connections.connect_reading(found)
    if engine is None:
        raise ConfigError(
            f"{connections.no_store(found)}, or name the store by --store, or a server by --server"
        )
    try:
        with connections.snapshot(engine) as connection:
            return ask(connection)
    finally:
        engine.dispose()


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a command that only asks a running server."""
    text = "its api.endpoint; default: %(default)s"
    argument(parser, "--server HOST:PORT", text, default="127.0.0.1:4329")
    argument(parser, "--token-file FILE", "a file with the bearer token")
    argument(parser, "--ca-file FILE", "use TLS, and trust what this PEM file contains")
    argument(parser, "--tenant NAME", _TENANT_HELP)


def add_action_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare these and `--json`."""
    add_server_arguments(parser)
    add_json(parser)


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

    Raises SpanscoreError where it does not answer.
    """
    with _answering(args) as channel:
        grpc = importlib.import_module(f"spanscore.api.v1.{name.lower()}_service_pb2_grpc")
        yield Ask(getattr(grpc, f"{name}ServiceStub")(channel), args)


def trace_url(args: argparse.Namespace) -> str:
    """`page.trace_url` of the configuration, else of the server; "" where neither has one."""
    configured = config.load(args.config).page.trace_url
    if configured or not args.server:
        return configured
    from spanscore.api.v1.view_service_pb2 import GetViewerRequest  # noqa: PLC0415 - as above

    with service(args, "View") as ask:
        url: str = ask("GetViewer", GetViewerRequest()).trace_url
    return url


def pages(ask: Ask, method: str, request: Any, items: str, limit: int) -> Iterator[Any]:
    """The messages in the field `items` of all answers of a method, at most `limit`; 0: all.

    Raises InputError.
    """
    if limit < 0:
        raise InputError(f"--limit {limit}: give a number of at least 0; 0 shows all")
    count = 0
    while not limit or count < limit:
        request.page_size = min(limit - count, PAGE) if limit else PAGE
        answer = ask(method, request)
        found = getattr(answer, items)
        yield from found
        count, request.page_token = count + len(found), answer.next_page_token
        if not answer.next_page_token:
            return


@contextmanager
def _answering(args: argparse.Namespace) -> Iterator[Any]:
    """A channel to the server; what it refuses is raised as an error that says so."""
    import grpc  # noqa: PLC0415 - which reading a store does not need

    try:
        with _channel(args) as channel:
            yield channel
    except grpc.RpcError as error:
        code, details = error.code(), error.details()
        if code.name in _BAD_INPUT:
            raise InputError(f"{args.server}: {details}") from None
        hint = {
            grpc.StatusCode.UNAVAILABLE: "is a server running there, and is this its api.endpoint?",
            grpc.StatusCode.PERMISSION_DENIED: "give a token with that scope by --token-file",
            grpc.StatusCode.UNAUTHENTICATED: "give its token by --token-file",
            grpc.StatusCode.UNIMPLEMENTED: "it is older than this command; read its store instead",
        }.get(code, "its log has more")
        raise SpanscoreError(f"{args.server}: {code.name}: {details}; {hint}") from None


def of_server(
    args: argparse.Namespace, name: str, request: Any, method: str, items: str, limit: int
) -> Iterator[Any]:
    """The messages in the field `items` of all answers of a method of a service, as `pages`."""
    with service(args, name) as ask:
        yield from pages(ask, method, request, items, limit)


def _metadata(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What a request to a server has beside itself: token and tenant.

    Raises InputError, ConfigError.
    """
    found = []
    if args.token_file is not None:
        token = _content(args.token_file, "--token-file").decode(errors="replace")
        found.append(authorization(token, f"--token-file {args.token_file}"))
    if args.tenant is not None:
        file = getattr(args, "config", None)
        header = config.load(file).tenancy.header if file else TENANT_HEADER
        found.append(tenant_named(args.tenant, "--tenant", header))
    return found


def _channel(args: argparse.Namespace) -> Any:
    import grpc  # noqa: PLC0415 - as above

    if args.ca_file is None:
        return grpc.insecure_channel(args.server, CHANNEL_OPTIONS)
    return grpc.secure_channel(
        args.server,
        grpc.ssl_channel_credentials(_content(args.ca_file, "--ca-file")),
        CHANNEL_OPTIONS,
    )


def _content(path: Path, option: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{option} {path}: cannot be read ({error.strerror})") from None


def read_message(path: Path, message: Any) -> dict[str, Any]:
    """Set what a file contains in `message`, as YAML or JSON with the names of its fields.

    Returns it as it was read; `-` is standard input. Raises InputError.
    """
    import yaml  # noqa: PLC0415 - which one command in ten needs

    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
        given = yaml.safe_load(text)
        json_format.ParseDict(given, message)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, AttributeError, TypeError, yaml.YAMLError, json_format.ParseError) as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from None
    found: dict[str, Any] = given
    return found


def print_one(args: argparse.Namespace, message: Any, show: Callable[[Any], None]) -> None:
    """Print a message: as JSON with `--json`, else by `show`."""
    if args.json:
        print_json(as_json(message))
    else:
        show(message)


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
