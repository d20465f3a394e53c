"""How the steps of a trace follow each other: in the tree of spans, and in the messages."""

from collections.abc import Sequence
from typing import TypeAlias

from spanscore.model.json import dumps, loads
from spanscore.model.span import Span, record
from spanscore.model.step import Message, Reading, Step
from spanscore.model.trace import PastMessage

MAX_HISTORY = 200
"""How many messages before the turn are part of its record: the latest."""

_MAX_JSON_CHARS = 100_000
"""Of a question that is looked into for messages."""


@record()
class Opening:
    """Where a turn starts in the messages a model or agent was given: `question` is an index, -1
    for none.
    """

    messages: tuple[Message, ...]
    question: int

    @property
    def text(self) -> str | None:
        """The text of the question."""
        return question_text(self.messages[self.question]) if self.question >= 0 else None


def opening(messages: tuple[Message, ...]) -> Opening:
    """Find the question that opens a turn in the input of its first model call: the user's last
    message.

    Of several messages of the user in a row it is the last one.
    """
    return Opening(messages, last_user_message(messages))


def question_text(message: Message) -> str | None:
    """The text of a user's message; "" where it only has attachments."""
    return "" if message.text is None and message.attachments else message.text


def tail(messages: Sequence[Message], question: str | None) -> Sequence[Message]:
    """The messages of this turn in a later model call's input: those after the question, or the
    user's last message.

    A question that came before in the same session is found at its last place.
    """
    if question is not None:
        for at in range(len(messages) - 1, -1, -1):
            if messages[at].text == question and messages[at].role == "user":
                return messages[at + 1 :]
    return messages[last_user_message(messages) + 1 :]


def history(start: Opening) -> tuple[PastMessage, ...]:
    """What came before the question, without system messages, at most MAX_HISTORY messages."""
    if start.question <= 0:
        return ()
    before = [x for x in start.messages[: start.question] if x.role != "system"]
    return tuple(_past(x) for x in before[-MAX_HISTORY:])


def system_text(messages: Sequence[Message]) -> str | None:
    """The text of the system messages of an input."""
    texts = [x.text for x in messages if x.role == "system" and x.text]
    return "\n\n".join(texts) if texts else None


def final_message(output: Sequence[Message]) -> Message | None:
    """The last message, if it answers instead of calling a tool; empty messages after it do not
    count.
    """
    messages = [message for message in output if not _is_empty(message)]
    last = messages[-1] if messages else None
    if last is None or last.role != "assistant" or (last.calls and waits_for_tools(output)):
        return None
    before = messages[-2] if len(messages) > 1 else None
    if (
        last.text == ""
        and before is not None
        and before.role == "assistant"
        and before.text
        and not before.calls
    ):
        return before  # the model was called once more, and had nothing to add
    return last


def waits_for_tools(output: Sequence[Message]) -> bool:
    """Whether a message requests tools that have not run. A provider's own tools have run where the
    model's output contains their results.
    """
    calls = [call.call_id for message in output for call in message.calls]
    if not calls:
        return False
    answered = [result.call_id for message in output for result in message.results]
    return len(answered) < len(calls) or not {x for x in calls if x} <= {x for x in answered if x}


def final_text(output: Sequence[Message]) -> str | None:
    """The text of the message that answers."""
    found = final_message(output)
    return None if found is None else found.text


UNREADABLE = frozenset({"parts"})
"""What is damaged of a message of which only parts of unknown kinds could not be read."""


def _is_empty(message: Message) -> bool:
    """Whether nothing of a message was read, and nothing of it is known to be lost: as of a broken
    part, or one of an unknown type.
    """
    return message.text is None and not (
        message.calls or message.results or message.damaged - UNREADABLE
    )


def _is_of_user(message: Message) -> bool:
    """Whether the user wrote a message, if only an image. A tool's result in a user's message is
    not the user's.
    """
    return message.role == "user" and (message.text is not None or not message.results)


def last_user_message(messages: Sequence[Message]) -> int:
    """The index of the user's last message, without results of tools; -1 for none."""
    for at in range(len(messages) - 1, -1, -1):
        if _is_of_user(messages[at]):
            return at
    return -1


def is_json_of(text: str | None, messages: Sequence[Message]) -> bool:
    """Whether `text` is JSON in the form of `messages`, each with its role and its text.

    >>> is_json_of('[{"role": "user", "content": "Hi"}]', [Message("user", "Hi")])
    True
    """
    if not text or not messages or text[0] not in "[{" or len(text) > _MAX_JSON_CHARS:
        return False
    try:
        parsed = loads(text)
    except ValueError:
        return False
    listed = parsed if isinstance(parsed, list) else [parsed]
    parsed_messages = [(x.get("role"), x.get("content")) for x in listed if isinstance(x, dict)]
    return len(parsed_messages) == len(listed) and parsed_messages == [
        (x.role, x.text) for x in messages
    ]


def _past(message: Message) -> PastMessage:
    text = message.text
    if text is None and message.results:
        text = "\n".join(
            x.value if isinstance(x.value, str) else dumps(x.value) for x in message.results
        )
    role = "tool" if message.results and message.text is None else message.role
    return PastMessage(role, text, message.calls, message.attachments)


def is_item(identity: str | None) -> bool:
    """Whether an id is that of an item of OpenAI's Responses, which some emitters record instead of
    the call's.

    >>> is_item("fc_68"), is_item("call_68"), is_item(None)
    (True, False, False)
    """
    return identity is not None and identity.startswith("fc_")


@record()
class Place:
    """What lies above a span. Each is the nearest one, or None; `agents` counts all agents above.

    `model` and `tool` are only set where no agent lies between; `outer` is the nearest step that is
    an agent, workflow or model call. `in_tool`: a tool lies above at all; `session` is the one
    named nearest above.
    """

    depth: int = 0
    agents: int = 0
    agent: Step | None = None
    model: Step | None = None
    tool: Step | None = None
    outer: Step | None = None
    in_tool: bool = False
    session: str | None = None


_TOP = Place()


class Tree:
    """The spans of one trace, or of those of one turn, by their parents.

    `root` and `top` are the first trace's.
    """

    __slots__ = ("_below", "_places", "_spans", "_steps", "_tops", "root", "top")

    def __init__(self, reading: Reading) -> None:
        self._spans = {x.span_id: x for x in reading.spans}
        self._steps = {x.span.span_id: x for x in reading.steps}
        self._places: dict[str, Place] = {}
        self._below: dict[str, Place] = {}
        for span in reading.spans:
            if span.span_id not in self._places:
                above = self._below.get(span.parent_span_id)
                if above is None:
                    self._settle(span)
                else:  # a sister of one that has its place, as most are
                    self._places[span.span_id] = above
        self._tops = [x for x in reading.spans if self._places[x.span_id] is _TOP]
        first = self._tops[0].trace_id if self._tops else ""
        self.root: Span | None = self.root_of(first)
        self.top: Span | None = self.root or next(iter(self._tops), None)

    def place(self, step: Step) -> Place:
        """Where `step` stands."""
        return self._places[step.span.span_id]

    def span(self, span_id: str) -> Span | None:
        """The span with this id; None where it has not arrived."""
        return self._spans.get(span_id)

    def parent(self, span: Span) -> Span | None:
        """The parent of `span`; None where it has none, or where the parent has not arrived."""
        return self._spans.get(span.parent_span_id)

    def root_of(self, trace_id: str) -> Span | None:
        """The span without a parent of one of the traces."""
        return next(
            (x for x in self._tops if not x.parent_span_id and x.trace_id == trace_id), None
        )

    def opening_id(self, trace_id: str) -> str:
        """The id of the span that opens a trace, which stays the same when that span arrives last.

        The topmost span that has arrived names its parent even where the parent has not arrived.
        """
        top = self.root_of(trace_id) or next(
            (x for x in self._tops if x.trace_id == trace_id), None
        )
        return "" if top is None else top.parent_span_id or top.span_id

    def _settle(self, span: Span) -> None:
        """Find the place of a span and of all above it.

        Of a cycle, the span that is reached last is the top.
        """
        path, seen = [span], {span.span_id}
        parent = self._spans.get(span.parent_span_id)
        while (
            parent is not None and parent.span_id not in self._places and parent.span_id not in seen
        ):
            path.append(parent)
            seen.add(parent.span_id)
            parent = self._spans.get(parent.parent_span_id)
        if parent is None or parent.span_id not in self._places:
            self._places[path.pop().span_id] = _TOP
        for below in reversed(path):
            self._places[below.span_id] = self._below.get(below.parent_span_id) or self._under(
                below.parent_span_id
            )

    def _under(self, parent_id: str) -> Place:
        """The place of all children of a span whose own place is known."""
        above, step = self._places[parent_id], self._steps.get(parent_id)
        depth, agents, agent, in_tool = above.depth + 1, above.agents, above.agent, above.in_tool
        session = above.session if step is None else step.session_id or above.session
        kind = None if step is None else step.kind
        if kind == "agent":
            place = Place(depth, agents + 1, step, None, None, step, in_tool, session)
        elif kind == "model":
            place = Place(depth, agents, agent, step, above.tool, step, in_tool, session)
        elif kind == "tool":
            place = Place(
                depth, agents, agent, None, step, above.outer, in_tool=True, session=session
            )
        elif kind == "workflow":
            place = Place(depth, agents, agent, above.model, above.tool, step, in_tool, session)
        else:
            place = Place(
                depth, agents, agent, above.model, above.tool, above.outer, in_tool, session
            )
        self._below[parent_id] = place
        return place


MAX_SKEW_NS = 2 * 10**9
"""By how much the clocks of two that work on one turn may differ."""

Times: TypeAlias = tuple[int, int]
"""When something started and ended, in Unix nanoseconds."""


def may_lie_in(inner: Times, outer: Times, skew_ns: int = MAX_SKEW_NS) -> bool:
    """Whether one thing happened within another, as far as clocks agree: they do on how long each
    took.
    """
    return (
        outer[0] - skew_ns <= inner[0]
        and inner[1] <= outer[1] + skew_ns
        and inner[1] - inner[0] <= outer[1] - outer[0]
    )
