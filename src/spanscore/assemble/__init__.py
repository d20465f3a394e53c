"""Spans to whole traces and sessions."""
