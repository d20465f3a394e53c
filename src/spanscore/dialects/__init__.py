"""What a span records, in any dialect: spans and log records in, steps out.

One module, or one folder, is one framework, platform, coding agent or convention. It is found by
scanning, and brings its `DIALECT`, the `QUIRKS` with which it appears in the spans of other
dialects, or both. A span is read by the first dialect that claims it (`order.py`), and completed by
the quirk of its framework (`quirk.py`).
"""

from spanscore.dialects.log_turns import goes_on
from spanscore.dialects.losses.reread import Rereader
from spanscore.dialects.read_trace import read, rereader_of
from spanscore.dialects.reading_units import merge_units, split_units, unit_of, unit_scopes
from spanscore.dialects.registry import all_dialects, content_switch, shows_genai, tried
from spanscore.dialects.unread_spans import Key, Unread, unread

__all__ = [
    "Key",
    "Rereader",
    "Unread",
    "all_dialects",
    "content_switch",
    "goes_on",
    "merge_units",
    "read",
    "rereader_of",
    "shows_genai",
    "split_units",
    "tried",
    "unit_of",
    "unit_scopes",
    "unread",
]
