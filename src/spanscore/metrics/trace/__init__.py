"""Metrics of one agent trace."""
