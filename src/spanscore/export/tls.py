"""TLS of the exporters over HTTP."""

import ssl

from spanscore.errors import ConfigError
from spanscore.export.config import Tls
from spanscore.local_files import Watched


def http_context(tls: Tls) -> Watched[ssl.SSLContext | bool]:
    """What the newest files make. Raises ConfigError where they make nothing."""
    try:
        return Watched(tls.files, lambda: _read(tls), every_s=tls.reload_interval / 1e9)
    except OSError as error:  # ssl.SSLError is one as well
        message = f"{tls.ca_file or tls.cert_file}: cannot be used ({error})"
        raise ConfigError(f"{message}; see tls of the exporter") from error


def _read(tls: Tls) -> ssl.SSLContext | bool:
    if tls.insecure_skip_verify:
        return False
    context = ssl.create_default_context(cafile=tls.ca_file)
    if tls.cert_file is not None:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    return context
