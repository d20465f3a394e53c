"""Inputs of judges: whether what is scored is as what was labelled."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spanscore.calibration.certificate import Certificate, Inputs
from spanscore.calibration.verdicts import judge_of, key_of
from spanscore.judge.config import Certificate as Required
from spanscore.judge.passages import scripts
from spanscore.lazy_imports import np
from spanscore.model.trace import AgentTrace
from spanscore.stats import shares_differ

if TYPE_CHECKING:
    from spanscore.model.score import Evaluation
    from spanscore.store.calibrations import Kept
    from spanscore.store.store import Store

WINDOW = 300
"""Sessions, and traces of none, that are compared with the labelled ones at a time."""

ALPHA = 0.01
"""The chance that a certificate ever ends though nothing has moved."""

_READ = 3000
"""Scores among which a window is looked for."""

_PARTS = 10
"""Of the labelled inputs by their lengths, with about as many in each."""


def inputs_of(traces: Sequence[AgentTrace], limits: Sequence[float] = ()) -> Inputs:
    """Counts of these traces; of their lengths between `limits`, else between quantiles."""
    lengths = [len(x.user_input or "") + len(x.final_output or "") for x in traces]
    if not limits and lengths:
        own = np.quantile(lengths, [x / _PARTS for x in range(1, _PARTS)])
        limits = sorted({float(x) for x in own})
    places = np.searchsorted(list(limits), lengths, side="right")
    facts = {
        "length": Counter(str(x) for x in places),
        "script": Counter(" ".join(scripts(x.user_input or "")) for x in traces),
        "tools": Counter(_tools(x) for x in traces),
        "domain": Counter(f"{x.service_name or ''}/{x.agent_name or ''}" for x in traces),
    }
    return Inputs(tuple(limits), {name: dict(counts) for name, counts in facts.items()})


def _tools(trace: AgentTrace) -> str:
    """The tools that a turn called, each once."""
    return " ".join(sorted({x.name for x in trace.tool_calls or ()}))


def moved(labelled: Inputs, traces: Sequence[AgentTrace], alpha: float) -> list[str]:
    """Which facts of these traces are distributed otherwise than those of the labelled inputs.

    `alpha` is the chance that any is named though none differs.
    """
    now: Mapping[str, Mapping[str, int]] = inputs_of(traces, labelled.limits).counts
    each = alpha / len(labelled.counts)
    return [x for x, before in labelled.counts.items() if shares_differ(before, now[x], each)]


@dataclass(frozen=True, slots=True)
class InputWatch:
    """Ends the certificates of judges of traces whose inputs have moved. Blocks."""

    store: "Store"
    required: Required

    def look(self, now_ns: int) -> None:
        """Look at each certificate that holds."""
        for kept in self.store.labels.kept():
            found = Certificate.from_json(kept.record.get("certificate"))
            if found is None or found.why_not(self.required):
                continue
            after = self._begun(kept, found) if found.inputs is None else self._next(kept, found)
            if after is None:
                continue
            if after.ended:
                day = datetime.fromtimestamp(now_ns / 1e9, UTC).date().isoformat()
                after = replace(after, ended=f"it ended on {day}: {after.ended}")
            self.store.labels.change(kept, {**kept.record, "certificate": after.to_json()})

    def _begun(self, kept: "Kept", found: Certificate) -> Certificate | None:
        """With the labelled inputs, if most of them are stored."""
        units = kept.record["used"][-found.labels :]
        traces = self._traces(kept, (x.removeprefix("trace ").partition("/")[0] for x in units))
        if 2 * len(traces) < found.labels:
            return None
        return replace(found, inputs=inputs_of(traces), seq=self.store.labels.last_seq())

    def _next(self, kept: "Kept", found: Certificate) -> Certificate | None:
        """After the next window of what the judge scores; None before that is full."""
        if found.inputs is None:
            return None
        metric = kept.record["judge"]["metric"]
        rows = self.store.labels.scored(kept.tenant, metric, found.seq, _READ)
        first: dict[str, tuple[int, Evaluation]] = {}
        for seq, score in rows:
            if key_of(judge_of(score)) == kept.key:
                first.setdefault(score.session_key or score.subject_id, (seq, score))
        window = [*first.values()][:WINDOW]
        if len(window) < WINDOW and len(rows) < _READ:
            return None
        traces = self._traces(kept, (x.subject_id for _, x in window))
        look = found.looks + 1
        facts = moved(found.inputs, traces, ALPHA / (look * (look + 1)))
        ended = f"the {' and the '.join(facts)} of its inputs moved" if facts else ""
        last = window[-1][0] if len(window) == WINDOW else rows[-1][0]
        return replace(found, looks=look, seq=last, ended=ended)

    def _traces(self, kept: "Kept", ids: Iterable[str]) -> list[AgentTrace]:
        """The traces that are stored, one of each session."""
        tenant = kept.tenant or None
        found = (self.store.trace(x, tenant=tenant) for x in ids)
        return [*{x.session_key or x.id: x for x in found if x is not None}.values()]
