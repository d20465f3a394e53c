"""TLS of the receiving servers."""

import ssl
from pathlib import Path
from typing import Any, Final

import grpc

from spanscore.errors import ConfigError
from spanscore.local_files import Watched
from spanscore.receive.config import Tls

_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_NS_PER_S: Final = 10**9


def grpc_credentials(tls: Tls, key: str) -> Any:
    """The credentials for a gRPC server; `key` names the settings in errors.

    Raises ConfigError where a file cannot be used.
    """
    _checked_context(tls, key)  # gRPC itself takes any bytes and only fails when a client comes
    files = _watched(tls, lambda: _grpc_files(tls))
    return grpc.dynamic_ssl_server_credentials(
        files.get(), files.get, tls.client_ca_file is not None
    )


def http_context(tls: Tls, key: str) -> ssl.SSLContext:
    """The context for an HTTP server, which looks for newer files in each handshake.

    Raises ConfigError likewise.
    """
    first = _checked_context(tls, key)
    newest = _watched(tls, lambda: _context(tls))

    def choose(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = newest.get()

    # called in each handshake, whether the client names a server or not
    first.sni_callback = choose
    return first


def _watched(tls: Tls, make: Any) -> Watched[Any]:
    files = [x for x in (tls.cert_file, tls.key_file, tls.client_ca_file) if x is not None]
    return Watched(files, make, every_s=tls.reload_interval / _NS_PER_S)


def _grpc_files(tls: Tls) -> Any:
    _context(tls)  # raises on what OpenSSL cannot use
    pair = (tls.key_file.read_bytes(), tls.cert_file.read_bytes())
    return grpc.ssl_server_certificate_configuration([pair], _read(tls.client_ca_file))


def _read(path: Path | None) -> bytes | None:
    return None if path is None else path.read_bytes()


def _checked_context(tls: Tls, key: str) -> ssl.SSLContext:
    try:
        return _context(tls)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        files = ", ".join(
            str(x) for x in (tls.cert_file, tls.key_file, tls.client_ca_file) if x is not None
        )
        raise ConfigError(
            f"{key}: {files}: cannot be used ({error}); give PEM files that can be read"
        ) from error


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.min_version]
    context.load_cert_chain(tls.cert_file, tls.key_file)
    if tls.client_ca_file is not None:
        context.load_verify_locations(cafile=tls.client_ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
