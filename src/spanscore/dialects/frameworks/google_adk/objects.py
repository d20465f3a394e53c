"""Read what Google's Agent Development Kit puts into its own objects: events, requests, and
responses of tools.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from spanscore.dialects.forms import gemini_calls
from spanscore.dialects.forms.indexed import indexed
from spanscore.dialects.forms.messages import messages
from spanscore.dialects.forms.provider_bodies import configured_tools, system_of
from spanscore.dialects.forms.structure import is_redacted, structure
from spanscore.dialects.forms.values import Facts, Side, add_damaged
from spanscore.dialects.keys.openinference import (
    INPUT_VALUE,
    LLM_INPUT_MESSAGES_PREFIX,
    OUTPUT_VALUE,
    TOOL_NAME,
)
from spanscore.dialects.quirk import Items, Quirk
from spanscore.model.json import Json
from spanscore.model.span import Span, Value
from spanscore.model.step import Message

_OPENINFERENCE = "openinference.instrumentation.google_adk"
_FLAT = LLM_INPUT_MESSAGES_PREFIX
_RETOLD = ("For context:\n", "For context: below is a transcript of what another agent did")
# what a tool that waits for it seems to return
_UNCONFIRMED = "This tool call requires confirmation"
_CONTENT_KEYS, _RESULT_KEYS = (
    frozenset({"contents", "tool_calls"}),
    frozenset({"content", "name", "tool_call_id"}),
)
_RUN: Final[tuple[tuple[Side, str, str, str], ...]] = (
    ("input", INPUT_VALUE, "new_message", "user"),
    ("output", OUTPUT_VALUE, "content", "assistant"),
)
"""Of each side of a run: the attribute, the member of the object in it that is a message, and its
role.
"""

_RESPONSE_KEYS = frozenset({"id", "name", "response", "parts", "scheduling", "will_continue"})


def by_its_author(message: Message) -> Message:
    """A message in the user's name that repeats what another agent wrote or did, as an agent's."""
    repeated = (
        message.role == "user" and message.text is not None and message.text.startswith(_RETOLD)
    )
    return replace(message, role="assistant") if repeated else message


def waits(result: Json) -> bool:
    """Whether a result is only the notice that the call waits for a person to confirm it."""
    error = result.get("error") if isinstance(result, dict) and len(result) == 1 else None
    return isinstance(error, str) and error.startswith(_UNCONFIRMED)


def complete_openinference(span: Span, facts: Facts) -> None:
    """Add to the facts of one of OpenInference's spans, in place."""
    if facts["kind"] in {"agent", "workflow"}:
        _complete_run(span, facts)
    elif facts["kind"] == "tool":
        _complete_tool(span, facts)
    elif facts["kind"] == "model":
        _complete_model(span, facts)


def _complete_run(span: Span, facts: Facts) -> None:
    """A run's new message and its last event, which are the question and the answer."""
    for fact, key, member, role in _RUN:
        recorded = structure(span.attributes.get(key))
        inside = _member(recorded.value, member)
        if isinstance(inside, dict):
            facts[fact] = messages([inside], role).messages
        elif recorded.damaged:
            add_damaged(facts, fact)


def _complete_tool(span: Span, facts: Facts) -> None:
    """Open the response around a result; arguments are left out where there are none."""
    result = facts.get("result")
    if isinstance(result, dict) and "name" in result and result.keys() <= _RESPONSE_KEYS:
        facts["has_result"] = "response" in result
        facts["result"] = gemini_calls.content(result.get("response"))
    if waits(facts.get("result")):
        facts["result"], facts["has_result"] = None, False
    if (
        INPUT_VALUE not in span.attributes
        and TOOL_NAME in span.attributes
        and not span.dropped_attributes_count
    ):
        facts["arguments"] = {}


def without_overlaps(_span: Span, items: Items) -> Items:
    """Flattened messages; without results where the second of several lies upon the message after
    them.
    """
    if not any(map(_overlaps, items)):
        return items
    with_content = [
        x for x in items if x.get("role") == "system" or not _CONTENT_KEYS.isdisjoint(x)
    ]
    return [
        {key: x for key, x in item.items() if key not in _RESULT_KEYS} if _overlaps(item) else item
        for item in with_content
    ]


def _overlaps(item: Mapping[str, Any]) -> bool:
    """Whether a message contains a result's keys beside text or calls, which are under keys of
    their own.
    """
    return not _CONTENT_KEYS.isdisjoint(item) and not _RESULT_KEYS.isdisjoint(item)


def _complete_model(span: Span, facts: Facts) -> None:
    """The messages of the whole request and response, since flattened ones overlap."""
    given, returned = (_object(span.attributes.get(x)) for x in (INPUT_VALUE, OUTPUT_VALUE))
    if isinstance(given.get("contents"), list):
        facts["input"], facts["system"] = messages(given["contents"]).messages, system_of(given)
        facts["tools"] = facts.get("tools") or configured_tools(given)
    elif any(
        isinstance(x.get("message"), dict) and _overlaps(x["message"])
        for x in indexed(span.attributes, _FLAT)
    ):
        add_damaged(facts, "input")
    if isinstance(returned.get("content"), dict):
        facts["output"] = messages([returned["content"]], "assistant").messages
    gemini_calls.without_envelopes(facts)
    if given_messages := facts.get("input"):
        facts["input"] = tuple(map(by_its_author, given_messages))


def _object(value: Value) -> Mapping[str, Any]:
    recorded = None if is_redacted(value) else structure(value).value
    return recorded if isinstance(recorded, dict) else {}


def _member(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


OPENINFERENCE = Quirk(
    name="google_adk",
    under="openinference",
    scopes=(_OPENINFERENCE,),
    items=without_overlaps,
    complete=complete_openinference,
    returns_state=True,
)
