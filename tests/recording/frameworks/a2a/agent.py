"""A front desk that asks a parcel clerk, who is an agent in another process, by A2A: no trace
context is passed on.
"""

import asyncio
import os
import socket
import subprocess
import sys
import time

import httpx
from a2a.client import ClientConfig, create_client
from a2a.helpers.proto_helpers import get_message_text, new_text_message
from a2a.types.a2a_pb2 import Role, SendMessageRequest
from conversation import DESK
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic_ai import Agent
from pydantic_ai.models.instrumented import InstrumentationSettings

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))

with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
url = f"http://127.0.0.1:{port}"
front, _ = DESK.agents
desk = Agent(
    "openai-chat:gpt-4o-mini",
    name=front.name,
    system_prompt=front.instructions,
    tools=list(front.tools),
)


@desk.tool_plain
async def parcel_clerk(request: str) -> str:
    """Ask the parcel clerk."""
    client = await create_client(
        url, ClientConfig(streaming=False, httpx_client=httpx.AsyncClient(timeout=60))
    )
    message = new_text_message(request, role=Role.ROLE_USER)
    answers = [x async for x in client.send_message(SendMessageRequest(message=message))]
    return get_message_text(answers[-1].message)


async def main():
    said = []
    for turn in DESK.turns:
        result = await desk.run(
            turn.question,
            message_history=said,
            conversation_id=turn.session,
            metadata={"user_id": turn.user, "session_id": turn.session},
        )
        said = result.all_messages()


clerk = subprocess.Popen(
    [sys.executable, "clerk.py", str(port)],
    env={**os.environ, "OTEL_SERVICE_NAME": "clerk"},
    stdin=subprocess.PIPE,
)
for _ in range(600):
    try:
        httpx.get(f"{url}/.well-known/agent-card.json").raise_for_status()
    except httpx.TransportError:
        time.sleep(0.1)
    else:
        break
asyncio.run(main())
provider.shutdown()
clerk.terminate()
clerk.wait()
