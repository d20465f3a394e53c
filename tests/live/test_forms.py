"""The rules of what goes out by OTLP, held against what a whole server sends of a recording."""

import runpy
import sys
from collections import Counter
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

import spanscore
from spanscore.export import wording
from spanscore.otlp import codec as otlp_json
from spanscore.store.config import Config
from spanscore.store.store import Store

pytestmark = pytest.mark.slow

sys.path.insert(0, str(Path(__file__).parents[1] / "judge"))
_LIVE = runpy.run_path(str(Path(__file__).parent / "conftest.py"))
Recording, RunningServer = _LIVE["Recording"], _LIVE["RunningServer"]
CASE, TRACES = "semconv/message-attributes", 4
SIGNALS = {"resourceSpans": "traces", "resourceLogs": "logs", "resourceMetrics": "metrics"}


class Sent:
    """What a server sent of a recording, request by request, as `(signal, request)`; `killed` in
    the middle, say.
    """

    def __init__(self, folder, *, killed=False, **settings):
        self.recorded = Recording(CASE)
        self.server = RunningServer(folder, **settings).start()
        with grpc.insecure_channel(f"127.0.0.1:{self.server.grpc}") as channel:
            TraceServiceStub(channel).Export(self.recorded.traces)
        if killed:
            self.server.wait_until(lambda state: state["counters"].get("traces_finished", 0) > 1)
            self.server.kill()
            self.server.start()
            self.server.wait_until(
                lambda state: not state["open_traces"] and not state["waiting_traces"]
            )
        self.server.wait_until_finished(0 if killed else TRACES)
        self.server.stop()

    def requests(self):
        lines = self.server.scores.read_text().splitlines()
        signals = [
            next(signal for key, signal in SIGNALS.items() if key in line[:40]) for line in lines
        ]
        return [
            (signal, otlp_json.parse(signal, line))
            for signal, line in zip(signals, lines, strict=True)
        ]

    def spans(self):
        return list(
            spans_of(x for _, x in self.requests() if isinstance(x, ExportTraceServiceRequest))
        )

    def records(self):
        requests = [x for _, x in self.requests() if isinstance(x, ExportLogsServiceRequest)]
        return [
            x
            for r in requests
            for g in r.resource_logs
            for s in g.scope_logs
            for x in s.log_records
        ]

    def points(self):
        requests = [x for _, x in self.requests() if isinstance(x, ExportMetricsServiceRequest)]
        scopes = [s for r in requests for g in r.resource_metrics for s in g.scope_metrics]
        return [x for s in scopes for m in s.metrics for x in m.histogram.data_points]

    def received(self):
        """The recording's spans by trace id and span id, each with its resource."""
        return {
            (x.trace_id, x.span_id): (group, x) for group, _, x in spans_of([self.recorded.traces])
        }

    def evaluations(self):
        store = Store.open(Config(url=f"sqlite:///{self.server.folder}/store.db"))
        found = [x for _, x in store.outbox(0, 100_000)]
        store.close()
        return found


def spans_of(requests):
    return [
        (g, s.scope, x)
        for r in requests
        for g in r.resource_spans
        for s in g.scope_spans
        for x in s.spans
    ]


def facts(item):
    return {x.key: getattr(x.value, x.value.WhichOneof("value")) for x in item.attributes}


def is_score(span):
    """Whether it is the span of one score, and not the one that sums up a trace."""
    return "gen_ai.evaluation.name" in facts(span)


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    return Sent(tmp_path_factory.mktemp("sent"))


def test_each_span_is_a_child_of_a_span_that_was_received(sent):
    assert all((x.trace_id, x.parent_span_id) in sent.received() for _, _, x in sent.spans())


def test_each_lies_inside_its_parent_and_has_a_length(sent):
    for _, _, x in sent.spans():
        _, parent = sent.received()[x.trace_id, x.parent_span_id]
        start_ns = max(parent.start_time_unix_nano, parent.end_time_unix_nano - 10**6)
        assert start_ns <= x.start_time_unix_nano
        assert x.end_time_unix_nano == parent.end_time_unix_nano
        assert x.start_time_unix_nano < x.end_time_unix_nano


def test_no_trace_is_longer_than_it_was(sent):
    def ends(spans):
        last = Counter()
        for _, _, x in spans:
            last[x.trace_id] = max(last[x.trace_id], x.end_time_unix_nano)
        return last

    before = ends(spans_of([sent.recorded.traces]))
    assert all(end <= before[trace_id] for trace_id, end in ends(sent.spans()).items())


def test_none_has_a_status_or_a_link_and_all_are_internal(sent):
    assert {(x.HasField("status"), len(x.links), x.kind) for _, _, x in sent.spans()} == {
        (False, 0, 1)
    }


def test_among_them_are_passes_and_fails(sent):
    labels = {facts(x).get("gen_ai.evaluation.score.label") for _, _, x in sent.spans()}
    assert labels >= {"pass", "fail"}


def test_the_name_says_verdict_and_metric(sent):
    for _, _, x in sent.spans():
        found = facts(x)
        if is_score(x):
            label = found.get("gen_ai.evaluation.score.label") or (
                "no score" if "spanscore.skip_cause" in found else "score"
            )
            assert x.name == f"{label}: {found['gen_ai.evaluation.name']}"


def test_each_scored_trace_has_one_summary_that_counts_what_failed(sent):
    scores = [x for x in sent.evaluations() if x.scope == "trace" and x.tally and x.tally.is_news]
    counted = {x.target.trace_id: f"spanscore: {wording.tally(x.tally)}" for x in scores}
    summaries = [x for _, _, x in sent.spans() if x.name.startswith("spanscore: ")]
    assert len(summaries) == len(scores)
    assert {x.trace_id.hex(): x.name for x in summaries} == counted


def test_each_comes_under_its_parents_resource(sent):
    for group, _, x in sent.spans():
        theirs, _ = sent.received()[x.trace_id, x.parent_span_id]
        assert facts(group.resource) == facts(theirs.resource)


def test_the_scope_is_spanscore_with_its_version(sent):
    assert {(scope.name, scope.version) for _, scope, _ in sent.spans()} == {
        ("spanscore", spanscore.__version__)
    }


def test_the_summary_is_the_first_attribute(sent):
    assert {x.attributes[0].key for _, _, x in sent.spans()} == {"evaluation.summary"}


def test_everything_is_marked_as_emitted(sent):
    items = [x for _, _, x in sent.spans()] + sent.records() + sent.points()
    assert {facts(x).get("spanscore.emitted") for x in items} == {True}


def test_nothing_looks_like_tokens_of_the_users(sent):
    refused = ("gen_ai.usage.", "llm.", "gen_ai.request.", "gen_ai.response.")
    assert not [key for _, _, x in sent.spans() for key in facts(x) if key.startswith(refused)]


def test_each_span_has_its_event_with_the_same_id_and_target(sent):
    spans = {
        x.span_id.hex(): (x.trace_id, x.parent_span_id) for _, _, x in sent.spans() if is_score(x)
    }
    events = {facts(x)["log.record.uid"]: (x.trace_id, x.span_id) for x in sent.records()}
    assert events == spans


def test_a_sessions_scores_are_on_the_root_of_its_last_trace(sent):
    sessions = [x for _, _, x in sent.spans() if facts(x)["spanscore.scope"] == "session"]
    assert sessions
    roots = [x for _, x in sent.received().values() if not x.parent_span_id]
    for x in sessions:
        of_session = [
            r for r in roots if facts(r).get("gen_ai.conversation.id") == facts(x)["session.id"]
        ]
        last = max(of_session, key=lambda r: r.start_time_unix_nano)
        assert (x.trace_id, x.parent_span_id) == (last.trace_id, last.span_id)


def test_the_histogram_counts_each_score_once(sent):
    scored = [x for x in sent.evaluations() if x.value is not None]
    assert sum(x.count for x in sent.points()) == len(scored)


def test_the_histograms_values_are_shares_of_their_scale(sent):
    assert all(0 <= x.min <= x.max <= 1 for x in sent.points())


def test_a_kill_makes_the_histogram_count_no_score_twice(tmp_path):
    sent = Sent(tmp_path, killed=True)
    scored = [x for x in sent.evaluations() if x.value is not None]
    assert 0 < sum(x.count for x in sent.points()) <= len(scored)


def test_another_server_gives_the_same_ids(sent, tmp_path):
    other = Sent(tmp_path)
    assert {x.span_id for _, _, x in other.spans()} == {x.span_id for _, _, x in sent.spans()}


def test_what_is_sent_again_after_a_restart_has_the_same_ids(tmp_path):
    sent = Sent(tmp_path)
    before = [(x.span_id, x.parent_span_id) for _, _, x in sent.spans()]
    sent.server.scores.rename(tmp_path / "scores-before.jsonl")
    store = Store.open(Config(url=f"sqlite:///{tmp_path}/store.db"))
    store.set_cursor("otlp_json_file", 0)
    store.close()
    sent.server.start()
    sent.server.wait_until_finished(0)
    sent.server.stop()
    assert sorted((x.span_id, x.parent_span_id) for _, _, x in sent.spans()) == sorted(before)


def test_a_failed_evaluation_says_so_without_an_error_status_and_its_event_warns(tmp_path):
    from scripted_server import ScriptedServer, refusal

    with ScriptedServer(refusal(400)) as model:
        judge = {
            "model": "openai/gpt-4o-mini",
            "api_base": model.url,
            "api_key": "a-key",
            "timeout": "5m",
        }
        sent = Sent(tmp_path, judge=judge)
    spans = [x for _, _, x in sent.spans() if "error.type" in facts(x)]
    records = [x for x in sent.records() if "error.type" in facts(x)]
    assert {(facts(x)["error.type"], x.HasField("status")) for x in spans} == {
        ("JudgeUnavailableError", False)
    }
    assert {x.severity_text for x in records} == {"WARN"}
    assert {facts(x)["log.record.uid"] for x in records} == {x.span_id.hex() for x in spans}


def test_linked_each_is_in_a_trace_of_its_own_with_a_link_to_its_target(tmp_path):
    sent = Sent(
        tmp_path,
        export={
            "placement": "linked",
            "exporters": {"otlp_json_file": {"path": str(tmp_path / "scores.jsonl")}},
        },
    )
    traces = [x.trace_id for _, _, x in sent.spans()]
    assert len(set(traces)) == len(traces)
    assert all(
        (link.trace_id, link.span_id) in sent.received()
        for _, _, x in sent.spans()
        for link in x.links
    )
    assert {len(x.links) for _, _, x in sent.spans()} == {1}


def test_inline_no_evaluation_span_leaves_before_its_trace(tmp_path):
    sent = Sent(tmp_path, mode="inline", inline={"max_delay": "0"})
    there = set()
    for _, request in sent.requests():
        for _, _, x in spans_of(
            [request] if isinstance(request, ExportTraceServiceRequest) else []
        ):
            if "spanscore.emitted" in facts(x):
                assert (x.trace_id, x.parent_span_id) in there
            there.add((x.trace_id, x.span_id))
    assert there
