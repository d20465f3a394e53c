"""The one configuration: each stage's own Config in one frozen Settings, read once from collector-style YAML."""

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import WithDefaultSchema

from spanscore.assemble.config import Config as Assemble
from spanscore.embed.config import Config as Embedding
from spanscore.errors import ConfigError
from spanscore.evaluate.config import Config as Evaluation
from spanscore.export.config import Config as Export
from spanscore.export.config import Inline
from spanscore.judge.config import Config as Judge
from spanscore.model.quantity import Duration, duration_ns, duration_text, size_text
from spanscore.receive.config import BearerToken, Endpoint
from spanscore.receive.config import Config as Receive
from spanscore.store.config import Config as Store
from spanscore.store.journal import Config as Journal
from spanscore.telemetry import Config as Telemetry

_MAX_CONFIG_BYTES = 4 * 2**20
_REFERENCE = re.compile(r"\$\$|\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class Api(BaseModel):
    """The control service: lists metrics, traces and scores of a running server, and evaluates again on demand."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    enabled: bool = True
    """Whether the service runs."""

    endpoint: Endpoint = "127.0.0.1:4329"
    """Host and port to listen on. It asks for no credentials: keep it on loopback, or behind something that does."""


_Authenticator = Annotated[str, Field(pattern=r"^bearertokenauth(/.+)?$")]


def _known_authenticators(extensions: Any) -> Any:
    for name in extensions if isinstance(extensions, Mapping) else ():
        if str(name).partition("/")[0] != "bearertokenauth":
            raise ValueError(f"{name}: unknown extension; known is bearertokenauth, also as bearertokenauth/NAME")
    return extensions


class Settings(BaseModel):
    """Everything that can be configured."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    mode: Literal["branch", "inline"] = "branch"
    """`branch`: the collector sends a copy, and only scores go out. `inline`: what comes in goes out again."""

    inline: Inline = Inline()
    """What holds in inline mode only."""

    extensions: Annotated[dict[_Authenticator, BearerToken], BeforeValidator(_known_authenticators)] = {}
    """Who checks requests, by the name that `auth.authenticator` of a server refers to: `bearertokenauth`,
    or `bearertokenauth/NAME`."""

    receive: Receive = Receive()
    """The OTLP servers."""

    journal: Journal = Journal()
    """Where acknowledged requests are kept until they have been dealt with."""

    assemble: Assemble = Assemble()
    """When a trace, and a session, is complete."""

    evaluation: Evaluation = Evaluation()
    """Which metrics run, and how."""

    judge: Judge = Judge()
    """The LLM judge, or the built-in rules."""

    embedding: Embedding = Embedding()
    """Where coherence and loop detection get their vectors from."""

    export: Export = Export()
    """Where scores go, and in which forms."""

    store: Store = Store()
    """Where traces and scores are kept, and for how long."""

    api: Api = Api()
    """The control service."""

    shutdown_timeout: Duration = duration_ns("20s")
    """How long a SIGTERM waits for what is under way; what is not done by then is picked up after the restart."""

    telemetry: Telemetry = Telemetry()
    """What spanscore says of itself."""

    @model_validator(mode="after")
    def _authenticators_are_there(self) -> Self:
        for name, server in (("grpc", self.receive.grpc), ("http", self.receive.http)):
            wanted = server.auth.authenticator if server.auth else None
            if wanted is not None and wanted not in self.extensions:
                known = ", ".join(self.extensions) or "nothing"
                raise ValueError(
                    f"receive.{name}.auth.authenticator: {wanted} is not under extensions (there is {known})"
                )
        return self

    @model_validator(mode="after")
    def _inline_leads_somewhere(self) -> Self:
        if self.mode == "inline" and not self.export.otlp_exporters:
            raise ValueError("mode: inline sends on what it receives, so export.exporters must name where to by OTLP")
        return self


def load(path: Path, environ: Mapping[str, str] = os.environ) -> Settings:
    """Read a configuration file. Raises ConfigError: one line for each thing that is wrong, with file and key."""
    try:
        if path.stat().st_size > _MAX_CONFIG_BYTES:
            raise ConfigError(f"{path}: larger than {_MAX_CONFIG_BYTES} bytes; this is no configuration file")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}; name a configuration file that can be read") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    return parse(text, str(path), environ)


def parse(text: str, name: str = "configuration", environ: Mapping[str, str] = os.environ) -> Settings:
    """Read configuration text; `name` stands in front of error messages. Raises ConfigError."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        told = " ".join(str(error).replace('in "<unicode string>", ', "at ").split())
        raise ConfigError(f"{name}: not YAML: {told}") from error
    except RecursionError as error:
        raise ConfigError(f"{name}: nested too deeply") from error
    if data is not None and not isinstance(data, dict):
        raise ConfigError(f"{name}: expected keys such as `receive:` at the top, found a {type(data).__name__}")
    return _validate(_expand(data or {}, environ), name, environ)


def default(environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings without a file. Raises ConfigError when an environment variable has an unusable value."""
    return _validate({}, "environment", environ)


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


def _validate(data: dict[str, Any], name: str, environ: Mapping[str, str]) -> Settings:
    model = environ.get("SPANSCORE_JUDGE_MODEL")
    if model and "model" not in (data.get("judge") or {}):
        data = {**data, "judge": {**(data.get("judge") or {}), "model": model}}
    data = {key: value for key, value in data.items() if value is not None}  # `receive:` with nothing under it
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        lines = [f"{name}: {_explain(problem['loc'], problem)}" for problem in error.errors(include_url=False)]
        raise ConfigError("\n".join(lines)) from error


def _explain(location: Sequence[str | int], problem: Mapping[str, Any]) -> str:
    parts, model = _walk(location)
    key = ".".join(parts) or "the configuration"
    if problem["type"] != "extra_forbidden" or model is None:
        return f"{key}: {str(problem['msg']).removeprefix('Value error, ')}"
    near = difflib.get_close_matches(parts[-1], model.model_fields, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(model.model_fields)}"
    return f"{key}: unknown key; {hint}"


def _walk(location: Sequence[str | int]) -> tuple[list[str], type[BaseModel] | None]:
    """The keys of pydantic's `location` as the file has them, and the model that the last of them stands in."""
    kind: Any = Settings
    model: type[BaseModel] | None = None
    keys: list[str] = []
    for part in location:
        kind = _bare(kind)
        if get_origin(kind) in {Union, UnionType}:  # here pydantic names the member, not a key
            kind = next((x for x in get_args(kind) if _default(x, "type") == part), None)
            continue
        keys.append(str(part))
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            model = kind
            field = model.model_fields.get(str(part))
            kind = field.annotation if field else None
        else:
            kind = next(iter(get_args(kind)[-1:]), None)  # what a mapping or a list holds
    return keys, model


def _bare(kind: Any) -> Any:
    """An annotation without what pydantic is told beside it, and without `| None`."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    members = [x for x in get_args(kind) if x is not type(None)]
    is_union = get_origin(kind) in {Union, UnionType}
    return _bare(members[0]) if is_union and len(members) == 1 else kind


def _default(kind: Any, field: str) -> Any:
    fields = getattr(kind, "model_fields", {})
    return fields[field].default if field in fields else None


def _expand(value: Any, environ: Mapping[str, str]) -> Any:
    """`${env:NAME}` and `${env:NAME:-default}` in every string, as the collector expands them; `$$` is one `$`.

    A value that is nothing but one reference is read as YAML, so that numbers and booleans work; an unset variable is
    empty.
    """
    if isinstance(value, dict):
        return {key: _expand(item, environ) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, environ) for item in value]
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
