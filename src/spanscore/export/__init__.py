"""Scores out: evaluation spans, events and metrics by OTLP, or attributes on passing spans."""

from spanscore.export.opening import open_exporters

__all__ = ["open_exporters"]
