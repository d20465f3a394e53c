"""Spans to whole traces: when is a trace, and a session, complete."""
