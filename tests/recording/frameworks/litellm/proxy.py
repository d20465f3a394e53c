"""The OpenAI SDK through LiteLLM's proxy, which has the OpenTelemetry callback: each request is a
trace.
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

with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
Path("proxy.yaml").write_text(
    json.dumps(
        {
            "model_list": [
                {
                    "model_name": "gpt-4o-mini",
                    "litellm_params": {
                        "model": "openai/gpt-4o-mini",
                        "api_base": os.environ["OPENAI_BASE_URL"],
                        "api_key": "none",
                    },
                }
            ],
            "litellm_settings": {"callbacks": ["otel"]},
        }
    )
)
command = [str(Path(sys.executable).with_name("litellm")), "--config", "proxy.yaml"]
proxy = subprocess.Popen([*command, "--host", "127.0.0.1", "--port", str(port)])
for _ in range(600):
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness")
        break
    except (urllib.error.URLError, ConnectionError):
        time.sleep(0.5)

client = OpenAI(base_url=f"http://127.0.0.1:{port}", api_key="none")
(agent,) = SHOP.agents
offered = [
    {
        "type": "function",
        "function": {"name": x.__name__, "description": x.__doc__, "parameters": schema(x)},
    }
    for x in agent.tools
]
functions = {x.__name__: x for x in agent.tools}
sessions = {}


def answer(turn, messages):
    while True:
        reply = client.chat.completions.create(
            model="gpt-4o-mini",
            messages=messages,
            tools=offered,
            user=turn.user,
            extra_body={
                "litellm_session_id": turn.session,
                "metadata": {"session_id": turn.session},
            },
        )
        message = reply.choices[0].message
        messages.append(message.model_dump(include={"role", "content", "tool_calls"}))
        if not message.tool_calls:
            return
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
    history.append({"role": "user", "content": turn.question})
    answer(turn, history)

time.sleep(6)  # it exports every five seconds
proxy.terminate()
proxy.wait(30)
