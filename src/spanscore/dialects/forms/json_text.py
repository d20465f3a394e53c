"""Know an agent's question or answer that is itself JSON: where its model call was told or said this very text."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from spanscore.model.span import Attributes, Value
from spanscore.model.step import Message, Step

_BEGINNINGS = ("{", "[", '"')


def as_told(steps: Sequence[Step], recorded: Callable[[Attributes], tuple[Value, Value]]) -> list[Step]:
    """The steps; a question or an answer that was read as a value is text where a model call directly below has it so.

    `recorded` gives what an agent's span recorded of both, of which a value and a text that is JSON look alike.
    """
    unsure = {x.span.span_id: tuple(map(_text, recorded(x.span.attributes))) for x in steps if _is_read(x)}
    asked, answered = set[str](), set[str]()
    for step in steps:
        above = step.span.parent_span_id
        given, returned = unsure.get(above, (None, None)) if step.kind == "model" else (None, None)
        if given is not None and given == _last(step.input, "user"):
            asked.add(above)
        if returned is not None and returned == _last(step.output, "assistant"):
            answered.add(above)
    found: list[Step] = []
    for step in steps:
        identity, known = step.span.span_id, step
        if identity in asked and (known.input or known.input_text):
            known = replace(known, input=None, input_text=unsure[identity][0], damaged=known.damaged - {"input"})
        if identity in answered and (known.output or known.output_text or known.output_json):
            known = replace(known, output=None, output_text=unsure[identity][1], output_json=None)
        found.append(known)
    return found


def _is_read(step: Step) -> bool:
    """Whether the step tells a question or an answer as an agent's, or as that of a function around one."""
    said = step.input or step.output or step.input_text or step.output_text or step.output_json
    return step.kind in {"agent", "workflow"} and bool(said)


def _text(value: Value) -> str | None:
    return value if isinstance(value, str) and value.startswith(_BEGINNINGS) else None


def _last(said: Sequence[Message] | None, role: str) -> str | None:
    return next((x.text for x in reversed(said or ()) if x.role == role), None)
