"""Settings of scoring in an agent's process."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, ValidationError

from spanscore import config as configuration
from spanscore.config import Settings, explain
from spanscore.errors import ConfigError
from spanscore.evaluation.config import Config as Evaluation
from spanscore.evaluation.procedure import narrowed
from spanscore.export.config import Config as Export, InProcess
from spanscore.metrics import Metric
from spanscore.metrics.own import name_of
from spanscore.model.options import duration_ns
from spanscore.store.config import Config as Store, Retention

Measure: TypeAlias = str | type[Metric] | Callable[..., Any]
"""A metric by its name, its class, or the function that `@spanscore.metric` decorates."""

Measures: TypeAlias = Measure | Iterable[Measure] | Mapping[str, Mapping[str, Any] | None]
"""One metric, several, or a mapping from name to options; None in place of options: as they are
configured.
"""


def by_name(metrics: Measures) -> dict[str, Any]:
    """The options of each metric, by its name; None where none are given.

    Raises InputError on what is no metric.

    >>> by_name("coherence")
    {'coherence': None}
    """
    if isinstance(metrics, Mapping):
        return {name_of(name): options for name, options in metrics.items()}
    if isinstance(metrics, str | type) or not isinstance(metrics, Iterable):
        return {name_of(metrics): None}
    return {name_of(x): None for x in metrics}


def with_options(settings: Settings, given: Mapping[str, Any]) -> Settings:
    """The settings with the options that are given with metrics.

    Raises ConfigError where there is no such option.
    """
    options = {name: x for name, x in given.items() if x is not None}
    if not options:
        return settings
    checked_options = checked(Evaluation.model_validate, "evaluation", {"metrics": options})
    own = settings.evaluation
    changed = own.model_copy(update={"metrics": {**own.metrics, **checked_options.metrics}})
    return settings.model_copy(update={"evaluation": changed})


def checked(make: Callable[..., Any], key: str, *given: Any) -> Any:
    """A part of the configuration, made and validated.

    Raises ConfigError in the words of the configuration's own.
    """
    try:
        return make(*given)
    except ValidationError as error:
        problems = [{**x, "loc": (key, *x["loc"])} for x in error.errors(include_url=False)]
        raise ConfigError("\n".join(explain(x, Settings) for x in problems)) from error


CONFIG_VARIABLE: Final = "SPANSCORE_CONFIG"
"""The environment variable that names a configuration file."""

APPLICATION: Final = "application"
"""The name of the exporter that stands for the application's own providers."""

_COMPLETE_AFTER_NS: Final = duration_ns("1s")
"""Spans come as they end, and it is known which still run: nothing has to be waited for but log
records.
"""

_LATE_WINDOW_NS: Final = duration_ns("1m")

_RETENTION: Final = {"max_age": duration_ns("1h"), "max_bytes": 32 * 2**20}
IN_MEMORY: Final = Store(
    url="sqlite+pysqlite://", retention=Retention().model_copy(update=_RETENTION)
)
"""A store that ends with the process; what is older than an hour, or too much, is forgotten."""

PathLike: TypeAlias = str | os.PathLike[str]


def settings(
    *,
    judge: str | None = None,
    metrics: Measures | None = None,
    embedding: str | Mapping[str, Any] | None = None,
    export: str | None = None,
    store: PathLike | None = None,
    config: Settings | PathLike | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """What `instrument` was asked for, over the configuration file and the environment.

    Raises ConfigError.
    """
    found = _base(config, environ)
    changes: dict[str, BaseModel] = {"assemble": _assemble(found), "store": _store(found, store)}
    changes["judge"] = _judge(found, judge)
    if metrics is not None:
        changes["evaluation"] = checked(narrowed, "evaluation", found.evaluation, by_name(metrics))
    if embedding is not None:
        given = {"model": embedding} if isinstance(embedding, str) else dict(embedding)
        changes["embedding"] = checked(type(found.embedding).model_validate, "embedding", given)
    changes["export"] = _export(found, export)
    return found.model_copy(update={**changes, "mode": "branch"})


def _base(config: Settings | PathLike | None, environ: Mapping[str, str]) -> Settings:
    if isinstance(config, Settings):
        return config
    path = config or environ.get(CONFIG_VARIABLE)
    return configuration.load(Path(path), environ) if path else configuration.default(environ)


def _assemble(found: Settings) -> BaseModel:
    """Shorter waits than behind a network, where none are configured."""
    own = {"complete_after": _COMPLETE_AFTER_NS, "late_window": _LATE_WINDOW_NS}
    wanted = found.assemble.model_fields_set
    return found.assemble.model_copy(update={x: own[x] for x in own if x not in wanted})


def _judge(found: Settings, model: str | None) -> BaseModel:
    """No trial question at the start of each process, unless one is configured: a short program
    would pay twice.
    """
    judge = found.judge if model is None else found.judge.with_model(model)
    wanted = "try_at_start" in found.judge.model_fields_set
    return judge if wanted else judge.model_copy(update={"try_at_start": False})


def _store(found: Settings, store: PathLike | None) -> BaseModel:
    if store is not None:
        return found.store.model_copy(update={"url": f"sqlite:///{os.fspath(store)}"})
    return found.store if "url" in found.store.model_fields_set else IN_MEMORY


def _export(found: Settings, export: str | None) -> BaseModel:
    """Scores leave by the exporters that are configured; else, or where asked for, through the
    application's own.
    """
    own = found.export
    if export is None and own.exporters:
        return own
    if export is None or export == APPLICATION:
        emit = own.emit.model_copy(update={"metrics": False})  # the metrics API has them
        return own.model_copy(update={"exporters": {APPLICATION: InProcess()}, "emit": emit})
    kind = "otlp_http" if export.startswith(("http://", "https://")) else "otlp_grpc"
    wanted = checked(Export.model_validate, "export", {"exporters": {kind: {"endpoint": export}}})
    return own.model_copy(update={"exporters": wanted.exporters})
