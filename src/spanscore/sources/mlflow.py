"""MLflow's REST API.

MLflow parses attributes that are JSON: an SDK can send no objects, so what is one here is its text
again. It keeps no scope of a span, and of its resource the attributes as the trace's tags. What
MLflow writes beside is left out.
"""

import logging
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from spanscore.errors import InputError
from spanscore.model.span import Resource, Span
from spanscore.otlp.codec import from_object
from spanscore.sources.http import CUT, Backend, Http, as_sent, stored, time_of
from spanscore.sources.location import Location
from spanscore.sources.port import Found, Query, Stored

_log = logging.getLogger(__name__)

_TRACES: Final = "/api/3.0/mlflow/traces"
_PAGE: Final = 500
_NS_PER_MS: Final = 10**6
_OWN: Final = "mlflow."
_OF_RESOURCE: Final = ("service.", "deployment.environment")
"""Tags that MLflow makes of a resource; the others are people's."""

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.]*")
_PLAIN: Final = re.compile(r"[A-Za-z0-9 ._:/@+-]+")
"""Texts that need no escape, neither in MLflow's language nor in the JSON that it searches."""


class Source(Backend):
    """Experiments of one MLflow; see `port.Source`."""

    title = "MLflow"
    depth = 3
    """{trace: {spans: [...: how deep a list of spans lies."""

    def __init__(self, location: Location, http: Http | None = None) -> None:
        """Raises InputError where a file of the TLS options cannot be used."""
        super().__init__(location, http)
        self._experiments = location.options.get("experiment", ["0"])
        self._experiment_ids: Sequence[str] = ()
        self._searches_spans = True

    def pushed(self, query: Query) -> frozenset[str]:
        """See `port.Source`."""
        of_spans = _span_condition(query) if self._searches_spans else {}
        return frozenset(query.conditions) & {"since", "until", *_tag_condition(query), *of_spans}

    def is_exact(self, query: Query) -> bool:
        """See `port.Source`: its times are whole milliseconds."""
        return not query.conditions

    async def find(self, query: Query) -> AsyncIterator[Found]:
        """See `port.Source`."""
        ids = await self._ids()
        parameters: dict[str, Any] = {
            "locations": [
                {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": x}}
                for x in ids
            ],
            "max_results": _PAGE,
            "order_by": ["timestamp_ms DESC"],
        }
        while True:
            body = await self._search(query, parameters)
            for info in body.get("traces") or ():
                if str(info.get("trace_id", "")).startswith("tr-"):
                    started = info.get("request_time")
                    start_ns = time_of(started) if isinstance(started, str) else 0
                    yield Found(str(info["trace_id"]).removeprefix("tr-"), start_ns)
            if not (token := body.get("next_page_token")):
                return
            parameters["page_token"] = token

    async def _search(self, query: Query, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """A page of a search. Versions that cannot search spans are asked without."""
        path, of_spans = f"{_TRACES}/search", _span_condition(query)
        if self._searches_spans and of_spans:
            body = {**parameters, "filter": _filter(query, of_spans)}
            answer = await self._http.ask("POST", path, body=body, expected=(400,))
            if answer.status != 400:
                return self._parsed(answer)
            self._searches_spans = False
        body = {**parameters, "filter": _filter(query, {})}
        return self._parsed(await self._http.ask("POST", path, body=body))

    async def fetch(self, found: Found) -> Stored | None:
        """See `port.Source`."""
        parameters = {"trace_id": f"tr-{found.trace_id}", "allow_partial": "true"}
        answer = await self._http.get(f"{_TRACES}/get", parameters, expected=(404,))
        if answer.status == 404:
            return None
        trace = self._parsed(answer).get("trace") or {}
        info = trace.get("trace_info") or {}
        # MLflow gives a trace by its id whichever it is in
        if _experiment_of(info) not in await self._ids():
            return None
        if not trace.get("spans"):
            what = "%s: MLflow gives no spans of trace %s; it may keep them elsewhere"
            _log.warning(what, self._where, found.trace_id)
            return None
        why = "MLflow has not got its root span" if info.get("state") == "IN_PROGRESS" else ""
        try:
            spans = {"scopeSpans": [{"spans": trace["spans"]}]}
            request = from_object("traces", {"resourceSpans": [spans]})
        except ValueError as error:
            raise InputError(
                f"{self._where}: MLflow answered with a trace that cannot be read: {error}"
            ) from None
        truncated = CUT if answer.is_cut else why
        made = stored(found.trace_id, [request], truncated, len(answer.body))
        tags = info.get("tags") or {}
        resource = Resource({x: tags[x] for x in tags if x.startswith(_OF_RESOURCE)})
        return replace(made, spans=[_as_sent(x, resource) for x in made.spans])

    async def _ids(self) -> Sequence[str]:
        """The ids of the experiments. Raises InputError where there is none of a name."""
        if not self._experiment_ids:
            self._experiment_ids = [await self._id_of(x) for x in self._experiments]
        return self._experiment_ids

    async def _id_of(self, experiment: str) -> str:
        if experiment.isdecimal():
            return experiment
        path, named = "/api/2.0/mlflow/experiments/get-by-name", {"experiment_name": experiment}
        answer = await self._http.get(path, named, expected=(404,))
        if answer.status == 404:
            raise InputError(f"{self._where}: MLflow has no experiment {experiment!r}")
        return str(self._parsed(answer)["experiment"]["experiment_id"])


def _experiment_of(info: Mapping[str, Any]) -> str | None:
    """The id of the experiment that a trace is in; None where MLflow gives none."""
    location = info.get("trace_location") or {}
    found = (location.get("mlflow_experiment") or {}).get("experiment_id")
    return None if found is None else str(found)


def _filter(query: Query, of_spans: Mapping[str, str]) -> str:
    """The conditions of a query in MLflow's language, whose unit of time is a millisecond, and
    those `of_spans`.
    """
    conditions = []
    if query.since_ns is not None:
        conditions.append(f"timestamp_ms >= {query.since_ns // _NS_PER_MS}")
    if query.until_ns is not None:
        conditions.append(f"timestamp_ms <= {query.until_ns // _NS_PER_MS}")
    return " AND ".join([*conditions, *_tag_condition(query).values(), *of_spans.values()])


def _tag_condition(query: Query) -> dict[str, str]:
    """By name what MLflow is asked of a trace's tags."""
    if query.service is None or not _PLAIN.fullmatch(query.service):
        return {}
    return {"service": f"tags.`service.name` = '{query.service}'"}


def _span_condition(query: Query) -> dict[str, str]:
    """By name the one condition that MLflow is asked of spans: of several it wants all to hold for
    the same span.

    By an attribute it finds the spans that have the value anywhere after the name.
    """
    if query.errors:
        return {"errors": "span.status = 'ERROR'"}
    for name, value in query.attributes.items():
        is_plain = _NAME.fullmatch(name) and _PLAIN.fullmatch(value)
        if is_plain and not name.startswith((_OWN, *_OF_RESOURCE)):
            return {f"attribute.{name}": f"span.attributes.`{name}` LIKE '%{value}%'"}
    return {}


def _as_sent(span: Span, resource: Resource) -> Span:
    """A span with its attributes as they were sent, and without those that MLflow added to
    another's span.
    """
    attributes = {name: as_sent(value) for name, value in span.attributes.items()}
    of_others = {name: x for name, x in attributes.items() if not name.startswith(_OWN)}
    return replace(span, attributes=of_others or attributes, resource=resource)
