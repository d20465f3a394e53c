"""A store of scores of every kind, and the same scores as plain rows, which tests add up by
themselves.
"""

import random
from types import SimpleNamespace

from spanscore.model.score import Annotation, Evaluation, Evaluator, Failure, Score, Skip
from spanscore.model.trace import AgentTrace, ModelCall, Target, ToolCall
from spanscore.store.store import StoredTrace

DAY_NS = 86_400 * 10**9
START_NS = 1_790_000_000 * 10**9
JUDGE = Evaluator("LLM", "task_completion", "1", model="judge-1", prompt_hash="abc")
METRICS = ("task_completion", "coherence", "rubric.tone")
SCALES = {"task_completion": (0.0, 1.0), "coherence": (0.0, 1.0), "rubric.tone": (1.0, 5.0)}
TAGS = (), ("beta",), ("beta", "internal"), ("internal",)
THRESHOLDS = {"task_completion": 0.5, "coherence": None, "rubric.tone": 3.0}


def make_trace(number, rng):
    trace_id = f"{number:032x}"
    started_ns = START_NS + number * DAY_NS // 7
    service = rng.choice(["shop", "bank"])
    resource = {"service.name": service, "service.version": rng.choice(["1", "2"])}
    if number % 3:
        resource["deployment.environment.name"] = "prod"
    target = Target(trace_id, f"{number:016x}", started_ns, started_ns + 10**9, resource)
    tools = tuple(
        ToolCall(f"c{x}", x, {}, "")
        for x in rng.sample(["search", "book", "pay"], rng.randrange(3))
    )
    session = None if number % 5 == 0 else f"session {number // 4}"
    tags = {"langfuse.trace.tags": TAGS[number % 4]} if TAGS[number % 4] else {}
    return AgentTrace(
        trace_ids=(trace_id,),
        root_span_id=target.span_id,
        target=target,
        opening_span_id=target.span_id,
        started_ns=started_ns,
        ended_ns=started_ns + 10**9,
        session_id=session,
        service_name=service,
        agent_name=rng.choice(["planner", None]),
        model_calls=(ModelCall(target.span_id, rng.choice(["gpt-4o", "claude", None])),),
        tool_calls=tools,
        attributes=tags,
    )


def make_score(trace, metric, outcome, **facts):
    defaults = {
        "scope": "trace",
        "subject_id": trace.id,
        "metric": metric,
        "outcome": outcome,
        "threshold": THRESHOLDS.get(metric),
        "scale": SCALES.get(metric),
        "evaluator": JUDGE,
        "target": trace.target,
        "session_id": trace.session_id,
        "session_key": trace.session_key,
        "agent_name": trace.agent_name,
        "service_name": trace.service_name,
        "evaluated_at_ns": trace.ended_ns,
    }
    return Evaluation(**{**defaults, **facts})


def an_outcome(metric, rng):
    kind = rng.random()
    if kind < 0.1:
        return Skip("none", rng.choice(["budget", "no_judge"]))
    if kind < 0.15:
        return Failure("TimeoutError", "slow")
    low, high = SCALES[metric]
    return Score(rng.choice([low, high, rng.uniform(low, high)]), "")


def row_of(score, trace):
    resource = trace.target.resource
    return SimpleNamespace(
        metric=score.metric,
        source=score.evaluator.source or "spanscore",
        run=score.run or "",
        value=score.value,
        passed=score.label == "pass" if score.label in {"pass", "fail"} else score.passed,
        label=score.label,
        status=score.status,
        cause=getattr(score.outcome, "cause", None) or getattr(score.outcome, "type", None),
        weight=1 / score.sampling,
        cluster=trace.session_id or trace.id,
        subject=score.subject_id,
        at_ns=trace.started_ns,
        given_ns=score.evaluated_at_ns,
        service=trace.service_name,
        agent=trace.agent_name,
        environment=resource.get("deployment.environment.name"),
        version=resource["service.version"],
        model=trace.model_calls[0].model,
        tools=sorted({x.name for x in trace.tool_calls}),
        tags=trace.attributes.get("langfuse.trace.tags", ()),
        score=score,
    )


class Population:
    """What was written into a store, each score's newest revision as a row."""

    def __init__(self, store, seed=1):
        self.store, self.rng = store, random.Random(seed)
        self.traces = []
        self.made = 0
        self.newest = {}

    @property
    def rows(self):
        return list(self.newest.values())

    def commit(self, traces, *, revision=1, run=None, metrics=METRICS):
        scores = []
        for trace in traces:
            share = self.rng.choice([1.0, 0.25])
            for metric in metrics:
                facts = {"revision": revision, "run": run, "sampling": share}
                score = make_score(trace, metric, an_outcome(metric, self.rng), **facts)
                scores.append(score)
                self.newest[trace.id, metric, run, None] = row_of(score, trace)
        self.store.commit(
            [StoredTrace(x, revision, f"digest {revision}") for x in traces if run is None], scores
        )

    def measure(self, number, metric, value, **facts):
        """Commit a turn with one score that no row is kept of."""
        trace = make_trace(number, random.Random(number))
        self.store.commit(
            [StoredTrace(trace, 1, "digest")],
            [make_score(trace, metric, Score(value, ""), **facts)],
        )

    def add(self, count):
        traces = [make_trace(self.made + x, self.rng) for x in range(1, count + 1)]
        self.made += count
        self.traces += traces
        self.commit(traces)
        return traces

    def give(self, trace, author, value, at_ns, **facts):
        by = Evaluator("HUMAN", "review", "1", source="human", author=author)
        given = {"subject_id": trace.trace_ids[0], "evaluator": by, "evaluated_at_ns": at_ns}
        given |= {
            "received_uid": f"{self.rng.getrandbits(64):016x}",
            "session_id": None,
            "session_key": None,
        }
        score = make_score(
            trace, "helpful", Annotation(value, facts.pop("label", None)), **{**given, **facts}
        )
        self.store.put_external([score])
        before = self.newest.get((trace.id, "helpful", None, author))
        if before is None or before.given_ns <= at_ns:
            self.newest[trace.id, "helpful", None, author] = row_of(score, trace)
