"""Write the clients of the services in Python, with keywords for the fields of each request:
clients.py OUT.

A keyword is a field of the request, or of a message in it where its name is not taken by a field
that is less deep; a `x_json` is given as `x`. What only the server sets has none.
"""

import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

import resources
from google.protobuf.descriptor import FieldDescriptor

from spanscore.api.messages import words
from spanscore.otlp.codec import is_repeated

CLIENTS: Final[Mapping[str, tuple[str, str, Mapping[str, str]]]] = {
    "Analytics": (
        "AnalyticsService",
        "Figures over the stored scores, each with n and an interval.",
        {
            "summarize": "SummarizeScores",
            "trend": "QueryScoreTrend",
            "distribution": "QueryScoreDistribution",
            "compare": "CompareScores",
            "worst_sessions": "RankSessions",
            "history": "ListScoreHistory",
        },
    ),
    "Monitors": (
        "MonitorService",
        "Monitors of the configuration and of the store.",
        {
            **{x: f"{x.capitalize()}Monitor" for x in ("create", "get", "update", "delete")},
            **{x: f"{x.capitalize()}Monitor" for x in ("pause", "resume", "trigger")},
            "list": "ListMonitors",
            "ticks": "ListMonitorTicks",
        },
    ),
    "Runs": (
        "RunService",
        "Evaluation runs.",
        {
            **{x: f"{x.capitalize()}Run" for x in ("create", "estimate", "get", "watch")},
            **{x: f"{x.capitalize()}Run" for x in ("pause", "resume", "cancel", "retry", "delete")},
            "list": "ListRuns",
            "items": "ListRunItems",
        },
    ),
    "Traces": (
        "TraceService",
        "Stored agent traces.",
        {"get": "GetTrace", "list": "ListTraces", "evaluate": "EvaluateTrace"},
    ),
    "Sessions": (
        "TraceService",
        "Stored sessions.",
        {"get": "GetSession", "list": "ListSessions", "evaluate": "EvaluateSession"},
    ),
    "Scores": (
        "ScoreService",
        "Scores that were measured, and that others gave.",
        {
            **{x: f"{x.capitalize()}Score" for x in ("get", "create", "update", "delete")},
            "list": "ListScores",
        },
    ),
}
"""By class its service, what it is about, and its methods."""

_GIVEN: Final[Mapping[str, tuple[str, ...]]] = {
    "Score": (
        *("metric", "value", "label", "scale", "reason", "metadata_json", "evaluated_at_ns"),
        *("trace_id", "span_id", "session_id", "scope", "evaluator"),
    ),
    "Evaluator": ("source", "author", "kind", "version", "model"),
}
"""The fields that a client gives of messages that the server completes, where no spec says so."""

_SCALE: Final = "Scale"
"""Given as its two values."""

_BY_ITSELF: Final = {"page_token", "update_mask"}
_SUBJECTS: Final = {"name", "parent"}
_TYPES: Final = {
    FieldDescriptor.CPPTYPE_STRING: "str",
    FieldDescriptor.CPPTYPE_BOOL: "bool",
    FieldDescriptor.CPPTYPE_DOUBLE: "float",
    FieldDescriptor.CPPTYPE_FLOAT: "float",
}
_WIDTH: Final = 96
_PROTOS: Final = Path(__file__).parent / "spanscore/v1"


class _Keyword(NamedTuple):
    name: str
    path: str
    field: Any


def _given(message: Any, *, has_etag: bool) -> dict[str, Any]:
    """The fields of a message that a client gives."""
    name = message.name
    models = next((x for x in resources.FILES.values() if name in x), {})
    specified = [x.removesuffix("_s") for x in models[name].model_fields] if models else None
    return {
        x.name: x
        for x in message.fields
        if (has_etag and x.name == "etag")
        or (
            x.name in _GIVEN.get(name, [x.name])
            if specified is None
            else x.name.removesuffix("_s") in specified
        )
    }


def _keywords(message: Any, subject: str) -> dict[str, _Keyword]:
    """The keywords for the fields of a message; `subject` is the one that is given by its place."""
    found: dict[str, _Keyword] = {}
    level = [("", message)]
    while level:
        here: dict[str, list[_Keyword]] = {}
        following = []
        for before, of in level:
            for field in _given(of, has_etag=message.name.startswith("Update")).values():
                path = f"{before}{field.name}"
                if path == subject or field.name in _BY_ITSELF:
                    continue
                name = field.name.removesuffix("_json")
                here.setdefault(name, []).append(_Keyword(name, path, field))
                if _is_ours(field.message_type) and not is_repeated(field):
                    following.append((f"{path}.", field.message_type))
        for name, keywords in here.items():
            if len(keywords) == 1:
                found.setdefault(name, keywords[0])
        level = following
    return found


def _is_ours(message: Any) -> bool:
    """Whether a field's message is one with fields of its own, no map and none of protobuf's."""
    if message is None or message.GetOptions().map_entry:
        return False
    return not message.full_name.startswith("google.")


def _comments() -> dict[str, str]:
    """The comments of the protos by `Message.field` and by method."""
    found: dict[str, str] = {}
    for path in sorted(_PROTOS.glob("*.proto")):
        message, waiting = "", list[str]()
        for line in map(str.strip, path.read_text(encoding="utf-8").splitlines()):
            first, *rest = line.replace("(", " ").split() or [""]
            if first == "//":
                waiting.append(line.removeprefix("// "))
                continue
            if first in {"message", "rpc"}:
                found[rest[0]] = " ".join(waiting)
                message = rest[0] if first == "message" else message
            elif " = " in line and line.endswith(";"):
                field = line.partition(" = ")[0].split()[-1]
                found[f"{message}.{field}"] = " ".join(waiting)
            waiting = []
    return found


COMMENTS: Final = _comments()


def _type(field: Any) -> str:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        value = message.fields_by_name["value"]
        return f"Mapping[str, {_type(value)}]"
    if message is not None and message.name == _SCALE:
        one = "tuple[float, float]"
    elif _is_ours(message):
        one = f"{message.name}Fields"
    elif message is not None or field.name.endswith("_json"):
        one = "Mapping[str, Any]"
    elif field.enum_type is not None:
        one = f"Literal[{', '.join(map(repr, words(field.enum_type)))}]"
    else:
        one = _TYPES.get(field.cpp_type, "int")
    return f"Sequence[{one}]" if is_repeated(field) else one


def _docstring(text: str | None, indent: str) -> str:
    if not text:
        return ""
    lines = textwrap.wrap(text.replace("\\", "\\\\"), _WIDTH - len(indent)) or [""]
    end = "\n" + indent if len(lines) > 1 else ""
    return f'{indent}"""' + f"\n{indent}".join(lines) + f'{end}"""\n'


def _typed_dict(name: str, base: str, about: str, keywords: Iterable[_Keyword]) -> str:
    fields = "\n".join(
        f'    {x.name}: "{_type(x.field)} | None"\n'
        + _docstring(COMMENTS.get(f"{x.field.containing_type.name}.{x.field.name}"), "    ")
        for x in keywords
        if x.name.isidentifier()
    )
    return f"\n\nclass {name}({base}, total=False):\n{_docstring(about, '    ')}\n{fields}"


def _items(answer: Any) -> Any:
    """The list that an answer consists of."""
    lists = [x for x in answer.fields if is_repeated(x) and x.message_type is not None]
    is_answer = answer.name.endswith("Response") and len(lists) == 1
    return lists[0] if is_answer else None


def _message(kind: Any) -> str:
    return f"{Path(kind.file.name).stem}_pb.{kind.name}"


def _method(name: str, method: Any, subject: str, fields: str, of_twin: str, doc: str) -> str:
    request, answer = method.input_type, method.output_type
    owner = _collection(request, subject) if subject else ""
    takes = [f"{owner[:-1]}: str"] * bool(subject) + [f"**fields: Unpack[{fields}]"] * bool(fields)
    given = [f'"{subject}": named("{owner}", {owner[:-1]})'] * bool(subject)
    built = f"request({_message(request)}, {'fields' if fields else '{}'}, {{{', '.join(given)}}})"
    called = f"self.{method.name}({built})"
    items = _items(answer)
    is_list = "next_page_token" in answer.fields_by_name
    is_empty = answer.full_name == "google.protobuf.Empty"
    iterator, awaited = ("AsyncIterator", "await ") if of_twin else ("Iterator", "")
    start = f"async def {name}" if of_twin else f"def {name}"
    if is_list:
        start = f"def {name}"
        kind = f"{iterator}[{_message(items.message_type)}]"
        pages = "pages_async" if of_twin else "pages"
        body = f"return {pages}(self.{method.name}, {built})"
    elif method.name.startswith("Watch"):
        kind = f"{iterator}[{_message(answer)}]"
        loop = "async for" if of_twin else "for"
        body = f"{loop} state in {called}:\n            yield state"
    elif is_empty:
        kind, body = "None", f"{awaited}{called}"
    elif items is not None:
        kind = f"Sequence[{_message(items.message_type)}]"
        body = f"return tuple(({awaited}{called}).{items.name})"
    else:
        kind = _message(answer)
        body = f"found: {kind} = {awaited}{called}\n        return found"
    return (
        f"\n    {start}({', '.join(['self', *takes])}) -> {kind}:\n"
        f"{_docstring(doc, '        ')}        {body}\n"
    )


def _subject(request: Any) -> str:
    """The field that is given by its place: the name of what the request is about."""
    direct = next((x for x in _SUBJECTS if x in request.fields_by_name), "")
    if direct:
        return direct
    resource = next(
        (x for x in request.fields if request.name == f"Update{_title(x.name)}Request"), None
    )
    return f"{resource.name}.name" if resource is not None else ""


def _title(name: str) -> str:
    return "".join(x.capitalize() for x in name.split("_"))


def _collection(request: Any, subject: str) -> str:
    comment = (
        COMMENTS[f"{request.name}.{subject}"]
        if "." not in subject
        else f"{subject.partition('.')[0]}s/"
    )
    return comment.partition("/")[0].split()[-1]


class _Clients:
    """The parts of the module, in the order in which they are made."""

    def __init__(self) -> None:
        names = sorted(x.stem for x in _PROTOS.glob("*.proto"))
        self._modules = {x: import_module(f"spanscore.api.v1.{x}_pb2") for x in names}
        self._dicts: list[str] = []
        self._places: dict[str, dict[str, _Keyword]] = {}
        self._classes = [
            self._class(client, prefix) for client in CLIENTS for prefix in ("", "Async")
        ]

    def _class(self, client: str, prefix: str) -> str:
        service, about, methods = CLIENTS[client]
        text = f"`{client}` for asyncio." if prefix else about
        body = f"\n\nclass {prefix}{client}({service}{prefix}Stub):\n{_docstring(text, '    ')}"
        module = next(x for x in self._modules.values() if service in x.DESCRIPTOR.services_by_name)
        for name, rpc in methods.items():
            method = module.DESCRIPTOR.services_by_name[service].methods_by_name[rpc]
            request = method.input_type
            if not prefix:
                self._declare(rpc, f"The keywords of `{client}.{name}`.", request)
            fields = f"{rpc}Fields" if self._places[request.name] else ""
            doc = f"As `{client}.{name}`." if prefix else COMMENTS[rpc]
            body += _method(name, method, _subject(request), fields, prefix, doc)
        return body

    def _declare(self, name: str, about: str, message: Any) -> None:
        """Declare the keywords for the fields of a message, where it has any; before it those of
        the messages in it, of which one may be a part of it as it is.
        """
        if message.name in self._places or message.name == _SCALE:
            return
        keywords = _keywords(message, _subject(message))
        self._places[message.name] = keywords
        bases = [""]
        for field in _given(message, has_etag=False).values():
            inner = field.message_type
            if _is_ours(inner):
                self._declare(inner.name, f"What a {inner.name} has.", inner)
                bases += [inner.name] * self._is_part(self._places.get(inner.name, {}), keywords)
        base = max(bases, key=lambda x: len(self._places.get(x, ())))
        own = [x for x in keywords.values() if x.name not in self._places.get(base, ())]
        if keywords:
            kind = f"{base}Fields" if base else "TypedDict"
            self._dicts.append(_typed_dict(f"{name}Fields", kind, about, own))

    def _is_part(self, inner: Mapping[str, _Keyword], whole: Mapping[str, _Keyword]) -> bool:
        return all(x in whole and whole[x].field is inner[x].field for x in inner)

    def text(self) -> str:
        """The module."""
        places = "".join(
            f"    {name!r}: { ({x.name: x.path for x in keywords.values()})!r},\n"
            for name, keywords in sorted(self._places.items())
        ).replace("'", '"')
        body = "".join([*self._dicts, f"\n\nPLACES.update({{\n{places}}})\n", *self._classes])
        return "".join(self._imports(body)) + body

    def _imports(self, body: str) -> Iterator[str]:
        yield '"""Clients of the services: made from proto/ by `make proto`, never edited."""\n\n'
        yield "from collections.abc import AsyncIterator, Iterator, Mapping, Sequence\n"
        yield "from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack\n\n"
        yield "from spanscore.api.keywords import PLACES, named, pages, pages_async, request\n"
        services = sorted({service for service, *_ in CLIENTS.values()})
        for name in (x for x in self._modules if f"{x}_pb." in body):
            yield f"from spanscore.api.v1 import {name}_pb2 as {name}_pb\n"
        for service in services:
            yield f"from spanscore.api.v1.{_file(service)}_pb2_grpc import {service}Stub\n"
        yield "\nif TYPE_CHECKING:\n"
        for service in services:
            yield f"    from spanscore.api.v1.{_file(service)}_pb2_grpc import {service}AsyncStub\n"
        yield "else:  # at run time one stub serves both\n"
        for service in services:
            yield f"    {service}AsyncStub = {service}Stub\n"


def _file(service: str) -> str:
    return f"{service.removesuffix('Service').lower()}_service"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(_Clients().text(), encoding="utf-8")
