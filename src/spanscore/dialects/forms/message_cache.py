"""Read the input of model calls; messages that an earlier call of the trace received are not read a
second time.
"""

from spanscore.dialects.forms.messages import Messages, messages
from spanscore.model.span import Value
from spanscore.model.step import Message

_OBJECTS, _NEXT = "[{", (",{", ", {")  # of other lists, not each item is a message
_MAX_HISTORIES = 4  # conversations that interleave: an agent's and its sub-agents'


class MessageCache:
    """The inputs of a trace's model calls that were read last, since each mostly repeats one of
    them and goes on.
    """

    __slots__ = ("_read",)

    def __init__(self) -> None:
        # each text without the bracket at its end
        self._read: list[tuple[str, tuple[Message, ...]]] = []

    def messages(self, value: Value) -> Messages:
        """As `messages`, but reads only what comes after an earlier input that `value` starts with
        or repeats.
        """
        if not isinstance(value, str) or value[-1:] != "]":
            return messages(value)
        found: Messages | None = None
        for at, (text, known) in enumerate(self._read):
            if not value.startswith(text):
                continue
            if len(value) == len(text) + 1:  # an agent's, and its first model call's
                return Messages(known)
            if value.startswith(_NEXT, len(text)):
                rest = messages("[" + value[len(text) + 1 :])
                found = Messages(known + (rest.messages or ()), rest.damaged)
                del self._read[at]
                break
        found = found or messages(value)
        if found.messages is not None and not found.damaged and value.startswith(_OBJECTS):
            self._read = [(value[:-1], found.messages), *self._read[:_MAX_HISTORIES]]
        return found
