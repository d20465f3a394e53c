from spanscore.dialects.log_turns import goes_on as goes_on
from spanscore.dialects.losses import Rereader as Rereader
from spanscore.dialects.registry import (
    all_dialects as all_dialects,
    merge_units as merge_units,
    recording_switch as recording_switch,
    shows_genai as shows_genai,
    split_units as split_units,
    tried as tried,
    unit_of as unit_of,
    unit_scopes as unit_scopes,
)
from spanscore.dialects.span_names import (
    SpanNames as SpanNames,
    configure as configure,
    configured as configured,
)
from spanscore.dialects.trace_reader import read as read, rereader_of as rereader_of
from spanscore.dialects.unread_spans import (
    Key as Key,
    Unread as Unread,
    unread as unread,
    unread_content as unread_content,
    upload_address as upload_address,
)
