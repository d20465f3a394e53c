"""Read the notices that Claude Code puts into a conversation in the user's role: what was done
meanwhile.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from spanscore.dialects.forms.arguments import call_id
from spanscore.dialects.forms.structure import opened
from spanscore.model.span import Value
from spanscore.model.step import Message, Step, ToolResult

_BEGIN, _END = "<task-notification>", "</task-notification>"
_CALL = re.compile(r"<tool-use-id>([^<\n]{1,256})</tool-use-id>")
_RESULT = re.compile(r"<result>(.*)</result>", re.DOTALL)
_MAX_CHARS = 1024 * 1024


def results(prompt: Value) -> tuple[ToolResult, ...]:
    """What calls returned that ran in the background, of a prompt that is made of notices; none of
    any other.

    >>> call = "<tool-use-id>t7</tool-use-id>"
    >>> results(f"<task-notification>{call}<result>Done.</result></task-notification>")
    (ToolResult(call_id='t7', value='Done.', error=None, shown=True, name=None),)
    """
    if not isinstance(prompt, str) or not prompt.startswith(_BEGIN) or len(prompt) > _MAX_CHARS:
        return ()
    notices = [x.strip() for x in prompt.split(_END)]
    if notices[-1] or not all(x.startswith(_BEGIN) for x in notices[:-1]):
        return ()
    return tuple(_result(x) for x in notices[:-1])


def _result(notice: str) -> ToolResult:
    call, returned = _CALL.search(notice), _RESULT.search(notice)
    identity = None if call is None else call_id(call[1])
    return ToolResult(
        identity, None if returned is None else opened(returned[1]), shown=returned is not None
    )


def message(prompt: Value) -> Message | None:
    """The message that a prompt made of notices is; None for the user's own text."""
    found = results(prompt)
    return Message("tool", results=found) if found else None


def refine_trace(steps: Sequence[Step]) -> Sequence[Step]:
    """The steps; a notice is the input of the first model call after it, if that records none
    itself.
    """
    notices = {
        x.span.span_id: x.input
        for x in steps
        if x.kind == "agent" and x.input and x.input[0].results
    }
    if not notices:
        return steps
    found: list[Step] = []
    for step in sorted(steps, key=lambda x: x.span.start_ns):
        given = (
            notices.pop(step.span.parent_span_id, None)
            if step.kind == "model" and step.input is None
            else None
        )
        found.append(step if given is None else replace(step, input=given))
    return found
