"""The settings that connections to backends and to tools have in common: TLS, and when to try
again.
"""

from pathlib import Path

from pydantic import (
    Field,
)

from spanscore.model.options import Options
from spanscore.model.quantity import Duration, duration_ns


class Tls(Options):
    """How a connection is secured; as in the collector, by TLS unless `insecure` is true."""

    insecure: bool = False
    """Send without TLS."""

    insecure_skip_verify: bool = False
    """Use TLS without checking the server's certificate.

    Only otlp_http can; for otlp_grpc give `ca_file`.
    """

    ca_file: Path | None = None
    """The certificates, in PEM, that the server's certificate must lead back to; null: those of the
    system.
    """

    cert_file: Path | None = None
    """Our own certificate, in PEM, for a server that asks for one."""

    key_file: Path | None = None
    """The private key, in PEM, of `cert_file`."""

    server_name_override: str | None = None
    """The name that the server's certificate must be for, where it is not the endpoint's."""

    reload_interval: Duration = Field(default=duration_ns("10s"), ge=0)
    """How often a request looks whether the files have changed; the new ones are used from it
    on.
    """

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are named here."""
        return tuple(x for x in (self.ca_file, self.cert_file, self.key_file) if x is not None)


class RetryOnFailure(Options):
    """When to send again what a backend did not take."""

    enabled: bool = True
    """Whether to send again at all."""

    initial_interval: Duration = Field(default=duration_ns("5s"), gt=0)
    """The wait before the first retry.

    What the backend asks for (RetryInfo, Retry-After) comes before it.
    """

    randomization_factor: float = Field(default=0.5, ge=0, le=1)
    """How far a wait may be off, as a share of it, so that many senders do not come back at
    once.
    """

    multiplier: float = Field(default=1.5, ge=1)
    """By what each wait is longer than the one before it."""

    max_interval: Duration = Field(default=duration_ns("30s"), gt=0)
    """The longest wait."""

    max_elapsed_time: Duration = Field(default=duration_ns("0s"), ge=0)
    """After how long to give up; 0: never.

    What waits is in the store, so there is no need to give up.
    """

    max_fault_time: Duration = Field(default=duration_ns("5m"), ge=0)
    """After how long to give up what the backend answers with a fault of its own (HTTP 500, gRPC
    INTERNAL, UNKNOWN), since that can be for what it is sent. Scores that are given up are listed
    by `spanscore scores --undelivered`.
    """
