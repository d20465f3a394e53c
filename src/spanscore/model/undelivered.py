"""A score that an exporter could not deliver: noted by the export stage, kept by the store until it
is sent again.
"""

from dataclasses import dataclass

MAX_ERROR_CHARS = 500


@dataclass(frozen=True, slots=True)
class Undelivered:
    """`seq` is the score's number in the outbox.

    `forms` are what did not arrive: `traces` (the span), `logs` (the event), or `scores` (a tool's
    own API). `reason` is one of few words, `error` what the backend answered. `since_ns` is Unix
    ns. `to_resend`: it is to be sent again.
    """

    exporter: str
    seq: int
    forms: tuple[str, ...]
    reason: str
    error: str
    since_ns: int
    to_resend: bool = False
