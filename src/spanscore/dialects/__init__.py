"""Spans and log records in any dialect, to steps.

One module, or one folder, is one framework, platform, coding agent or convention. It is found by
scanning, and brings its `DIALECT`, the `QUIRKS` with which it appears in the spans of other
dialects, or both. A span is read by the first dialect that claims it (`registry.py`), and completed
by the quirk of its framework (`dialect.py`).

Names are imported when they are first used: a server that no request has reached needs none of
them.
"""

from typing import TYPE_CHECKING

from spanscore.lazy_imports import lazy_names

if TYPE_CHECKING:
    from spanscore.dialects.log_turns import goes_on
    from spanscore.dialects.losses import Rereader
    from spanscore.dialects.registry import (
        all_dialects,
        merge_units,
        recording_switch,
        shows_genai,
        split_units,
        tried,
        unit_of,
        unit_scopes,
    )
    from spanscore.dialects.span_names import SpanNames, configure, configured
    from spanscore.dialects.trace_reader import read, rereader_of
    from spanscore.dialects.unread_spans import Key, Unread, unread, unread_content, upload_address

__all__ = [
    "Key",
    "Rereader",
    "SpanNames",
    "Unread",
    "all_dialects",
    "configure",
    "configured",
    "goes_on",
    "merge_units",
    "read",
    "recording_switch",
    "rereader_of",
    "shows_genai",
    "split_units",
    "tried",
    "unit_of",
    "unit_scopes",
    "unread",
    "unread_content",
    "upload_address",
]

_NAMES = {
    "log_turns": "goes_on",
    "losses": "Rereader",
    "registry": "all_dialects merge_units recording_switch shows_genai split_units tried unit_of"
    " unit_scopes",
    "span_names": "SpanNames configure configured",
    "trace_reader": "read rereader_of",
    "unread_spans": "Key Unread unread unread_content upload_address",
}
_HOMES = {
    name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names.split()
}

if not TYPE_CHECKING:  # a type checker would take a misspelt name for one that it gives
    __getattr__ = lazy_names(__name__, _HOMES)
