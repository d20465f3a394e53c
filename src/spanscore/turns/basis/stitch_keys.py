"""The keys under which related traces are found."""

_TOOL_CALL = "id "
_WITHOUT_CALLS = "unsaid "


def trace(trace_id: str) -> str:
    """Of a trace that others link to."""
    return f"trace {trace_id}"


def model_call(identity: str) -> str:
    """Of the reports of one model call, by an id in it."""
    return f"call {identity}"


def response(identity: str) -> str:
    """Of an answer that one trace requested and another fetched."""
    return f"response {identity}"


def tool_call(call_id: str) -> str:
    """Of a tool call, by its id."""
    return _TOOL_CALL + call_id


def is_tool_call(key: str) -> bool:
    """Whether a key has the id of a tool call."""
    return key.startswith(_TOOL_CALL)


def tool_call_of(key: str) -> str:
    """The id of the tool call in such a key."""
    return key.removeprefix(_TOOL_CALL)


def tool(session: str, name: str) -> str:
    """Of the calls of a tool within a session."""
    return f"tool {session}\n{name}"


def session_agent(session: str) -> str:
    """Of the agents of a session that record no model call."""
    return f"agent {session}"


def wrapper(session: str, question: str | None) -> str:
    """Of those with this question."""
    return f"wrapper {session}\n{question}"


def unanswered(session: str) -> str:
    """Of the traces of a session that record no answer."""
    return f"unanswered {session}"


def without_calls(digest: str) -> str:
    """Of a conversation that may have gone on in calls that were left out."""
    return _WITHOUT_CALLS + digest


def is_without_calls(key: str) -> bool:
    """Whether a key stands for a conversation without its calls."""
    return key.startswith(_WITHOUT_CALLS)


def question(text: bytes) -> str:
    """Of the question to an agent, by the user or by a tool call; its hash."""
    return f"question {text.hex()}"
