"""Coding agents, which record much of a turn in log records beside the spans."""
