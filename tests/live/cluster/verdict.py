"""What a cluster made of a load: what is lost, scored twice, or split, by its store and backend."""

import base64
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import load
from load import Turn
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from parts import METRICS, SESSION_METRIC
from sqlalchemy import select

from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.store import schema
from spanscore.store.config import Config
from spanscore.store.store import Store

_ALL = 10**7


@dataclass
class Stored:
    """What is in the store: agent traces, and all evaluations that were ever made."""

    traces: dict[str, list[AgentTrace]] = field(default_factory=lambda: defaultdict(list))
    """By OTel trace id."""
    evaluations: list[Evaluation] = field(default_factory=list)

    def scores(self, scope: str) -> dict[str, dict[str, list[Evaluation]]]:
        """By subject and metric, the oldest revision first."""
        found: dict[str, dict[str, list[Evaluation]]] = defaultdict(lambda: defaultdict(list))
        for one in sorted(self.evaluations, key=lambda x: x.revision):
            if one.scope == scope and one.run is None:
                found[one.subject_id][one.metric].append(one)
        return found


def read_store(url: str) -> Stored:
    """Read all of a store."""
    store = Store.open(Config(url=url))
    try:
        found = Stored(evaluations=[x for _, x in store.outbox(0, _ALL)])
        ids = store.read(
            lambda connection: connection.execute(select(schema.agent_traces.c.id)).scalars().all()
        )
        for trace in filter(None, map(store.trace, ids)):
            for trace_id in trace.trace_ids:
                found.traces[trace_id].append(trace)
    finally:
        store.close()
    return found


@dataclass
class Received:
    """What a backend has got: how often each score came, by its uid, and as what."""

    spans: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    uids: dict[tuple[str, ...], set[str]] = field(default_factory=lambda: defaultdict(set))
    """By session or trace, metric and revision."""


def read_backend(recorded: Path) -> Received:
    """Read what the backend wrote down."""
    found = Received()
    for line in recorded.read_bytes().splitlines():
        signal, _, body = line.partition(b" ")
        if signal == b"traces":
            _read_spans(found, ExportTraceServiceRequest.FromString(base64.b64decode(body)))
        elif signal == b"logs":
            _read_events(found, ExportLogsServiceRequest.FromString(base64.b64decode(body)))
    return found


def _read_spans(found: Received, request: ExportTraceServiceRequest) -> None:
    for group in request.resource_spans:
        for span in (x for scoped in group.scope_spans for x in scoped.spans):
            attributes = _texts(span.attributes)
            if "gen_ai.evaluation.name" not in attributes:  # the summary of all scores
                continue
            uid = span.span_id.hex()
            found.spans[uid] += 1
            found.uids[_named(attributes, span.trace_id.hex())].add(uid)


def _read_events(found: Received, request: ExportLogsServiceRequest) -> None:
    for group in request.resource_logs:
        for record in (x for scoped in group.scope_logs for x in scoped.log_records):
            if record.event_name == "gen_ai.evaluation.result":
                found.events[_texts(record.attributes)["log.record.uid"]] += 1


def _named(attributes: dict[str, str], trace_id: str) -> tuple[str, ...]:
    scope = attributes["spanscore.scope"]
    subject = attributes["gen_ai.conversation.id"] if scope == "session" else trace_id
    return scope, subject, attributes["gen_ai.evaluation.name"], attributes["spanscore.revision"]


def _texts(attributes) -> dict[str, str]:
    found = ((x.key, x.value, x.value.WhichOneof("value")) for x in attributes)
    return {key: str(getattr(value, kind)) for key, value, kind in found if kind}


@dataclass
class Verdict:
    """The findings of each kind, a line each."""

    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    split: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    """Agent traces that are marked as not complete, though all that was sent is in them."""
    revised: int = 0
    """Agent traces that were evaluated again since the rest of them came late."""
    repeated: int = 0
    """Scores that the backend got more than once, the same each time."""
    evaluations: int = 0
    sessions: int = 0

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.twice or self.split)

    def __str__(self) -> str:
        counts = f"lost {len(self.lost)}, twice {len(self.twice)}"
        return f"{counts}, sessions split {len(self.split)}"


def judged(turns: list[Turn], stored: Stored, received: Received) -> Verdict:
    """Compare what was sent with what the store and the backend have."""
    sessions: dict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        sessions[turn.session_id].append(turn)
    of_traces, of_sessions = stored.scores("trace"), stored.scores("session")
    verdict = Verdict(evaluations=len(stored.evaluations), sessions=len(sessions))
    for turn in turns:
        _judge_turn(verdict, turn, stored.traces.get(turn.trace_id, []), of_traces)
    sets: dict[str | None, list[dict[str, list[Evaluation]]]] = defaultdict(list)
    for by_metric in of_sessions.values():
        sets[by_metric[SESSION_METRIC][0].session_id].append(by_metric)
    for session_id, of_it in sessions.items():
        _judge_session(verdict, session_id, of_it, sets[session_id])
    for by_metric in (*of_traces.values(), *of_sessions.values()):
        for revisions in by_metric.values():
            verdict.twice += _doubles(revisions)
    _judge_backend(verdict, stored, received)
    return verdict


def _judge_turn(verdict: Verdict, turn: Turn, traces: list[AgentTrace], scores) -> None:
    where = f"turn {turn.trace_id} of {turn.session_id}"
    if turn.refused:
        verdict.lost.append(f"{where}: refused for good, {turn.refused[0]}")
    if not traces:
        verdict.lost.append(f"{where}: no agent trace")
        return
    if len(traces) > 1:
        verdict.twice.append(f"{where}: {len(traces)} agent traces")
    trace = traces[0]
    had = trace.user_input, trace.final_output, len(trace.tool_calls or ())
    if had != (turn.question, turn.answer, 1):
        verdict.lost.append(f"{where}: its agent trace lacks spans ({trace.completeness})")
    elif trace.completeness != "complete":
        verdict.incomplete.append(f"{where}: {trace.completeness}, {turn.parts} requests")
    _judge_scores(verdict, turn, scores.get(trace.id, {}), where)


def _judge_scores(verdict: Verdict, turn: Turn, by_metric, where: str) -> None:
    """Of the metrics that every trace has; what session runs measure of traces has the revisions of
    these runs.
    """
    newest = {metric: by_metric[metric][-1] for metric in METRICS if metric in by_metric}
    for metric in METRICS:
        if metric not in newest or newest[metric].status != "scored":
            verdict.lost.append(f"{where}: no score of {metric}")
    last = max((x.revision for x in newest.values()), default=1)
    verdict.revised += last > 1
    if last > turn.parts:
        all_ = max((by_metric[x] for x in newest), key=len)
        times = ", ".join(f"{(x.evaluated_at_ns - load.EPOCH_NS) / 1e9:.1f}" for x in all_)
        came = f"sent at {turn.at_s:.1f} s in {turn.parts} requests"
        verdict.twice.append(f"{where}: {came}, evaluated at {times} s")


def _judge_session(verdict: Verdict, session_id: str, turns: list[Turn], found) -> None:
    where = f"session {session_id}"
    if len(found) != 1:
        verdict.split.append(f"{where}: {len(found)} sets of session scores")
        return
    newest = found[0][SESSION_METRIC][-1]
    wanted, had = {x.trace_id for x in turns}, _rests_on(newest)
    if had != wanted:
        verdict.split.append(
            f"{where}: revision {newest.revision} rests on {len(had)} of {len(wanted)} turns"
        )
    most = sum(x.parts for x in turns)
    if newest.revision > most:
        verdict.twice.append(f"{where}: revision {newest.revision} of what came in {most} requests")


def _rests_on(evaluation: Evaluation) -> set[str]:
    """The OTel trace ids of the turns that a session's score rests on."""
    if evaluation.status != "scored":
        return set()
    return set(evaluation.outcome.metadata["per_trace_signals"])


def _doubles(revisions: Iterable[Evaluation]) -> list[str]:
    """A line for each evaluation beside another of the same subject, metric and revision."""
    uids: dict[int, set[str]] = defaultdict(set)
    for one in revisions:
        uids[one.revision].add(one.uid)
        where = f"{one.scope} {one.subject_id}: {one.metric}"
    return [
        f"{where} has {len(x)} evaluations of revision {n}" for n, x in uids.items() if len(x) > 1
    ]


def _judge_backend(verdict: Verdict, stored: Stored, received: Received) -> None:
    shown = {x.uid: x for x in stored.evaluations if x.is_shown}
    for name, got in (("spans", received.spans), ("events", received.events)):
        for uid in shown.keys() - got.keys():
            one = shown[uid]
            verdict.lost.append(f"{one.scope} {one.subject_id}: {one.metric} is not among {name}")
        verdict.twice += [
            f"score {x} is among {name}, not stored" for x in got.keys() - shown.keys()
        ]
    for named, uids in received.uids.items():
        if len(uids) > 1:
            verdict.twice.append(f"{' '.join(named)}: {len(uids)} spans at the backend")
    verdict.repeated = sum(1 for x in received.spans.values() if x > 1)
