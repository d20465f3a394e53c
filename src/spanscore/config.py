"""The configuration, read from YAML."""

import dataclasses
import difflib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import WithDefaultSchema

from spanscore.assemble.config import Config as Assemble
from spanscore.dialects.span_names import SpanNames
from spanscore.embed.config import Config as Embedding
from spanscore.errors import ConfigError, shortened
from spanscore.evaluation.config import Config as Evaluation, check_bands
from spanscore.evaluation.rules import NAME_PATTERN, Rule
from spanscore.export.config import (
    Alerting,
    Config as Export,
    GrpcConfig,
    HeadersSetter,
    HttpConfig,
    Inline,
    InProcess,
    NamedByType,
    OtelEvent,
    name_the_types,
)
from spanscore.judge.config import Config as Judge
from spanscore.metrics import Computed, Embedded, Judged
from spanscore.metrics.own import FunctionMetric
from spanscore.model.options import Duration, Options, duration_ns, duration_text, size_text
from spanscore.receive.auth import Config as Tenancy
from spanscore.receive.config import Auth, BearerToken, Config as Receive, Endpoint, GrpcTls
from spanscore.specs import Monitor
from spanscore.store.config import Config as Store, JournalConfig as Journal
from spanscore.telemetry import Config as Telemetry, config

MAX_WORKERS = 64
_MAX_CONFIG_BYTES = 4 * 2**20


PAGE = "/ui/"
"""The path of the page that people open in a browser, where the API is there over HTTP."""


class ApiHttp(Options):
    """The services as JSON over HTTP."""

    enabled: bool = True
    """Whether the services are there over HTTP."""

    endpoint: Endpoint = "127.0.0.1:4330"
    """Host and port to listen on.

    On an address that others reach, set `tls`, and `auth` of `api`.
    """

    tls: GrpcTls = None
    """TLS. Not set: none."""


class Api(Options):
    """The control service: lists traces and scores of a running server, and evaluates
    again on demand.
    """

    enabled: bool = True
    """Whether the service runs."""

    endpoint: Endpoint = "127.0.0.1:4329"
    """Host and port to listen on.

    On an address that others reach, set `tls` and `auth`: it shows what users said.
    """

    tls: GrpcTls = None
    """TLS. Not set: none."""

    auth: Auth | None = None
    """Who may ask, over gRPC and over HTTP. Not set: everybody who reaches the endpoint."""

    http: ApiHttp | None = None
    """The same as JSON over HTTP. Not set: by its defaults, where the port is free."""


class Page(Options):
    """What is shown to people: on the page, in reports, and by `scores` and `traces`."""

    trace_url: str = ""
    """The address of a trace in your tracing backend, with `{trace_id}` where its id goes, such as
    `https://jaeger.example.com/trace/{trace_id}`. Not set: traces have no links.
    """

    @field_validator("trace_url")
    @classmethod
    def _is_a_url(cls, url: str) -> str:
        if url and not (re.fullmatch(r"https?://\S+", url) and "{trace_id}" in url):
            raise ValueError(
                "write an http:// or https:// address with {trace_id} where the trace's id goes"
            )
        return url


_EXTENSION_TYPES = ("bearertokenauth", "headers_setter")


class Settings(Options):
    """Everything that can be configured."""

    mode: Literal["branch", "inline"] = "branch"
    """`branch`: the collector sends a copy, and only scores go out.

    `inline`: what comes in goes out again.
    """

    inline: Inline = Inline()
    """What holds in inline mode only."""

    extensions: Annotated[
        dict[str, Annotated[BearerToken | HeadersSetter, Field(discriminator="type")]],
        BeforeValidator(lambda given: name_the_types(given, "extension", _EXTENSION_TYPES)),
        NamedByType(),
    ] = {}
    """Who checks requests, or adds to them, by the name that `auth.authenticator` of a server or
    exporter refers to: `bearertokenauth` (both), `headers_setter` (exporters), or either as
    `TYPE/NAME`.
    """

    receive: Receive = Receive()
    """The OTLP servers."""

    tenancy: Tenancy = Tenancy()
    """Keeping the tenants of one server apart."""

    journal: Journal = Journal()
    """Where acknowledged requests are kept until they have been dealt with."""

    assemble: Assemble = Assemble()
    """When a trace, and a session, is complete."""

    evaluation: Evaluation = Evaluation()
    """Which metrics run, and how."""

    judge: Judge = Judge()
    """The LLM judge."""

    embedding: Embedding = Embedding()
    """Where coherence and loop detection get their vectors from."""

    export: Export = Export()
    """Where scores go, and in which forms."""

    store: Store = Store()
    """Where traces and scores are kept, and for how long."""

    api: Api = Api()
    """The control service."""

    page: Page = Page()
    """What is shown to people: on the page, in reports, and by `scores` and `traces`."""

    monitors: dict[Annotated[str, Field(pattern="^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")], Monitor] = (
        Field(default={}, max_length=1000)
    )
    """What is watched, or started, at set times, by name: a metric whose fall raises an alert, and
    evaluation runs.
    """

    alerting: Alerting = Alerting()
    """Where the alerts of monitors go."""

    workers: int = Field(default=1, ge=0, le=MAX_WORKERS)
    """Processes that read and evaluate traces and sessions. 1: this one does. From 2 on, so many
    beside this one, which receives, decides, stores and sends. 0: one for each CPU that this
    process may use, where there is more than one.
    """

    shutdown_timeout: Duration = duration_ns("20s")
    """How long a SIGTERM waits for what is under way; what is not done by then is picked up after
    the restart.
    """

    telemetry: Telemetry = Telemetry()
    """What spanscore says of itself."""

    @property
    def worker_processes(self) -> int:
        """How many processes read traces beside this one."""
        count = self.workers or available_cpus()
        return count if count > 1 else 0

    @property
    def span_names(self) -> SpanNames:
        """The names of spans and attributes that traces are read by, for `dialects.configure`."""
        given = self.assemble
        return SpanNames(given.session_keys, given.utility_spans, given.agent_spans)

    @property
    def needed_headers(self) -> frozenset[str]:
        """The headers of received requests that exporters need, in lower case."""
        return frozenset(name for x in self._setters for name in x.wanted)

    @property
    def authenticators(self) -> dict[str, BearerToken | HeadersSetter]:
        """The extensions, where with tenants `from_context` of the tenancy's header is the tenant
        that was found.
        """
        if not self.tenancy.enabled:
            return self.extensions
        header = self.tenancy.header
        given = self.extensions.items()
        return {
            name: x.with_tenant_as(header) if isinstance(x, HeadersSetter) else x
            for name, x in given
        }

    @property
    def exports_tenants(self) -> bool:
        """Whether what leaves names its tenant, so that each tenant's leaves in requests of its
        own.
        """
        return any(x.names_tenant for x in self._setters)

    @property
    def _setters(self) -> list[HeadersSetter]:
        return [x for x in self.authenticators.values() if isinstance(x, HeadersSetter)]

    @model_validator(mode="after")
    def _authenticators_are_there(self) -> Self:
        servers = {
            "receive.grpc": self.receive.grpc.auth,
            "receive.http": self.receive.http.auth,
            "api": self.api.auth,
        }
        exporters = {
            f"export.exporters.{name}": x.auth
            for name, x in self.export.otlp_exporters.items()
            if isinstance(x, GrpcConfig | HttpConfig)
        }
        named = {
            place: x.authenticator for place, x in (servers | exporters).items() if x is not None
        }
        for place, wanted in named.items():
            if wanted not in self.extensions:
                known = ", ".join(self.extensions) or "nothing"
                raise ValueError(
                    f"{place}.auth.authenticator: {wanted} is not under extensions (there is"
                    f" {known})"
                )
            if place in servers and not isinstance(self.extensions[wanted], BearerToken):
                raise ValueError(
                    f"{place}.auth.authenticator: {wanted} checks nobody; name a bearertokenauth"
                )
        return self

    @model_validator(mode="after")
    def _headers_are_there(self) -> Self:
        servers = (self.receive.grpc, self.receive.http)
        for name, extension in self.authenticators.items():
            is_reading = isinstance(extension, HeadersSetter) and extension.wanted
            if is_reading and not any(x.include_metadata for x in servers):
                raise ValueError(
                    f"extensions.{name}: from_context reads headers of requests; set"
                    " include_metadata: true under receive.grpc or receive.http"
                )
        return self

    @model_validator(mode="after")
    def _exporters_of_alerts_are_there(self) -> Self:
        known = [
            name for name, x in self.export.otlp_exporters.items() if not isinstance(x, InProcess)
        ]
        for name, receiver in self.alerting.receivers.items():
            if isinstance(receiver, OtelEvent) and receiver.exporter not in known:
                there = ", ".join(known) or "none"
                raise ValueError(
                    f"alerting.receivers.{name}.exporter: {receiver.exporter} is no exporter by"
                    f" OTLP under export.exporters; there: {there}"
                )
        return self

    @model_validator(mode="after")
    def _bands_are_of_metrics(self) -> Self:
        if self.judge.cascade is not None:
            check_bands(self.judge.cascade.unsure, self.evaluation)
        return self

    @model_validator(mode="after")
    def _monitors_watch_what_is_measured(self) -> Self:
        for name, monitor in self.monitors.items():
            if monitor.metric is None or monitor.run is not None:
                continue  # of runs that is known when they can be made
            try:
                self.evaluation.refuse_unmeasured(monitor.metric, monitor.scope)
            except ValueError as error:
                raise ValueError(f"monitors.{name}.metric: {error}") from None
        return self

    @model_validator(mode="after")
    def _judges_of_rules_can_be(self) -> Self:
        for place, rule in enumerate(self.evaluation.rules):
            try:
                self.judge_of(rule)
            except ValueError as error:
                raise ValueError(
                    f"evaluation.rules.{place} ({rule.name}): judge: {error}"
                ) from None
        return self

    def judge_of(self, rule: Rule) -> Judge:
        """The judge's configuration for the traces that a rule takes."""
        return self.judge if rule.judge is None else rule.judge.applied(self.judge)

    @property
    def judges(self) -> tuple[Judge, ...]:
        """The judge's configuration for traces that no rule takes, and for those of each rule."""
        return (self.judge, *map(self.judge_of, self.evaluation.rules))

    def refuse_models(self) -> None:
        """Raise ConfigError where a metric or the rubric names a model, and there is no judge to
        ask it.
        """
        for variant, judge in zip(self.evaluation.variants(), self.judges, strict=True):
            if not judge.models:
                variant.refuse_models()

    def models(self) -> dict[str, tuple[str, ...]]:
        """The models that each judged metric may ask, by its name; what the rubric asks is under
        `rubric`.
        """
        found: dict[str, tuple[str, ...]] = {}
        for variant, judge in zip(self.evaluation.variants(), self.judges, strict=True):
            for name, models in variant.models(judge.models).items():
                found[name] = tuple(dict.fromkeys((*found.get(name, ()), *models)))
        return found

    def all_models(self) -> list[str]:
        """Every model that may be asked, each once."""
        of_judges = (model for x in self.judges for model in (*x.models, *x.cascade_models))
        named = (model for models in self.models().values() for model in models)
        return list(dict.fromkeys((*of_judges, *named)))

    def without_judge(self) -> str | None:
        """Which metrics are skipped since no judge is configured, and which run; None where none
        is skipped.
        """
        if any(x.models for x in self.judges):
            return None
        configured = self.evaluation.build()
        skipped = [x.name for x in configured if isinstance(x, Judged)]
        skipped += [] if self.evaluation.rubric is None else ["rubric"]
        if not skipped:
            return None
        has_embedding = self.embedding.chosen is not None
        run = [
            x.name
            for x in configured
            if isinstance(x, Computed | FunctionMetric)
            or (isinstance(x, Embedded) and (has_embedding or x.falls_back_on_ngrams))
        ]
        return (
            f"no judge is configured, so {', '.join(skipped)}"
            f" {'is' if len(skipped) == 1 else 'are'} skipped; what runs: {', '.join(run) or '-'}"
        )

    @model_validator(mode="after")
    def _inline_leads_somewhere(self) -> Self:
        if self.mode == "inline" and not self.export.otlp_exporters:
            raise ValueError(
                "mode: inline sends on what it receives, so export.exporters must name where to by"
                " OTLP"
            )
        if self.mode == "inline" and self.receive.kafka is not None:
            raise ValueError(
                "mode: inline cannot be used with receive.kafka: what is read again after a"
                " restart would be sent on twice"
            )
        return self


def load(path: Path | None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Read a configuration file; without one, the defaults.

    Raises ConfigError: one line for each thing that is wrong, with file and key.
    """
    if path is None:
        return default(environ)
    try:
        if path.stat().st_size > _MAX_CONFIG_BYTES:
            raise ConfigError(
                f"{path}: larger than {_MAX_CONFIG_BYTES} bytes; this is no configuration file"
            )
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror or error}; name a configuration file that can be read"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: not UTF-8 text ({error.reason} at byte {error.start})"
        ) from error
    return parse(text, str(path), environ, folder=path.parent)


def parse(
    text: str,
    name: str = "configuration",
    environ: Mapping[str, str] = os.environ,
    *,
    folder: Path = Path(),
) -> Settings:
    """Read configuration text; `name` stands in front of error messages. Raises ConfigError.

    `folder` is where the files that `evaluation.plugins` names are looked for; by default the
    working directory.
    """
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        problem = " ".join(str(error).replace('in "<unicode string>", ', "at ").split())
        raise ConfigError(f"{name}: not YAML: {problem}") from error
    except RecursionError as error:
        raise ConfigError(f"{name}: nested too deeply") from error
    if data is not None and not isinstance(data, dict):
        raise ConfigError(
            f"{name}: expected keys such as `receive:` at the top, found a {type(data).__name__}"
        )
    try:
        data = expanded(data or {}, environ)
    except RecursionError as error:
        raise ConfigError(
            f"{name}: nested too deeply, or an alias (`*name`) within what it stands for"
        ) from error
    return _validate(data, name, environ, folder)


def default(environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings without a file.

    Raises ConfigError when an environment variable has an unusable value.
    """
    return _validate({}, "environment", environ, Path())


def json_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of the configuration file, for editors and CI."""
    return {
        **Settings.model_json_schema(schema_generator=_JsonSchema),
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "spanscore configuration",
    }


class _JsonSchema(GenerateJsonSchema):
    """Gives defaults as a file would write them: `10s`, not nanoseconds."""

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        made = super().default_schema(schema)
        inner: Any = schema["schema"]
        while inner["type"] == "nullable":
            inner = inner["schema"]
        write = inner.get("serialization", {}).get("function")
        if write in {duration_text, size_text} and made.get("default") is not None:
            made["default"] = write(schema["default"])
        return made


def _validate(
    data: dict[str, Any], name: str, environ: Mapping[str, str], folder: Path
) -> Settings:
    model = environ.get("SPANSCORE_JUDGE_MODEL")
    if model and "model" not in (data.get("judge") or {}):
        data = {**data, "judge": {**(data.get("judge") or {}), "model": model}}
    if (readers := config.readers(environ)) and not _telemetry_metrics(data):
        data = {
            **data,
            "telemetry": {**(data.get("telemetry") or {}), "metrics": {"readers": readers}},
        }
    # `receive:` with nothing under it
    data = {key: value for key, value in data.items() if value is not None}
    try:
        return Settings.model_validate(data, context={"folder": folder})
    except ValidationError as error:
        lines = [
            f"{name}: {explain(problem, Settings)}" for problem in error.errors(include_url=False)
        ]
        raise ConfigError("\n".join(lines)) from error


def _telemetry_metrics(data: Mapping[str, Any]) -> Any:
    """What the file says of `telemetry.metrics`; where it says something that cannot be, that."""
    telemetry = data.get("telemetry") or {}
    return telemetry.get("metrics") if isinstance(telemetry, Mapping) else telemetry


def available_cpus() -> int:
    """The CPUs that this process may run on, where the system says so; else all of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_REFERENCE = re.compile(r"\$\$|\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def expanded(value: Any, environ: Mapping[str, str]) -> Any:
    """`${env:NAME}` and `${env:NAME:-default}` in every string, as the collector expands them; `$$`
    is one `$`.

    A value that is nothing but one reference is read as YAML, so that numbers and booleans work; an
    unset variable is empty.
    """
    if isinstance(value, dict):
        return {key: expanded(item, environ) for key, item in value.items()}
    if isinstance(value, list):
        return [expanded(item, environ) for item in value]
    if not isinstance(value, str) or "$" not in value:
        return value
    text = _REFERENCE.sub(lambda found: _resolve(found, environ), value)
    return _scalar(text) if _REFERENCE.fullmatch(value) and value != "$$" else text


def _resolve(found: re.Match[str], environ: Mapping[str, str]) -> str:
    if found[0] == "$$":
        return "$"
    return environ.get(found[1]) or found[2] or ""


def _scalar(text: str) -> Any:
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if isinstance(value, bool | int | float) else text


_SHOWN_CHARS = 40


def explain(
    problem: Mapping[str, Any], root: type[BaseModel], whole: str = "the configuration"
) -> str:
    """One of pydantic's errors about a file that `root` describes, by its key, with the nearest
    right one.

    `whole` is what the file is called where the error is about none of its keys.
    """
    parts, known = _walk(problem["loc"], root)
    key = ".".join(parts) or whole
    if problem["type"] not in {"extra_forbidden", "unexpected_keyword_argument"} or not known:
        return f"{key}: {_in_words(problem)}"
    near = difflib.get_close_matches(parts[-1], known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
    return f"{key}: unknown key; {hint}"


_PATTERNS = {
    "^https?://.": "write a URL that begins with http:// or https://",
    "^/[^?#]*$": "write a path, such as /healthz, without ? and #",
    NAME_PATTERN: (
        "write a name of letters, digits, dots, dashes and underscores, such as failed-turns"
    ),
    "^[a-z][a-z0-9_]{0,63}$": "write a name in snake_case, such as brand_voice",
}


def _in_words(problem: Mapping[str, Any]) -> str:
    """What pydantic says is wrong, where it says it in words for programmers: what is allowed
    instead.
    """
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "string_pattern_mismatch":
        return f"{problem['input']!r}: {_PATTERNS.get(problem['ctx']['pattern'], message)}"
    if problem["type"] == "string_too_short":
        return "must not be empty; is its environment variable set?"
    return {
        "missing": "is missing",
        "model_type": "holds keys of its own, each on a line under it",
        "float_parsing": f"{_shown(problem)} is no number; write one such as 0.8, without quotes",
        "float_type": f"{_shown(problem)} is no number; write one such as 0.8, without quotes",
        "int_type": f"{_shown(problem)} is no whole number; write one such as 3, without quotes",
        "finite_number": f"{_shown(problem)} is no number that can be used; write one such as 0.8",
        "bool_type": (
            f"{_shown(problem)} is neither true nor false; write one of the two, without quotes"
        ),
        "tuple_type": "is a list, each item on a line under it that begins with `- `",
    }.get(problem["type"], message)


def _shown(problem: Mapping[str, Any]) -> str:
    """What is there as YAML has it, text in quotes; of what is long the beginning."""
    value = problem["input"]
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return shortened(text, _SHOWN_CHARS)


def _walk(
    location: Sequence[str | int], root: type[BaseModel]
) -> tuple[list[str], Mapping[str, Any]]:
    """The keys of pydantic's `location` as the file has them, and those that may stand beside the
    last, with types.
    """
    kind: Any = root
    known: Mapping[str, Any] = {}
    keys: list[str] = []
    for part in location:
        kind = _bare(kind)
        if get_origin(kind) in {Union, UnionType}:  # here pydantic names the member, not a key
            kind = next((x for x in get_args(kind) if _default(x, "type") == part), None)
            continue
        keys.append(str(part))
        if of_kind := _keys_of(kind):
            known, kind = of_kind, of_kind.get(str(part))
        else:
            # what a mapping or a list holds
            kind = next((x for x in reversed(get_args(kind)) if x is not ...), None)
    return keys, known


def _keys_of(kind: Any) -> Mapping[str, Any]:
    """The keys of a model or dataclass, with their types; none for any other kind of value."""
    if dataclasses.is_dataclass(kind):
        return {x.name: x.type for x in dataclasses.fields(kind) if x.init}
    return {x.alias or name: x.annotation for name, x in getattr(kind, "model_fields", {}).items()}


def _bare(kind: Any) -> Any:
    """An annotation without the metadata beside it, and without `| None`."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    members = [x for x in get_args(kind) if x is not type(None)]
    is_union = get_origin(kind) in {Union, UnionType}
    return _bare(members[0]) if is_union and len(members) == 1 else kind


def _default(kind: Any, field: str) -> Any:
    fields = getattr(kind, "model_fields", {})
    return fields[field].default if field in fields else None
