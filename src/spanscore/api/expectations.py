"""What a turn's spans state that it should come to, as a message and back."""

from spanscore.api.text import text_of
from spanscore.api.v1 import agent_trace_pb2 as trace_pb
from spanscore.model.expected import Expected, ExpectedTool
from spanscore.model.json import dumps, loads

_MAX_STEP = 2**32 - 1


def encode_expected(expected: Expected) -> trace_pb.Expected:
    """The message of `expected`; whatever it holds, it can be sent."""
    return trace_pb.Expected(
        answer=text_of(expected.answer),
        tools=map(_encode_tool, expected.tools or ()),
        tools_stated=expected.tools is not None,
        outcomes=[text_of(x) or "" for x in expected.outcomes],
        in_order=expected.in_order,
    )


def decode_expected(message: trace_pb.Expected) -> Expected:
    """The inverse of `encode_expected`.

    Raises ValueError where `arguments_json` is no JSON object.
    """
    return Expected(
        answer=message.answer if message.HasField("answer") else None,
        tools=tuple(map(_decode_tool, message.tools)) if message.tools_stated else None,
        outcomes=tuple(message.outcomes),
        in_order=message.in_order if message.HasField("in_order") else None,
    )


def _encode_tool(tool: ExpectedTool) -> trace_pb.ExpectedTool:
    return trace_pb.ExpectedTool(
        name=text_of(tool.name) or "",
        arguments_json=None if tool.arguments is None else text_of(dumps(tool.arguments)),
        step=None if tool.step is None or tool.step > _MAX_STEP else tool.step,
    )


def _decode_tool(message: trace_pb.ExpectedTool) -> ExpectedTool:
    arguments = loads(message.arguments_json) if message.HasField("arguments_json") else None
    if not isinstance(arguments, dict | None):
        raise ValueError(f"arguments_json of {message.name!r} is no JSON object")  # noqa: TRY004 - as of what is no JSON
    return ExpectedTool(message.name, arguments, message.step if message.HasField("step") else None)
