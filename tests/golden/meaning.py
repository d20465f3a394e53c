"""Writes the cases `meaning-*`: what a record means, one kind a case, in spans written by hand.

Run `python tests/golden/meaning.py`, then `pytest tests/golden -k meaning --write-golden`.
"""

import gzip
import json
from pathlib import Path

from spanscore.otlp import codec as otlp

FOLDER = Path(__file__).parent / "semconv"
SOURCE = """\
Written by hand (tests/golden/meaning.py): {what}
No provider, no person's data.
Licence: Apache-2.0, like the rest of this repository.
"""
QUESTION, ANSWER = "Is the atlas on the shelf?", "Yes, on shelf 7."
SHELF = {"type": "function", "name": "shelf", "description": "Where a book stands"}
BEGIN_NS = 1_790_000_000_000_000_000
STEP_NS = 100_000_000


def text(role, content, **more):
    return {"role": role, "parts": [{"type": "text", "content": content}], **more}


def called(*calls):
    parts = [
        {"type": "tool_call", "id": id_, "name": name, "arguments": given}
        for id_, name, given in calls
    ]
    return {"role": "assistant", "parts": parts}


def told(*results):
    parts = [{"type": "tool_call_response", "id": id_, "response": x} for id_, x in results]
    return {"role": "tool", "parts": parts}


ASKED = text("user", QUESTION)
CALL, RESULT = called(("c1", "shelf", {"book": "atlas"})), told(("c1", {"shelf": 7}))
ANSWERED = text("assistant", ANSWER)


class Spans:
    """The spans of a case, one after the other, each of one step in time."""

    def __init__(self, trace_id="a" * 32):
        self.trace_id = trace_id
        self.spans = []

    def add(self, name, parent="", error=None, **attributes):
        """Add a span; `error` is the type of the exception that left it."""
        number = len(self.spans) + 1
        span_id = f"{number:016x}"
        stated = {key.replace("__", "."): value for key, value in attributes.items()}
        span = {
            "traceId": self.trace_id,
            "spanId": span_id,
            "parentSpanId": parent,
            "name": name,
            "kind": 1,
            "startTimeUnixNano": str(BEGIN_NS + number * STEP_NS),
            "endTimeUnixNano": str(BEGIN_NS + (number + 1) * STEP_NS),
            "attributes": [{"key": k, "value": _value(v)} for k, v in stated.items()],
        }
        if error is not None:
            raised = [{"key": "exception.type", "value": {"stringValue": error}}]
            span["status"] = {"code": 2}
            span["events"] = [
                {"name": "exception", "timeUnixNano": span["endTimeUnixNano"], "attributes": raised}
            ]
        self.spans.append(span)
        return span_id

    def agent(self, parent="", **more):
        return self.add(
            "invoke_agent librarian",
            parent,
            gen_ai__operation__name="invoke_agent",
            gen_ai__agent__name="librarian",
            **more,
        )

    def chat(self, parent, given, produced=None, **more):
        content = {"gen_ai__input__messages": given, "gen_ai__output__messages": produced}
        content = {key: json.dumps(x) for key, x in content.items() if x is not None}
        if more.pop("offers", False):
            content["gen_ai__tool__definitions"] = json.dumps([SHELF])
        return self.add(
            "chat",
            parent,
            gen_ai__operation__name="chat",
            gen_ai__request__model="m-1",
            **content,
            **more,
        )

    def tool(self, parent, call_id="c1", result=None, given=None, **more):
        content = {} if result is None else {"gen_ai__tool__call__result": json.dumps(result)}
        if call_id is not None:
            content["gen_ai__tool__call__id"] = call_id
        if given is not None:
            content["gen_ai__tool__call__arguments"] = json.dumps(given)
        return self.add(
            "execute_tool shelf",
            parent,
            gen_ai__operation__name="execute_tool",
            gen_ai__tool__name="shelf",
            **content,
            **more,
        )

    def loop(self, parent, system=()):
        """A question, a call of the tool and the answer."""
        given = [*system, ASKED]
        self.chat(parent, given, [CALL], offers=True)
        self.tool(parent, "c1", {"shelf": 7}, {"book": "atlas"})
        self.chat(parent, [*given, CALL, RESULT], [ANSWERED], offers=True)


def _value(value):
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def failed(spans):
    """The model answers HTTP 400, and the agent fails."""
    root = spans.agent(error="BadRequestError")
    spans.chat(root, [ASKED], error="BadRequestError")


def cancelled(spans):
    """The turn is cancelled while the model answers."""
    root = spans.agent(error="asyncio.exceptions.CancelledError")
    spans.chat(root, [ASKED], error="asyncio.exceptions.CancelledError")


def waiting(spans):
    """A tool waits for a person's approval."""
    root = spans.agent()
    spans.chat(root, [ASKED], [CALL], offers=True)
    spans.tool(root, given={"book": "atlas"}, error="pydantic_ai.exceptions.ApprovalRequired")


def utility(spans):
    """A guard before and after the loop, and a title; none of them is the answer."""
    root = spans.add("POST /ask")
    guard = text("system", "Is this text harmless? Answer yes or no.")
    spans.chat(root, [guard, ASKED], [text("assistant", "yes")])
    spans.loop(root, [text("system", "You are the librarian.")])
    spans.chat(root, [guard, text("user", ANSWER)], [text("assistant", "yes")])
    titling = text("system", "Write a title.")
    spans.chat(
        root, [titling, text("user", f"{QUESTION}\n{ANSWER}")], [text("assistant", "The atlas")]
    )


def hosted(spans):
    """The provider runs a search and an MCP server's tool, and answers in the same response."""
    items = [
        {
            "type": "web_search_call",
            "id": "w1",
            "status": "completed",
            "action": {"query": "atlas"},
        },
        {
            "type": "mcp_call",
            "id": "m1",
            "name": "shelf",
            "server_label": "library",
            "arguments": '{"book": "atlas"}',
            "output": '{"shelf": 7}',
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": ANSWER}],
        },
    ]
    spans.chat(spans.agent(), [ASKED], items)


def pairing(spans):
    """Two calls at once end in another order, and their spans have no id."""
    root = spans.agent()
    calls = called(("c1", "shelf", {"book": "atlas"}), ("c2", "shelf", {"book": "dune"}))
    spans.chat(root, [ASKED], [calls], offers=True)
    spans.tool(root, None, {"shelf": 9})
    spans.tool(root, None, {"shelf": 7})
    results = told(("c1", {"shelf": 7}), ("c2", {"shelf": 9}))
    spans.chat(root, [ASKED, calls, results], [ANSWERED], offers=True)


def attachments(spans):
    """A picture beside the question, and one in the history, without their bytes."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBO" * 90}}
    lying = {
        "type": "uri",
        "modality": "image",
        "mime_type": "image/png",
        "uri": "https://x.test/a",
    }
    before = [
        {"role": "user", "parts": [{"type": "text", "content": "And this?"}, lying]},
        text("assistant", "A globe."),
    ]
    asked = {"role": "user", "parts": [*ASKED["parts"], picture]}
    spans.chat(spans.agent(), [*before, asked], [ANSWERED])


def runs(spans):
    """A batch job that asks the same agent twice, each time in a span of its own."""
    job = spans.add("nightly job")
    for _ in range(2):
        spans.loop(spans.add("one book", job))


def thoughts(spans):
    """Thoughts in tags before a call and before the answer."""
    root = spans.agent()
    thinking = {
        **CALL,
        "parts": [{"type": "text", "content": "<think>Look it up.</think>"}, *CALL["parts"]],
    }
    spans.chat(root, [ASKED], [thinking])
    spans.tool(root, "c1", {"shelf": 7})
    said = text("assistant", f"<think>Shelf 7, then.</think>\n{ANSWER}")
    spans.chat(root, [ASKED, thinking, RESULT], [said])


def parts(spans):
    """A part of a kind that nobody knows: its text is in the history, or the history is damaged."""
    known = {"role": "assistant", "parts": [{"type": "compaction", "content": "Ana has a card."}]}
    unknown = {"role": "assistant", "parts": [{"type": "hologram", "of": {"x": 1}}]}
    spans.chat(spans.agent(), [known, unknown, ASKED], [ANSWERED])


def masked(spans):
    """A mark inside a sentence damages it."""
    spans.chat(spans.agent(), [text("user", "Renew card [CARD_ID_1].")], [ANSWERED])


def choices(spans):
    """Of several choices the first is the answer."""
    others = [text("assistant", "Shelf 7."), text("assistant", "I do not know.")]
    spans.chat(spans.agent(), [ASKED], [ANSWERED, *others], gen_ai__request__choice__count=3)


def sessions(spans):
    """A session under a name of the author's own."""
    spans.chat(spans.agent(thread_id="desk-4", user_id="ana"), [ASKED], [ANSWERED])


def partial(spans):
    """The model call that asked for the tool did not arrive."""
    root = spans.agent()
    spans.chat(root, [ASKED, CALL, RESULT], [ANSWERED], offers=True)


CASES = (
    *(failed, cancelled, waiting, utility, hosted, pairing, attachments, runs, thoughts, parts),
    *(masked, choices, sessions, partial),
)


def main():
    for case in CASES:
        spans = Spans()
        case(spans)
        resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "library"}}]}
        scoped = [{"scope": {"name": "library.desk"}, "spans": spans.spans}]
        request = {"resourceSpans": [{"resource": resource, "scopeSpans": scoped}]}
        folder = FOLDER / f"meaning-{case.__name__}"
        folder.mkdir(exist_ok=True)
        content = otlp.from_object("traces", request).SerializeToString(deterministic=True)
        (folder / "traces.pb.gz").write_bytes(gzip.compress(content, mtime=0))
        (folder / "SOURCE").write_text(SOURCE.format(what=case.__doc__))


if __name__ == "__main__":
    main()
