"""Questions and answers that are JSON, kept as text."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from spanscore.model.span import Attributes, Value
from spanscore.model.step import Message, Step

_BEGINNINGS = ("{", "[", '"')


def keep_json_text(
    steps: Sequence[Step], recorded: Callable[[Attributes], tuple[Value, Value]]
) -> list[Step]:
    """The steps; a question or answer that was read as a value is text if a model call below has
    exactly that text.

    `recorded` gives what an agent's span recorded of both, of which a value and a text that is JSON
    look alike.
    """
    unsure = {
        x.span.span_id: tuple(map(_text, recorded(x.span.attributes))) for x in steps if _is_read(x)
    }
    changed = {x.span.span_id: x for x in steps}
    for model in steps:
        above = model.span.parent_span_id
        if model.kind != "model" or above not in unsure:
            continue
        question, answer = unsure[above]
        step = changed[above]
        if question is not None and question == _last(model.input, "user"):
            step = _with_question(step, question)
        if answer is not None and answer == _last(model.output, "assistant"):
            step = _with_answer(step, answer)
        changed[above] = step
    return list(changed.values())


def _with_question(step: Step, question: str) -> Step:
    if not step.input and not step.input_text:
        return step
    return replace(step, input=None, input_text=question, damaged=step.damaged - {"input"})


def _with_answer(step: Step, answer: str) -> Step:
    if not step.output and not step.output_text and not step.output_json:
        return step
    return replace(step, output=None, output_text=answer, output_json=None)


def _is_read(step: Step) -> bool:
    """Whether the step records a question or an answer as an agent's, or as that of a function
    around one.
    """
    content = step.input or step.output or step.input_text or step.output_text or step.output_json
    return step.kind in {"agent", "workflow"} and bool(content)


def _text(value: Value) -> str | None:
    return value if isinstance(value, str) and value.startswith(_BEGINNINGS) else None


def _last(messages: Sequence[Message] | None, role: str) -> str | None:
    return next((x.text for x in reversed(messages or ()) if x.role == role), None)
