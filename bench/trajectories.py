"""Labelled trajectories of public benchmarks, as sessions of agent traces: what the studies in this
folder rest on.

A trajectory is turned into GenAI spans (one trace a turn, a `chat` span for each answer of the
model, an `execute_tool` span for each call) and rebuilt like any other telemetry, so that a study
sees what a user would see. Formats:

- tau-bench (https://github.com/sierra-research/tau-bench, MIT): a JSON array of {task_id, trial,
  reward, info, traj};
- tau2-bench (https://github.com/sierra-research/tau2-bench, MIT): {tasks, simulations: [{task_id,
  trial, reward_info, messages}]};
- InterCode (https://github.com/princeton-nlp/intercode, MIT): {number: {task_id, query,
  turn_history: {actions, observations}, summary: {max_reward}}}, what its experiments write; each
  action is a call of `execute`;
- MINT (https://github.com/xingyaoww/mint-bench, Apache-2.0): a line of JSON for each {task:
  {task_id}, state: {history, success}}; what stands in `<execute>` and `<solution>` are calls of
  `execute` and `propose_solution`;
- events, into which any other format is easily turned: a line of JSON for each {task, cluster,
  success, system, tools, events}; an event is ["user", text], ["thought", text], ["assistant",
  text], ["call", id, tool, arguments] or ["result", id, text]. Runs of one `cluster`, which may be
  missing, are not independent.

Files may be compressed by gzip or xz. Benchmarks record no times: here a step takes a second, on a
clock that nobody takes for set.
"""

import gzip
import hashlib
import itertools
import lzma
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spanscore import rebuild_all
from spanscore.model.json import dumps, loads
from spanscore.model.span import STATUS_UNSET, Resource, Scope, Span
from spanscore.model.trace import Session

_SECOND_NS = 1_000_000_000
# in 1970: what reads the trajectories takes it for a clock that was not set
_STARTED_NS = _SECOND_NS
_SCOPE = Scope("bench.trajectories")
_TAGGED = re.compile(r"<(?P<tag>execute|solution)>(?P<text>.*?)(?:</(?P=tag)>|\Z)", re.DOTALL)
_OF_MINT = {"task", "state"}
_OF_WORKBENCH = {"task", "cluster", "success", "system", "tools", "events"}
_END_OF_TALK = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")


class Action(NamedTuple):
    """A tool call that the benchmark expects."""

    name: str
    arguments: Mapping[str, Any]


class Trajectory(NamedTuple):
    """One labelled run. Runs of the same `task` are not independent of each other."""

    corpus: str
    task: str
    trial: int
    passed: bool
    session: Session
    expected: tuple[Action, ...]


def read(path: Path) -> Iterator[Trajectory]:
    """The trajectories in a file of one of the formats above.

    Raises ValueError for any other format.
    """
    raw = _unpacked(path)
    corpus = path.name.partition(".json")[0]
    if ".jsonl" in path.suffixes:
        lines = [loads(line) for line in raw.splitlines() if line.strip()]
        if all(isinstance(x, dict) and {"task", "events"} <= x.keys() for x in lines):
            yield from (_of_events(corpus, place, x) for place, x in enumerate(lines))
            return
        if not all(isinstance(x, dict) and {"task", "state"} <= x.keys() for x in lines):
            raise _unknown_format(path)
        yield from (_of_mint(corpus, x) for x in lines)
        return
    data = loads(raw)
    if isinstance(data, list) and data and "traj" in data[0]:
        yield from (_of_tau_bench(corpus, item) for item in data)
    elif isinstance(data, dict) and "simulations" in data:
        yield from _of_tau2_bench(corpus, data)
    elif isinstance(data, dict) and all(
        isinstance(x, dict) and "turn_history" in x for x in data.values()
    ):
        yield from (_of_intercode(corpus, x) for x in data.values())
    else:
        raise _unknown_format(path)


def _unpacked(path: Path) -> bytes:
    unpack = {".gz": gzip.decompress, ".xz": lzma.decompress}.get(path.suffix)
    return unpack(path.read_bytes()) if unpack else path.read_bytes()


def _unknown_format(path: Path) -> ValueError:
    return ValueError(f"{path}: in none of the formats that bench/trajectories.py lists")


def _of_tau_bench(corpus: str, item: Mapping[str, Any]) -> Trajectory:
    actions = item["info"]["task"]["actions"]
    return Trajectory(
        corpus,
        str(item["task_id"]),
        item["trial"],
        item["reward"] == 1,
        session_of(f"{corpus}-{item['task_id']}-{item['trial']}", item["traj"]),
        tuple(Action(x["name"], x["kwargs"]) for x in actions),
    )


def _of_tau2_bench(corpus: str, data: Mapping[str, Any]) -> Iterator[Trajectory]:
    expected = {
        task["id"]: (task.get("evaluation_criteria") or {}).get("actions") or ()
        for task in data["tasks"]
    }
    for item in data["simulations"]:
        yield Trajectory(
            corpus,
            str(item["task_id"]),
            item.get("trial") or 0,
            (item.get("reward_info") or {}).get("reward") == 1,
            session_of(
                f"{corpus}-{item['task_id']}-{item.get('trial') or 0}",
                [_as_chat(x) for x in item["messages"]],
            ),
            tuple(Action(x["name"], x["arguments"]) for x in expected.get(item["task_id"], ())),
        )


def _of_intercode(corpus: str, item: Mapping[str, Any]) -> Trajectory:
    messages: list[dict[str, Any]] = [{"role": "user", "content": item["query"]}]
    done = item["turn_history"]
    steps = itertools.zip_longest(done["actions"], done["observations"][: len(done["actions"])])
    for place, (action, observation) in enumerate(steps):
        messages += _call_and_result(place, "execute", {"code": action}, "", observation)
    passed = item["summary"]["max_reward"] == 1
    return Trajectory(
        corpus,
        str(item["task_id"]),
        0,
        passed,
        session_of(f"{corpus}-{item['task_id']}", messages),
        (),
    )


def _of_mint(corpus: str, item: Mapping[str, Any]) -> Trajectory:
    first, *others = item["state"]["history"]
    messages: list[dict[str, Any]] = [{"role": "user", "content": first["content"]}]
    for place, (message, after) in enumerate(zip(others, [*others[1:], None], strict=True)):
        if message["role"] != "assistant":
            continue
        found = _TAGGED.search(message["content"])
        if found is None:
            messages.append({"role": "assistant", "content": message["content"]})
            continue
        name = "execute" if found["tag"] == "execute" else "propose_solution"
        said = message["content"][: found.start()].strip()
        result = None if after is None else after["content"]
        messages += _call_and_result(place, name, {"text": found["text"].strip()}, said, result)
    task = str(item["task"].get("task_id") or item["task"].get("id"))
    session = session_of(f"{corpus}-{task}", messages)
    return Trajectory(corpus, task, 0, bool(item["state"]["success"]), session, ())


def _of_events(corpus: str, place: int, item: Mapping[str, Any]) -> Trajectory:
    system = {"role": "system", "content": item.get("system") or ""}
    task = str(item.get("cluster") or item["task"])
    messages = [system, *_messages_of(item["events"])]
    session = session_of(f"{corpus}-{place}", messages, item.get("tools") or ())
    return Trajectory(corpus, task, place, bool(item["success"]), session, ())


def _messages_of(events: Sequence[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Messages; a thought is in the message of the call or answer after it."""
    thoughts: list[str] = []
    for kind, *fields in events:
        text = fields[0] if isinstance(fields[0], str) else dumps(fields[0])
        match kind:
            case "thought":
                thoughts.append(text)
            case "user":
                yield {"role": "user", "content": text}
            case "result":
                yield {"role": "tool", "tool_call_id": fields[0], "content": fields[1]}
            case "call":
                said, thoughts = "\n\n".join(thoughts), []
                yield _asking(*fields, said)
            case "assistant":
                said, thoughts = "\n\n".join([*thoughts, text]), []
                yield {"role": "assistant", "content": said}


def _asking(call_id: str, name: str, arguments: Any, said: str = "") -> dict[str, Any]:
    """A message of the agent that calls a tool."""
    call = {"id": call_id, "function": {"name": name, "arguments": dumps(arguments)}}
    return {"role": "assistant", "content": said, "tool_calls": [call]}


def _call_and_result(
    place: int, name: str, arguments: Mapping[str, Any], said: str, result: str | None
) -> list[dict[str, Any]]:
    """A message of the agent that calls a tool, and what came back, where something did."""
    call_id = f"call-{place}"
    asking = _asking(call_id, name, arguments, said)
    if result is None:
        return [asking]
    return [asking, {"role": "tool", "tool_call_id": call_id, "content": result}]


def _as_chat(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of tau2-bench in the form of tau-bench's, which is that of OpenAI's chat
    completions.
    """
    calls = [
        {"id": x["id"], "function": {"name": x["name"], "arguments": dumps(x["arguments"])}}
        for x in message.get("tool_calls") or ()
    ]
    return {**message, "tool_calls": calls, "tool_call_id": message.get("id")}


def session_of(
    session_id: str, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] = ()
) -> Session:
    """The session in a chat's messages: each message of the user that the agent answered opens a
    turn.
    """
    spans: list[Span] = []
    seen: list[dict[str, Any]] = []
    instructions = "\n".join(str(x["content"]) for x in messages if x["role"] == "system")
    of_request = {"gen_ai.system_instructions": dumps([{"type": "text", "content": instructions}])}
    if tools:
        of_request["gen_ai.tool.definitions"] = dumps([x.get("function", x) for x in tools])
    now_ns = _STARTED_NS
    for turn in _turns([x for x in messages if x["role"] != "system"]):
        found = list(_spans_of_turn(session_id, of_request, seen, turn, now_ns))
        spans += found
        now_ns = max(x.end_ns for x in found) + _SECOND_NS
    return Session(session_id, tuple(rebuild_all(spans)))


def _turns(messages: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    turns: list[list[Mapping[str, Any]]] = []
    for message in messages:
        if message["role"] == "user" or not turns:
            turns.append([])
        turns[-1].append({**message, "content": _without_marks(message.get("content"))})
    return [turn for turn in turns if any(x["role"] == "assistant" for x in turn)]


def _without_marks(content: Any) -> str:
    """A message's text without the marks by which a simulated user ends the conversation."""
    text = content if isinstance(content, str) else ""
    for mark in _END_OF_TALK:
        text = text.replace(mark, "")
    return text.strip()


def _spans_of_turn(
    session_id: str,
    of_request: Mapping[str, Any],
    seen: list[dict[str, Any]],
    turn: Sequence[Mapping[str, Any]],
    start_ns: int,
) -> Iterator[Span]:
    """The spans of one turn; `seen` is the conversation before it, to which the turn's messages are
    added, `given` what each model call has besides.
    """
    trace_id = _id(session_id, str(start_ns), digits=32)
    now_ns = start_ns
    children: list[tuple[str, dict[str, Any]]] = []
    results = {x.get("tool_call_id"): x for x in turn if x["role"] == "tool"}
    for message in turn:
        parts = _parts(message)
        if message["role"] == "assistant":
            children.append(
                (
                    "chat",
                    {
                        "gen_ai.operation.name": "chat",
                        "gen_ai.request.model": "recorded",
                        **of_request,
                        "gen_ai.input.messages": dumps(seen),
                        "gen_ai.output.messages": dumps(
                            [{"role": "assistant", "parts": parts, "finish_reason": "stop"}]
                        ),
                    },
                )
            )
            children += [
                (f"execute_tool {part['name']}", _tool_attributes(part, results))
                for part in parts
                if part["type"] == "tool_call"
            ]
        seen.append({"role": message["role"], "parts": parts})
    for place, (name, attributes) in enumerate(children):
        now_ns += _SECOND_NS
        of_session = {"gen_ai.conversation.id": session_id, **attributes}
        span_id = _id(trace_id, str(place), digits=16)
        yield _span(
            trace_id,
            span_id,
            _id(trace_id, "root", digits=16),
            name,
            now_ns - _SECOND_NS,
            now_ns,
            of_session,
        )
    root = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "agent",
        "gen_ai.conversation.id": session_id,
    }
    yield _span(
        trace_id, _id(trace_id, "root", digits=16), "", "invoke_agent agent", start_ns, now_ns, root
    )


def _parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    if message["role"] == "tool":
        return [
            {
                "type": "tool_call_response",
                "id": message.get("tool_call_id"),
                "response": message["content"],
            }
        ]
    parts: list[dict[str, Any]] = (
        [{"type": "text", "content": message["content"]}] if message["content"] else []
    )
    for call in message.get("tool_calls") or ():
        arguments = loads(call["function"]["arguments"] or "{}")
        parts.append(
            {
                "type": "tool_call",
                "id": call["id"],
                "name": call["function"]["name"],
                "arguments": arguments,
            }
        )
    return parts


def _tool_attributes(
    part: Mapping[str, Any], results: Mapping[Any, Mapping[str, Any]]
) -> dict[str, Any]:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": part["name"],
        "gen_ai.tool.call.id": part["id"],
        "gen_ai.tool.call.arguments": dumps(part["arguments"]),
    }
    if part["id"] in results:
        attributes["gen_ai.tool.call.result"] = results[part["id"]]["content"]
    return attributes


def _span(
    trace_id: str,
    span_id: str,
    parent_id: str,
    name: str,
    start_ns: int,
    end_ns: int,
    attributes: Mapping[str, Any],
) -> Span:
    return Span(
        trace_id,
        span_id,
        parent_id,
        name,
        1,
        start_ns,
        end_ns,
        STATUS_UNSET,
        "",
        attributes,
        Resource(),
        _SCOPE,
    )


def _id(*parts: str, digits: int) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:digits]
