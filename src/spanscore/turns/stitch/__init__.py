"""Traces joined into turns."""
