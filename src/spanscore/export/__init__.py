"""Scores out: evaluation spans, events and metrics by OTLP, or attributes on passing spans."""
