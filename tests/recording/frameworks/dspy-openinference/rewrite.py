"""Puts answers into the fields that DSPy's chat adapter asks for, one tool at a time."""

import json
from collections import deque
from dataclasses import replace

_waiting = deque()
"""What is still to be said.

ReAct makes more model calls than the script has steps, so the script is ahead.
"""


def rewrite(answer, body):
    """ReAct asks for one tool after the other, ends with the tool `finish`, and then has the answer
    extracted.
    """
    if not answer.answer_id.startswith("aside"):
        _waiting.extend(_fields(answer))
    fields = {**_waiting.popleft(), "completed": ""}
    text = "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in fields.items())
    return replace(answer, text=text, requests=())


def _fields(answer):
    for number, call in enumerate(answer.requests):
        thought = answer.text if number == 0 else ""
        yield {
            "next_thought": thought,
            "next_tool_name": call.name,
            "next_tool_args": json.dumps(call.arguments),
        }
    if not answer.requests:
        yield {"next_thought": "That is all.", "next_tool_name": "finish", "next_tool_args": "{}"}
        yield {"reasoning": "The tools have told enough.", "answer": answer.text}
