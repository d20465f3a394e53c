"""Requests of AnalyticsService made from keywords, for both clients."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypedDict

from spanscore.api.client_keywords import fields, named, one_of
from spanscore.api.v1 import analytics_service_pb2 as pb

UnitName = Literal["hour", "day", "week", "month", "quarter", "year"]
_SELECTION: Final = ("filter", "start_ns", "end_ns", "run")


class Selection(TypedDict, total=False):
    """Which scores a question is about; without conditions, all that were made as traces came and
    that others gave.
    """

    filter: str
    """Conditions (AIP-160) such as `metric = faithfulness AND service = "shop"`, as ScoreSelection
    has them.
    """

    start_ns: int
    """Only what was measured, or given, then or later, in nanoseconds since the Unix epoch."""

    end_ns: int
    """Only what was measured, or given, earlier than that."""

    run: str
    """The scores of this evaluation run: its id or `runs/ID`."""


class Summary(Selection, total=False):
    """Which scores are summarized, and how."""

    group_by: Sequence[str]
    """What figures are kept apart by, such as "service" or "model"."""

    level: float
    """How often intervals are to contain the true figure."""


class Trend(Summary, total=False):
    """Which scores are followed over time, and how."""

    unit: UnitName
    """How long the times are; without it days."""

    time_zone: str
    """By whose clocks days begin, such as Europe/Berlin; without it UTC."""


class Distribution(Selection, total=False):
    """Of which scores the spread is asked for, and how."""

    level: float
    """How often intervals are to contain the true figure."""

    bins: int
    """Into how many bins the scale is parted."""

    quantiles: Sequence[float]
    """Which quantiles, such as 0.9."""


def summary_request(wanted: Summary) -> pb.SummarizeScoresRequest:
    """Asks for summaries. Raises TypeError for an option that there is not."""
    return pb.SummarizeScoresRequest(**_selected(fields(wanted, Summary, "a summary")))


def trend_request(wanted: Trend) -> pb.QueryScoreTrendRequest:
    """Asks for trends.

    Raises TypeError for an option that there is not, ValueError for a unit that there is not.
    """
    found = _selected(fields(wanted, Trend, "a trend"))
    if "unit" in found:
        one_of("unit", found["unit"], UnitName)
        found["unit"] = pb.TimeUnit.Value(f"TIME_UNIT_{found['unit'].upper()}")
    return pb.QueryScoreTrendRequest(**found)


def distribution_request(wanted: Distribution) -> pb.QueryScoreDistributionRequest:
    """Asks for distributions. Raises TypeError for an option that there is not."""
    return pb.QueryScoreDistributionRequest(
        **_selected(fields(wanted, Distribution, "a distribution"))
    )


def compare_request(
    before: Selection, after: Selection, group_by: Sequence[str], level: float | None
) -> pb.CompareScoresRequest:
    """Asks how two selections differ. Raises TypeError for a condition that there is not."""
    return pb.CompareScoresRequest(
        before=_selection(before), after=_selection(after), group_by=group_by, level=level
    )


def rank_request(wanted: Selection) -> pb.RankSessionsRequest:
    """Asks for the worst sessions. Raises TypeError for a condition that there is not."""
    return pb.RankSessionsRequest(selection=_selection(wanted))


def history_request(
    metric: str, trace_id: str | None, session_id: str | None
) -> pb.ListScoreHistoryRequest:
    """Asks for all that was said of one trace or session.

    Raises TypeError where both are given, or none.
    """
    if (trace_id is None) == (session_id is None):
        raise TypeError("give trace_id or session_id, one of the two")
    if trace_id is not None:
        return pb.ListScoreHistoryRequest(metric=metric, trace_id=trace_id)
    return pb.ListScoreHistoryRequest(metric=metric, session_id=session_id or "")


def _selection(wanted: Selection) -> pb.ScoreSelection:
    found: pb.ScoreSelection = _selected(fields(wanted, Selection, "a selection of scores"))[
        "selection"
    ]
    return found


def _selected(found: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request, of which those that select scores are a message of their own."""
    selection = {name: found[name] for name in _SELECTION if name in found}
    if "run" in selection:
        selection["run"] = named("runs", selection["run"])
    others = {name: value for name, value in found.items() if name not in _SELECTION}
    return {"selection": pb.ScoreSelection(**selection), **others}
