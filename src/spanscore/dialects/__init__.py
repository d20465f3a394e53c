"""Spans and log records in any dialect, to steps.

One module, or one folder, is one framework, platform, coding agent or convention. It is found by
scanning, and brings its `DIALECT`, the `QUIRKS` with which it appears in the spans of other
dialects, or both. A span is read by the first dialect that claims it (`registry.py`), and completed
by the quirk of its framework (`dialect.py`).

Names are imported when they are first used: a server that no request has reached needs none of
them.
"""

from spanscore.lazy_names import homes_of, lazy_names

_HOMES = homes_of(__file__)
__all__ = list(_HOMES)
__getattr__ = lazy_names(__name__, _HOMES)
