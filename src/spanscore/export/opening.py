"""Exporters by their configured names; the libraries of those that are not configured are not imported."""

from spanscore.export.config import Config, GrpcConfig, HttpConfig, JsonFileConfig
from spanscore.export.port import Exporter


def open_exporters(config: Config) -> dict[str, Exporter]:
    """All configured exporters, whether their backends are up or not. Raises ConfigError where one cannot be opened."""
    return {name: _open(settings) for name, settings in config.exporters.items()}


def _open(config: GrpcConfig | HttpConfig | JsonFileConfig) -> Exporter:
    match config:
        case GrpcConfig():
            from spanscore.export.otlp_grpc import GrpcExporter  # noqa: PLC0415 - only who uses gRPC loads it

            return GrpcExporter(config)
        case HttpConfig():
            from spanscore.export.otlp_http import HttpExporter  # noqa: PLC0415 - only who uses HTTP loads it

            return HttpExporter(config)
        case JsonFileConfig():
            from spanscore.export.otlp_json_file import JsonFileExporter  # noqa: PLC0415 - likewise

            return JsonFileExporter(config)
