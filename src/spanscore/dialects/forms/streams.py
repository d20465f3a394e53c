"""Chunks of a stream, combined into one response."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from spanscore.dialects.forms.structure import as_list, as_object, structure

Chunk: TypeAlias = dict[str, Any]

LAST: Final = ("response.completed", "response.incomplete", "response.failed")
"""The events with which a stream of OpenAI's Responses ends, each with all of the response."""

_TEXTS = ("content", "reasoning_content", "refusal")
_MESSAGES = (
    "message_start",
    "message_delta",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
)


def whole(chunks: Sequence[Any]) -> Chunk | None:
    """The response that chunks add up to, whatever of them is there; None where they are of no
    known kind.

    Of a stream that broke off, calls are left out whose arguments are no JSON yet.

    >>> whole(
    ...     [
    ...         {"choices": [{"delta": {"content": "It "}}]},
    ...         {"choices": [{"delta": {"content": "rains."}}]},
    ...     ]
    ... )
    {'choices': [{'message': {'role': 'assistant', 'content': 'It rains.'}, 'finish_reason': None}]}
    """
    objects = [x for x in chunks if isinstance(x, dict)]
    combine = next((reader for x in objects if (reader := _reader(x)) is not None), None)
    return None if combine is None else combine(objects)


def _reader(chunk: Chunk) -> Callable[[Sequence[Chunk]], Chunk] | None:
    kind = chunk.get("type")
    if isinstance(kind, str):
        if kind.startswith("response."):
            return _of_responses
        return _of_messages if kind in _MESSAGES else None
    choices = chunk.get("choices")
    if isinstance(choices, list) and any(
        isinstance(x, dict) and isinstance(x.get("delta"), dict) for x in choices
    ):
        return _of_chat
    return _of_converse if not _CONVERSE.keys().isdisjoint(chunk) else None


class _Call:
    """A tool call as it streams in: its arguments come in pieces, all else mostly with the
    first.
    """

    __slots__ = ("identity", "name", "pieces")

    def __init__(self, identity: Any = None, name: Any = None) -> None:
        self.identity, self.name = identity, name
        self.pieces: list[str] = []

    @property
    def arguments(self) -> str:
        """What came of them so far, as JSON."""
        return "".join(self.pieces)

    @property
    def is_whole(self) -> bool:
        """Whether its arguments are all there; a call may have none."""
        return not self.pieces or not structure(self.arguments).damaged


class _Choice:
    """One of the answers in a stream of chat completions."""

    __slots__ = ("at", "calls", "reason", "texts")

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}
        self.calls: list[_Call] = []
        self.at: dict[Any, _Call] = {}
        self.reason: str | None = None

    def take(self, delta: Chunk) -> None:
        for key in _TEXTS:
            if pieces := _texts(delta.get(key)):
                self.texts.setdefault(key, []).extend(pieces)
        for piece in as_list(delta.get("tool_calls")):
            if isinstance(piece, dict):
                self._take_call(piece)
        if isinstance(delta.get("function_call"), dict):
            self._take_call({"index": "function_call", "function": delta["function_call"]})

    def _take_call(self, piece: Chunk) -> None:
        """By its index; some give none, or the same to several calls, which then differ in their
        ids.
        """
        index, identity, function = piece.get("index"), piece.get("id"), piece.get("function")
        place = index if isinstance(index, (int, str)) else None
        call = self.at.get(place)
        if call is None or (identity and call.identity and identity != call.identity):
            call = self.at[place] = _Call()
            self.calls.append(call)
        call.identity = call.identity or identity
        if isinstance(function, dict):
            call.name = call.name or function.get("name")
            call.pieces += _texts(function.get("arguments"))

    def message(self) -> Chunk:
        texts = {key: "".join(pieces) for key, pieces in self.texts.items()}
        text = texts.get("content") or texts.get("refusal")
        calls = [x for x in self.calls if x.name and (self.reason is not None or x.is_whole)]
        found: Chunk = {
            "role": "assistant",
            "content": text or (None if calls or "content" not in texts else ""),
        }
        if texts.get("reasoning_content"):
            found["reasoning_content"] = texts["reasoning_content"]
        if calls:
            found["tool_calls"] = [
                {"id": call.identity, "function": {"name": call.name, "arguments": call.arguments}}
                for call in calls
            ]
        return found


def _of_chat(chunks: Sequence[Chunk]) -> Chunk:
    """A chat completion, as OpenAI and many others stream it."""
    choices: dict[Any, _Choice] = {}
    found: Chunk = {}
    for chunk in chunks:
        found |= {key: chunk[key] for key in ("id", "model", "usage") if chunk.get(key)}
        for listed_choice in as_list(chunk.get("choices")):
            if not isinstance(listed_choice, dict):
                continue
            index = listed_choice.get("index")
            choice = choices.setdefault(index if isinstance(index, int) else 0, _Choice())
            if isinstance(listed_choice.get("delta"), dict):
                choice.take(listed_choice["delta"])
            if isinstance(listed_choice.get("finish_reason"), str):
                choice.reason = listed_choice["finish_reason"]
    answers = [
        {"message": x.message(), "finish_reason": x.reason} for _, x in sorted(choices.items())
    ]
    return {**found, "choices": answers}


def _of_responses(chunks: Sequence[Chunk]) -> Chunk:
    """A response of OpenAI's, as its last event contains it; else the items that were done, and
    texts until then.
    """
    response: Chunk = {}
    items: list[Chunk] = []
    texts: dict[Any, list[str]] = {}
    for chunk in chunks:
        kind, inside = chunk.get("type"), chunk.get("item")
        if kind in LAST and isinstance(chunk.get("response"), dict):
            response = chunk["response"]
        elif kind == "response.output_item.done" and isinstance(inside, dict):
            items.append(inside)
            texts.pop(_place(chunk, inside), None)
        elif kind == "response.output_text.delta":
            texts.setdefault(_place(chunk, {}), []).extend(_texts(chunk.get("delta")))
    for pieces in texts.values():
        content = [{"type": "output_text", "text": "".join(pieces)}]
        items.append({"type": "message", "role": "assistant", "content": content})
    return {**response, "output": response.get("output") or items}


def _place(chunk: Chunk, item: Chunk) -> int | str | None:
    """Where in the output an event belongs: some number the items, some only name them."""
    named = (chunk.get("output_index"), chunk.get("item_id"), item.get("id"))
    return next((x for x in named if isinstance(x, (int, str))), None)


class _Blocks:
    """The blocks of a message of Anthropic's or Bedrock's, by index."""

    __slots__ = ("blocks", "ended")

    def __init__(self) -> None:
        self.blocks: dict[Any, tuple[Chunk, dict[str, list[str]]]] = {}
        self.ended = False

    def at(self, chunk: Chunk, key: str, begun: Chunk | None = None) -> dict[str, list[str]]:
        """The pieces of the block that a chunk is about, by what they are."""
        index = chunk.get(key)
        place = index if isinstance(index, int) else None
        if begun is not None or place not in self.blocks:
            self.blocks[place] = begun or {}, {}
        return self.blocks[place][1]


def _of_messages(chunks: Sequence[Chunk]) -> Chunk:
    """A message of Anthropic's."""
    content, found = _Blocks(), {"role": "assistant"}
    usage: Chunk = {}
    for chunk in chunks:
        started = chunk.get("message") if chunk.get("type") == "message_start" else None
        if isinstance(started, dict):
            found |= {key: started[key] for key in ("id", "model") if key in started}
            usage |= _usage(started)
        usage |= _usage(chunk)
        _add_chunk(chunk, content, found)
    blocks = [_block(begun, pieces, content) for begun, pieces in content.blocks.values()]
    return {**found, "usage": usage, "content": [x for x in blocks if x is not None]}


def _usage(holder: Chunk) -> Chunk:
    """The token counts that a chunk states."""
    counted = holder.get("usage")
    return (
        {key: x for key, x in counted.items() if x is not None} if isinstance(counted, dict) else {}
    )


def _add_chunk(chunk: Chunk, content: _Blocks, found: dict[str, str]) -> None:
    """Add what a chunk has of a block, or why the answer ended."""
    kind, delta = chunk.get("type"), chunk.get("delta")
    if kind == "content_block_start":
        content.at(chunk, "index", as_object(chunk.get("content_block")))
    elif not isinstance(delta, dict):
        return
    elif kind == "content_block_delta":
        _add(content.at(chunk, "index"), delta, ("text", "partial_json", "thinking"))
    elif kind == "message_delta" and isinstance(delta.get("stop_reason"), str):
        found["stop_reason"], content.ended = delta["stop_reason"], True


def _block(begun: Chunk, pieces: dict[str, list[str]], content: _Blocks) -> Chunk | None:
    texts = {key: "".join(x) for key, x in pieces.items()}
    if isinstance(begun.get("name"), str):
        given = texts.get("partial_json") or begun.get("input", "")
        return None if not content.ended and structure(given).damaged else {**begun, "input": given}
    if "thinking" in texts or begun.get("type") == "thinking":
        return {
            "type": "thinking",
            "thinking": f"{begun.get('thinking') or ''}{texts.get('thinking', '')}",
        }
    if "text" in texts or begun.get("type") == "text":
        return {"type": "text", "text": f"{begun.get('text') or ''}{texts.get('text', '')}"}
    return begun or None


def _of_converse(chunks: Sequence[Chunk]) -> Chunk:
    """A response of Bedrock's Converse, from events that are objects with one key."""
    blocks, found = _Blocks(), Chunk()
    for chunk in chunks:
        for name, take in _CONVERSE.items():
            if isinstance(chunk.get(name), dict):
                take(chunk[name], blocks, found)
    content = [_converse_block(begun, pieces, blocks) for begun, pieces in blocks.blocks.values()]
    message = {"role": "assistant", "content": [x for x in content if x is not None]}
    return {**found, "output": {"message": message}}


def _converse_started(event: Chunk, blocks: _Blocks, _found: Chunk) -> None:
    blocks.at(event, "contentBlockIndex", as_object(event.get("start")))


def _converse_delta(event: Chunk, blocks: _Blocks, _found: Chunk) -> None:
    delta = event.get("delta")
    if not isinstance(delta, dict):
        return
    pieces = blocks.at(event, "contentBlockIndex")
    _add(pieces, delta, ("text",))
    for key, inner in (("toolUse", "input"), ("reasoningContent", "text")):
        if isinstance(delta.get(key), dict):
            pieces.setdefault(key, []).extend(_texts(delta[key].get(inner)))


def _converse_stopped(event: Chunk, blocks: _Blocks, found: Chunk) -> None:
    if isinstance(event.get("stopReason"), str):
        found["stopReason"], blocks.ended = event["stopReason"], True


def _converse_metadata(event: Chunk, _blocks: _Blocks, found: Chunk) -> None:
    found["usage"] = event.get("usage")


_CONVERSE: dict[str, Callable[[Chunk, _Blocks, Chunk], None]] = {
    "contentBlockStart": _converse_started,
    "contentBlockDelta": _converse_delta,
    "messageStop": _converse_stopped,
    "metadata": _converse_metadata,
}


def _converse_block(begun: Chunk, pieces: dict[str, list[str]], blocks: _Blocks) -> Chunk | None:
    texts = {key: "".join(x) for key, x in pieces.items()}
    used = begun.get("toolUse")
    if isinstance(used, dict):
        given = texts.get("toolUse", "")
        if not blocks.ended and structure(given).damaged:
            return None
        return {"toolUse": {**used, "input": given}}
    if "reasoningContent" in texts:
        return {"reasoningContent": {"reasoningText": {"text": texts["reasoningContent"]}}}
    return {"text": texts["text"]} if "text" in texts else None


def _add(pieces: dict[str, list[str]], delta: Chunk, keys: Sequence[str]) -> None:
    for key in keys:
        if key in delta:
            pieces.setdefault(key, []).extend(_texts(delta[key]))


def _texts(value: Any) -> list[str]:
    """The texts of a delta, which is one, or a list of parts with one each."""
    if isinstance(value, list):
        inside = (x.get("text") for x in value if isinstance(x, dict) and x.get("type") == "text")
        return [x for x in inside if isinstance(x, str)]
    return [value] if isinstance(value, str) else []
