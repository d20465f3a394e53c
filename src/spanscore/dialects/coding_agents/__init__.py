"""Coding agents, which record much in log records."""
