"""Read what MLflow keeps of a stream: each chunk as an event of the span, of which its outputs
leave out the calls.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from spanscore.dialects.forms.ids import identity
from spanscore.dialects.forms.provider_bodies import conversation
from spanscore.dialects.forms.streams import LAST, whole
from spanscore.dialects.forms.structure import structure
from spanscore.dialects.forms.values import Facts, add_damaged, first_count, text
from spanscore.model.span import Event, Span
from spanscore.model.step import Message, MessageFact

_NAME = re.compile(r"mlflow\.chunk\.item\.(\d{1,9})")
_VALUE, _BEDROCK = "mlflow.chunk.value", "json"
_LISTED = "events"  # the attribute that had all chunks before there were events for them
_LOST: frozenset[MessageFact] = frozenset({"text", "calls"})
_INPUT_TOKENS = ("prompt_tokens", "input_tokens", "inputTokens")
_OUTPUT_TOKENS = ("completion_tokens", "output_tokens", "outputTokens")


class Chunks(NamedTuple):
    """What was streamed, as far as events contain it; `first` is the place of the first one that is
    there.
    """

    values: Sequence[Any]
    first: int = 0
    is_damaged: bool = False

    @property
    def are_all(self) -> bool:
        """Whether nothing of the stream is missing."""
        return self.first == 0 and not self.is_damaged


def chunks(span: Span, outputs: Any) -> Chunks | None:
    """The chunks of a span's stream; None where it has none.

    An SDK keeps 128 events of a span and drops the first; what a decorated generator yielded is in
    its outputs as well.
    """
    found = sorted(_numbered(span), key=_place) if span.events else []
    if not found:
        listed = structure(span.attributes.get(_LISTED))
        return (
            Chunks(listed.value, is_damaged=listed.damaged)
            if isinstance(listed.value, list)
            else None
        )
    if isinstance(outputs, list) and len(outputs) == len(found) + span.dropped_events_count:
        return Chunks(outputs)
    places = [x for x, _ in found]
    last = structure(found[-1][1])
    if isinstance(last.value, dict) and last.value.get("type") in LAST:
        return Chunks([last.value])
    parsed = [*(structure(x) for _, x in found[:-1]), last]
    has_gap = places != list(range(places[0], places[0] + len(places)))
    return Chunks([x.value for x in parsed], places[0], has_gap or any(x.damaged for x in parsed))


def _numbered(span: Span) -> Iterator[tuple[int, Any]]:
    """The values of the chunks, each with its place; those of Bedrock's have none but that they
    stand in.
    """
    dropped = span.dropped_events_count
    for at, event in enumerate(span.events):
        named = _NAME.fullmatch(event.name)
        if named is not None and _VALUE in event.attributes:
            yield int(named[1]), event.attributes[_VALUE]
        elif named is None and event.attributes.keys() == {_BEDROCK}:
            yield at + dropped, _named(event)


def _place(chunk: tuple[int, Any]) -> int:
    return chunk[0]


def _named(event: Event) -> Any:
    """An event of Bedrock's Converse under its name; those of its other API have their type."""
    value = structure(event.attributes[_BEDROCK]).value
    is_named = isinstance(value, dict) and value.get("type", "chunk") == event.name
    return value if is_named else {event.name: value}


def complete_model(streamed: Chunks, facts: Facts) -> None:
    """Put the streamed answer into a model call's facts."""
    response = whole(streamed.values)
    if response is None:
        return
    add_response(response, facts)
    streamed_messages, recorded = conversation(response, "assistant") or (), facts.get("output")
    if streamed.are_all and any(x.text or x.reasoning or x.calls for x in streamed_messages):
        facts["output"] = streamed_messages
    elif recorded:
        facts["output"] = _with_streamed_calls(
            recorded, streamed_messages, streamed, facts["finish_reasons"]
        )
    else:
        facts["output"] = tuple(replace(x, damaged=_LOST) for x in streamed_messages)
        add_damaged(facts, "output")


def add_response(response: Mapping[str, Any], facts: Facts) -> None:
    """What a response contains beside its messages, where nothing else does."""
    facts["response_id"] = facts.get("response_id") or identity(response.get("id"))
    facts["model"] = facts.get("model") or text(response.get("model"))
    usage = response.get("usage")
    if (
        isinstance(usage, dict)
        and facts.get("input_tokens") is None
        and facts.get("output_tokens") is None
    ):
        facts["input_tokens"], facts["output_tokens"] = (
            first_count(usage, _INPUT_TOKENS),
            first_count(usage, _OUTPUT_TOKENS),
        )
    choices = response.get("choices")
    reasons = (
        [x.get("finish_reason") for x in choices if isinstance(x, dict)]
        if isinstance(choices, list)
        else []
    )
    reasons += [response.get("stop_reason"), response.get("stopReason")]
    facts["finish_reasons"] = tuple(x for x in reasons if isinstance(x, str)) or facts.get(
        "finish_reasons", ()
    )


def _with_streamed_calls(
    recorded: tuple[Message, ...],
    streamed_messages: tuple[Message, ...],
    streamed: Chunks,
    reasons: tuple[str, ...],
) -> tuple[Message, ...]:
    """The text as MLflow combined it, with the calls that the chunks still contain."""
    calls = tuple(call for x in streamed_messages for call in x.calls)
    *earlier, last = recorded
    last = replace(last, text=last.text or None)
    has_requested = any("tool" in x or x == "function_call" for x in reasons)
    if streamed.is_damaged or (has_requested and not _begins_before_calls(streamed)):
        last = replace(last, damaged=last.damaged | {"calls"})
    return (*earlier, replace(last, calls=calls) if len(calls) > len(last.calls) else last)


def _begins_before_calls(streamed: Chunks) -> bool:
    """Whether the first chunk that is there comes before all calls, of which some come later."""
    have_calls = [
        any(isinstance(x, dict) and x.get("tool_calls") for x in _deltas(chunk))
        for chunk in streamed.values
    ]
    return not have_calls[0] and any(have_calls)


def _deltas(chunk: Any) -> Iterator[Any]:
    listed = chunk.get("choices") if isinstance(chunk, dict) else None
    yield from (
        (x.get("delta") for x in listed if isinstance(x, dict)) if isinstance(listed, list) else ()
    )


def complete_function(streamed: Chunks, facts: Facts) -> None:
    """Put the sum of what a generator yielded into its facts: texts, or the chunks of a model's
    answer.
    """
    if streamed.values and all(isinstance(x, str) for x in streamed.values):
        facts["output_text"], facts["output_json"] = "".join(streamed.values), None
    else:
        response = whole(streamed.values)
        if response is None:
            return
        facts["output"], facts["output_json"] = conversation(response, "assistant"), None
    if not streamed.are_all:
        add_damaged(facts, "output")
