"""How a trace's texts stand among a transcript's own lines: none can pass for one of them, or for a
mark.
"""

from spanscore.judge.marks import defused
from spanscore.model.json import Json, dumps

UNRECORDED = "(not recorded)"


def text_of(value: Json) -> str:
    """A JSON value for reading: a string as it is, anything else as compact JSON."""
    return (value or "(empty)") if isinstance(value, str) else dumps(value)


def indented(text: str, depth: int = 2) -> str:
    """A trace's text, with no line that begins where the transcript's own lines begin."""
    return ("\n" + " " * depth).join(defused(text).splitlines())


def section(title: str, text: str | None) -> str:
    """A text under its title, such as the user's input."""
    if text is None:
        return f"{title}: {UNRECORDED}"
    return f"{title}:\n  {indented(text)}" if text else f"{title}: (empty)"
