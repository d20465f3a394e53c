"""A server that takes scores as Langfuse does, and nothing that its published description of the
API does not allow.
"""

import base64
import copy
from pathlib import Path

import jsonschema
import yaml
from aiohttp import web

API = yaml.safe_load((Path(__file__).parent / "langfuse_api/openapi.yaml").read_text())
SCHEMAS = API["components"]["schemas"]
_NONE = object()
MAX_BYTES = {"/api/public/ingestion": 3_500_000, "/api/public/scores": 1_000_000}


def json_schema(part):
    """A part of an OpenAPI 3.0 description as JSON Schema."""
    part = copy.deepcopy(part)
    if "$ref" in part:
        part |= {"$ref": part["$ref"].replace("#/components/schemas", "#/$defs")}
    nullable = part.pop("nullable", False)
    if "properties" in part:
        part["properties"] = {name: json_schema(x) for name, x in part["properties"].items()}
    for key in ("oneOf", "allOf"):
        if key in part:
            part[key] = [json_schema(x) for x in part[key]]
    if "items" in part:
        part["items"] = json_schema(part["items"])
    return {"anyOf": [part, {"type": "null"}]} if nullable and part else part


def validator(schema):
    found = {**json_schema(schema), "$defs": {name: json_schema(x) for name, x in SCHEMAS.items()}}
    return jsonschema.Draft202012Validator(found, format_checker=jsonschema.FormatChecker())


def operation(path):
    return API["paths"][path]["post"]


def schema_of(content):
    return content["content"]["application/json"]["schema"]


class Langfuse:
    """Scores by (id, name, day) as it keeps them, the latest timestamp of each; `problems` with
    what it was sent.

    `absent` are traces, observations and sessions that it says it has not got; `gone` are paths
    that it does not have; `answers` are statuses that it gives first, before it looks at anything;
    `odd_answer` is what it answers with 207 in place of its own; `failing` are statuses of scores
    by their names.
    """

    keys = ("pk-lf-1", "sk-lf-1")

    def __init__(self):
        self.kept, self.events, self.problems, self.requests = {}, {}, [], []
        self.absent, self.gone, self.answers, self.failing = set(), set(), [], {}
        self.odd_answer = _NONE

    @property
    def scores(self):
        return [body for _, body in self.kept.values()]

    async def handle(self, request):
        self.requests.append(request.path)
        if request.path in self.gone or request.path not in API["paths"]:
            return web.json_response({"message": "not found"}, status=404)
        if self.answers:
            return web.json_response({"message": "later"}, status=self.answers.pop(0))
        body = await request.read()
        if len(body) > MAX_BYTES[request.path]:
            return web.json_response({"message": "body too large"}, status=413)
        sent = await request.json()
        pair = base64.b64encode(":".join(self.keys).encode()).decode()
        if request.headers.get("Authorization") != f"Basic {pair}":
            return web.json_response({"message": "Invalid credentials"}, status=401)
        found = validator(schema_of(operation(request.path)["requestBody"]))
        self.problems += [x.message for x in found.iter_errors(sent)]
        if self.odd_answer is not _NONE:
            return web.json_response(self.odd_answer, status=207)
        status, answer = self._take(request.path, sent)
        told = validator(schema_of(operation(request.path)["responses"][str(status)]))
        self.problems += [x.message for x in told.iter_errors(answer)]
        return web.json_response(answer, status=status)

    def _take(self, path, sent):
        if path == "/api/public/scores":
            for body in sent:
                self._named_in("CreateScoreRequest", body)
                self._keep(body["timestamp"], body)
            return 202, {"message": "Accepted"}
        successes, errors = [], []
        for event in sent["batch"]:
            self._named_in("ScoreBody", event["body"])
            status = self._status(event)
            if status == 201:
                self._keep(event["timestamp"], event["body"])
                successes.append({"id": event["id"], "status": status})
            else:
                errors.append({"id": event["id"], "status": status, "message": "no"})
        return 207, {"successes": successes, "errors": errors}

    def _status(self, event):
        body = event["body"]
        if self.absent & {body.get("traceId"), body.get("observationId"), body.get("sessionId")}:
            return 404
        if event["id"] in self.events and self.events[event["id"]] != event:
            self.problems.append(f"event {event['id']} was another one before")
        self.events[event["id"]] = event
        return self.failing.get(body["name"], 201)

    def _named_in(self, schema, body):
        self.problems += [
            f"{schema} has no {name}" for name in body.keys() - SCHEMAS[schema]["properties"].keys()
        ]
        if (body.get("dataType") == "NUMERIC") is isinstance(body["value"], str):
            self.problems.append(f"{body['value']!r} is not of {body.get('dataType')}")

    def _keep(self, timestamp, body):
        key = body["id"], body["name"], timestamp[:10]
        if key not in self.kept or self.kept[key][0] <= timestamp:
            self.kept[key] = timestamp, body
