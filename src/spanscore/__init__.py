"""Scores for AI agents, in the traces they already emit.

>>> from spanscore import load, rebuild_all
>>> telemetry = load([])
>>> rebuild_all(telemetry.spans, telemetry.logs)
[]
"""

from importlib import import_module
from typing import Any

from spanscore.lazy_names import homes_of, lazy_names

_HOMES = homes_of(__file__)
__all__ = list(_HOMES)

_find = lazy_names(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that nobody waits for what is not used."""
    if name == "__version__":
        return import_module("importlib.metadata").version("spanscore")
    return _find(name)


def __dir__() -> list[str]:
    """The public names, for editors and notebooks."""
    return ["__version__", *__all__]
