"""Scores that others gave reach the store, whatever arrives first, and nothing is evaluated for
them.
"""

import asyncio
import logging

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore import config
from spanscore.otlp.signal import ExportLogsServiceRequest
from spanscore.serving import pipeline
from spanscore.serving.pipeline import ScoreIntake
from spanscore.telemetry import Meter

TRACE, ROOT = b"t" * 16, b"s" * 8


@pytest.fixture
def settings(tmp_path):
    ports = {key: {"endpoint": "127.0.0.1:0"} for key in ("grpc", "http", "health")}
    return config.Settings.model_validate(
        {
            "receive": ports,
            "journal": {"path": tmp_path / "journal.db"},
            "store": {"url": f"sqlite:///{tmp_path}/store.db"},
            "assemble": {
                "complete_after": "20ms",
                "idle_after": "20ms",
                "session_idle_after": "20ms",
            },
        }
    )


def fill(item, attributes):
    for key, value in attributes.items():
        kind = "double_value" if isinstance(value, float) else "string_value"
        setattr(item.attributes.add(key=key).value, kind, value)


def agent():
    made = ExportTraceServiceRequest()
    span = (
        made.resource_spans.add()
        .scope_spans.add()
        .spans.add(name="chat m", trace_id=TRACE, span_id=ROOT)
    )
    span.end_time_unix_nano = 1_000_000
    fill(
        span,
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": "s",
            "gen_ai.request.model": "m",
        },
    )
    return "traces", made


def thumbs_up(scope="spanscore.sdk"):
    made = ExportTraceServiceRequest()
    scoped = made.resource_spans.add().scope_spans.add()
    scoped.scope.name = scope
    span = scoped.spans.add(
        name="evaluation helpful", trace_id=TRACE, span_id=b"u" * 8, parent_span_id=ROOT
    )
    span.end_time_unix_nano = 2_000_000
    given = {
        "gen_ai.evaluation.name": "helpful",
        "gen_ai.evaluation.score.value": 1.0,
        "spanscore.score.source": "human",
    }
    fill(span, {"gen_ai.operation.name": "evaluation", **given})
    return "traces", made


def event():
    made = ExportLogsServiceRequest()
    record = (
        made.resource_logs.add()
        .scope_logs.add()
        .log_records.add(
            trace_id=TRACE, span_id=ROOT, time_unix_nano=5, event_name="gen_ai.evaluation.result"
        )
    )
    fill(record, {"gen_ai.evaluation.name": "relevance", "gen_ai.evaluation.score.value": 0.5})
    return "logs", made


def served(settings, *requests, until, then=lambda _running: None):
    """Serve until the counters are as `until` says, having taken in the requests; gives what `then`
    finds.
    """

    async def main():
        running, stopping, ready = pipeline.Pipeline(settings), asyncio.Event(), asyncio.Event()
        serving = asyncio.create_task(running.run(stopping, ready.set))
        await ready.wait()
        for signal, message in requests:
            await running.accept(signal, message.SerializeToString(), message)
        async with asyncio.timeout(30):
            while not until(running.meter.totals()):  # noqa: ASYNC110 # the meter has no events
                await asyncio.sleep(0.01)
        found = then(running)
        stopping.set()
        await serving
        return found

    return asyncio.run(main())


def total(totals, name):
    return sum(value for key, value in totals.items() if key.startswith(name))


def taken(count):
    return lambda totals: total(totals, "external_scores") >= count


def external(running):
    found = running.evaluations(trace_id=TRACE.hex())
    return sorted((x.metric, x.value) for x in found if x.evaluator.source is not None)


BOTH = [("helpful", 1.0), ("relevance", 0.5)]


def test_spans_and_events_of_others_are_shown_with_the_trace(settings):
    def until(totals):
        return taken(2)(totals) and total(totals, "traces_finished") >= 1

    assert served(settings, agent(), thumbs_up(), event(), until=until, then=external) == BOTH


@pytest.mark.slow
def test_one_that_comes_a_day_later_is_there_and_nothing_is_evaluated_again(settings):
    served(settings, agent(), until=lambda totals: total(totals, "sessions_evaluated") >= 1)

    def counts(running):
        return external(running), total(running.meter.totals(), "evaluations_")

    found, evaluated = served(settings, thumbs_up(), event(), until=taken(2), then=counts)
    assert (found, evaluated) == (BOTH, 0)


def test_one_that_comes_first_is_there_when_its_trace_is(settings):
    served(settings, thumbs_up(), until=taken(1))
    found = served(
        settings, agent(), until=lambda totals: total(totals, "agent_traces") >= 1, then=external
    )
    assert found == [("helpful", 1.0)]


def test_ours_that_come_back_are_not_kept_as_anothers(settings):
    found = served(settings, thumbs_up(scope="spanscore"), event(), until=taken(1), then=external)
    assert found == [("relevance", 0.5)]


def test_what_was_acknowledged_and_not_yet_stored_is_taken_up_after_a_restart(
    settings, monkeypatch
):
    monkeypatch.setattr(ScoreIntake, "run", lambda _self: asyncio.Event().wait())
    monkeypatch.setattr(ScoreIntake, "finish", lambda _self: asyncio.sleep(0))
    served(settings, thumbs_up(), until=lambda _totals: True)
    monkeypatch.undo()
    assert served(settings, until=taken(1), then=external) == [("helpful", 1.0)]


@pytest.mark.slow
def test_a_score_that_is_stored_is_not_counted_again_after_a_restart_or_a_re_send(settings):
    served(settings, agent(), thumbs_up(), until=taken(1))

    def counted(running):
        return total(running.meter.totals(), "external_scores")

    assert served(settings, thumbs_up(), event(), until=taken(1), then=counted) == 1


class Held:
    """Requests by row, with how often each is held; those with no content cannot be read."""

    def __init__(self, content):
        self.content, self.holds = content, dict.fromkeys(content, 0)

    def hold(self, row):
        self.holds[row] += 1

    def let_go(self, row):
        self.holds[row] -= 1

    def load_request(self, row, is_wanted):
        if self.content[row] is None:
            raise ValueError("damaged")
        return self.content[row], []


def test_a_request_that_cannot_be_read_is_let_go_and_the_next_goes_on(caplog):
    requests = Held({1: None, 2: []})

    async def main():
        async def keep(_scores):
            return []

        intake = ScoreIntake(requests, keep, Meter(lambda: 0), session_scope=())
        intake.offer(1, b"evaluation")
        intake.offer(2, b"evaluation")
        running = asyncio.create_task(intake.run())
        await intake.finish()
        running.cancel()

    with caplog.at_level(logging.CRITICAL):
        asyncio.run(main())
    assert requests.holds == {1: 0, 2: 0}


def test_a_request_without_scores_is_not_held():
    requests = Held({1: []})
    ScoreIntake(requests, None, Meter(lambda: 0), session_scope=()).offer(
        1, b"gen_ai.request.model"
    )
    assert requests.holds == {1: 0}
