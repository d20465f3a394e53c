"""An agent on the OpenAI SDK that calls LiteLLM's proxy; each of the two makes traces, without the
other's ids.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from conversation import SHOP, schema
from openai import OpenAI
from openinference.instrumentation import OITracer, TraceConfig, using_attributes
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
model = {
    "model": "openai/gpt-4o-mini",
    "api_base": os.environ["OPENAI_BASE_URL"],
    "api_key": "none",
}
Path("proxy.yaml").write_text(
    json.dumps(
        {
            "model_list": [{"model_name": "gpt-4o-mini", "litellm_params": model}],
            "litellm_settings": {"callbacks": ["otel"]},
        }
    )
)
proxy = subprocess.Popen(
    [
        Path(sys.executable).with_name("litellm"),
        "--config",
        "proxy.yaml",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ],
    env={**os.environ, "OTEL_SERVICE_NAME": "models", "OTEL_EXPORTER_OTLP_PROTOCOL": "otlp_http"},
)
for _ in range(600):
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness")
        break
    except (urllib.error.URLError, ConnectionError):
        time.sleep(0.5)

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
OpenAIInstrumentor().instrument(tracer_provider=provider)
tracer = OITracer(provider.get_tracer("shop"), TraceConfig())
client = OpenAI(base_url=f"http://127.0.0.1:{port}", api_key="none")
(agent,) = SHOP.agents
offered = [
    {
        "type": "function",
        "function": {"name": x.__name__, "description": x.__doc__, "parameters": schema(x)},
    }
    for x in agent.tools
]
functions = {x.__name__: tracer.tool(x) for x in agent.tools}
sessions = {}


@tracer.agent(name=agent.name)
def answer(question, messages):
    messages.append({"role": "user", "content": question})
    while True:
        reply = client.chat.completions.create(
            model="gpt-4o-mini", messages=messages, tools=offered
        )
        message = reply.choices[0].message
        messages.append(message.model_dump(include={"role", "content", "tool_calls"}))
        if not message.tool_calls:
            return message.content
        for call in message.tool_calls:
            result = functions[call.function.name](**json.loads(call.function.arguments))
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": call.id,
                    "content": json.dumps(result, ensure_ascii=False),
                }
            )


for turn in SHOP.turns:
    history = sessions.setdefault(turn.session, [{"role": "system", "content": agent.instructions}])
    with using_attributes(session_id=turn.session, user_id=turn.user):
        answer(turn.question, history)

provider.shutdown()
time.sleep(6)  # the proxy exports every five seconds
proxy.terminate()
proxy.wait(30)
