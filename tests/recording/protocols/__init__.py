"""The model providers' APIs that the scripted server speaks, one file each: what is on offer, and
an answer's form.

Each has `offered(body)`, the names of the tools on offer; `whole(answer, body)`, the answer as one
JSON object; and `events(answer, body)`, the same as server-sent events: (name or "", data) each.
"""
