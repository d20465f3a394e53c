"""Scores sent by OTLP and by tools' APIs."""

from collections.abc import Mapping

from spanscore.errors import ConfigError
from spanscore.export.config import (
    Authenticator,
    Config,
    GrpcConfig,
    HttpConfig,
    InProcess,
    JsonFileConfig,
    LangfuseConfig,
    MlflowConfig,
    PhoenixConfig,
)
from spanscore.export.port import Exporter, Sink

__all__ = ["open_exporters"]


def open_exporters(
    config: Config, authenticators: Mapping[str, Authenticator] | None = None
) -> dict[str, Exporter]:
    """All that speak OTLP, whether their backends are up or not.

    Raises ConfigError where one cannot be opened.

    `authenticators` are those that `auth` of an exporter may name.
    """
    exporters = config.otlp_exporters.items()
    return {
        name: open_exporter(x, authenticators)
        for name, x in exporters
        if not isinstance(x, InProcess)
    }


def open_sinks(config: Config) -> dict[str, Sink]:
    """All tools with an API of their own. Raises ConfigError where one cannot be opened."""
    return {
        name: _open_sink(x)
        for name, x in config.exporters.items()
        if isinstance(x, PhoenixConfig | MlflowConfig | LangfuseConfig)
    }


def open_exporter(
    config: GrpcConfig | HttpConfig | JsonFileConfig,
    authenticators: Mapping[str, Authenticator] | None = None,
) -> Exporter:
    """One that speaks OTLP. Raises ConfigError where it cannot be opened."""
    auth = None if isinstance(config, JsonFileConfig) else config.auth
    authenticator = None if auth is None else (authenticators or {}).get(auth.authenticator)
    if auth is not None and authenticator is None:
        raise ConfigError(
            f"auth.authenticator: {auth.authenticator} cannot be used here; give `headers` instead"
        )
    match config:
        case GrpcConfig():
            from spanscore.export.otlp_grpc import GrpcExporter  # noqa: PLC0415 - only who uses gRPC loads it

            return GrpcExporter(config, authenticator)
        case HttpConfig():
            from spanscore.export.otlp_http import HttpExporter  # noqa: PLC0415 - only who uses HTTP loads it

            return HttpExporter(config, authenticator)
        case JsonFileConfig():
            from spanscore.export.otlp_json_file import JsonFileExporter  # noqa: PLC0415 - likewise

            return JsonFileExporter(config)


def _open_sink(config: PhoenixConfig | MlflowConfig | LangfuseConfig) -> Sink:
    match config:
        case PhoenixConfig():
            from spanscore.export.phoenix import PhoenixSink  # noqa: PLC0415 - likewise

            return PhoenixSink(config)
        case MlflowConfig():
            from spanscore.export.mlflow import MlflowSink  # noqa: PLC0415 - likewise

            return MlflowSink(config)
        case LangfuseConfig():
            from spanscore.export.langfuse import LangfuseSink  # noqa: PLC0415 - likewise

            return LangfuseSink(config)
