"""A trace that repeats another's model calls."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from spanscore.turns.basis import stitch_keys
from spanscore.turns.stitch import gateway
from spanscore.turns.stitch.fragment import Clue, ReadTrace, Sign, TraceFragment
from spanscore.turns.stitch.gateway import Reports
from spanscore.turns.stitch.groups import Groups, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayClue(Clue):
    """The model calls of a trace, which another trace may report as well."""

    reports: Reports


class Gateway(Reason):
    """The application's trace and the gateway's report the same model calls."""

    words = (
        "a trace shows model calls and nothing else, and another one reports all of them as "
        "well ([below](#deduplicated-model-calls)); it completes these calls"
    )
    signs: ClassVar[frozenset[Sign]] = frozenset({"calls alone"})

    def clue(self, trace: ReadTrace) -> GatewayClue | None:
        """The reports of its model calls; only a trace of nothing else looks for other reports."""
        if not trace.traces:
            return None
        reports = gateway.reports(trace.reading, trace.tree)
        sought = tuple(reports.ids) if reports.is_bare else ()
        return GatewayClue(
            reports=reports,
            is_evidence=bool(sought) or reports.is_gateway,
            must_wait=reports.is_gateway,
            model_call_ids=sought,
        )

    def offers(self, part: TraceFragment) -> Iterable[str]:
        """The ids of its model calls."""
        clue = part.clue(GatewayClue)
        return () if clue is None else map(stitch_keys.model_call, clue.reports.ids)

    def seeks(self, part: TraceFragment) -> Iterable[str]:
        """The ids of its model calls, where it shows nothing else."""
        clue = part.clue(GatewayClue)
        return () if clue is None else map(stitch_keys.model_call, clue.model_call_ids)

    def join(self, groups: Groups) -> None:
        """Set those traces aside that only repeat the calls of others."""
        repeats = gateway.repeated(_reports(groups))
        groups.set_aside(
            repeats, reason=self.name, since="that trace reports all of its model calls as well"
        )


def _reports(groups: Groups) -> Iterator[Reports]:
    for part in groups.all:
        clue = part.clue(GatewayClue)
        if clue is not None:
            yield clue.reports
