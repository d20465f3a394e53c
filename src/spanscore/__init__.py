"""Scores for AI agents, in the traces they already emit."""

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("spanscore")
