"""Evaluation runs and monitors of a running server."""
