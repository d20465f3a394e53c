"""A front desk that asks a parcel clerk in another process by HTTP: both are loops around the
OpenAI SDK.
"""

import json
import os
import subprocess
import sys
import urllib.request

from conversation import DESK
from looping import Loop, spans

front, _ = DESK.agents
clerk = subprocess.Popen(
    [sys.executable, "clerk.py"],
    env={**os.environ, "OTEL_SERVICE_NAME": "clerk"},
    stdout=subprocess.PIPE,
    text=True,
)
url = f"http://127.0.0.1:{clerk.stdout.readline().strip()}/"


def parcel_clerk(request: str) -> str:
    """Ask the parcel clerk."""
    body = json.dumps({"question": request}).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body)) as answer:
        return json.load(answer)["answer"]


desk = Loop(front.instructions, (*front.tools, parcel_clerk))
for turn in DESK.turns:
    desk.ask(turn.question)

spans.shutdown()
clerk.terminate()
clerk.wait()
