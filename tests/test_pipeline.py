"""What the pipeline does when a stage goes wrong."""

import asyncio

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore import config, dialects, rebuild, scoring
from spanscore.dialects import SpanNames
from spanscore.errors import FieldError, InputError, RetryableError
from spanscore.evaluation import Config as Evaluation, Overrides
from spanscore.model.score import Spending
from spanscore.serving import pipeline, processing
from spanscore.store import quarantine
from spanscore.store.judges import JudgeLimits
from spanscore.telemetry import declared

GENAI = "gen_ai.operation.name"


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


def request(trace_id=b"t" * 16, session="s"):
    made = ExportTraceServiceRequest()
    span = (
        made.resource_spans.add()
        .scope_spans.add()
        .spans.add(name="chat m", trace_id=trace_id, span_id=b"s" * 8)
    )
    span.end_time_unix_nano = 1_000_000
    for key, value in (
        (GENAI, "chat"),
        ("gen_ai.conversation.id", session),
        ("gen_ai.request.model", "m"),
    ):
        span.attributes.add(key=key).value.string_value = value
    return made


async def reached(running, holds):
    async with asyncio.timeout(30):
        while not holds(running.meter.totals()):  # noqa: ASYNC110 # the meter has no events
            await asyncio.sleep(0.01)


def served(settings, use, until):
    """Run a pipeline, `use` it, and stop it once its counters are as `until` says; returns its
    counters.
    """

    async def main():
        running, stopping, ready = pipeline.Pipeline(settings), asyncio.Event(), asyncio.Event()
        serving = asyncio.create_task(running.run(stopping, ready.set))
        await ready.wait()
        await use(running)
        await reached(running, until)
        stopping.set()
        await serving
        return running.meter.totals()

    return asyncio.run(main())


async def accept(running, message):
    await running.accept("traces", message.SerializeToString(), message)


def test_a_trace_that_crashes_a_reader_is_put_aside(settings, monkeypatch):
    def crash(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(rebuild, "rebuild_trace", crash)
    served(settings, lambda running: accept(running, request()), lambda x: x.get("traces_finished"))
    (entry,) = quarantine.listed(settings.journal.path)
    assert "ZeroDivisionError" in entry.reason


def test_a_trace_that_crashes_a_reader_costs_no_other(settings, monkeypatch):
    rebuild_trace = rebuild.rebuild_trace

    def crash_once(spans, logs, **options):
        if spans[0].trace_id == "00" * 15 + "01":
            raise ZeroDivisionError
        return rebuild_trace(spans, logs, **options)

    async def send(running):
        for number in (1, 2):
            await accept(running, request(number.to_bytes(16, "big")))

    monkeypatch.setattr(rebuild, "rebuild_trace", crash_once)
    counters = served(settings, send, lambda x: x.get("traces_finished") == 2)
    assert counters["agent_traces"] == 1


def test_a_store_that_cannot_be_written_is_waited_for(settings, monkeypatch):
    failures = [RetryableError("disk full")] * 2
    commit = pipeline.Store.commit

    def sometimes(self, *arguments, **options):
        if failures:
            raise failures.pop()
        return commit(self, *arguments, **options)

    monkeypatch.setattr(scoring, "_RETRY_STORE_S", 0.01)
    monkeypatch.setattr(pipeline.Store, "commit", sometimes)
    counters = served(
        settings, lambda running: accept(running, request()), lambda x: x.get("traces_finished")
    )
    assert counters["agent_traces"] == 1


def test_a_session_that_goes_on_is_evaluated_again(settings):
    async def send(running):
        await accept(running, request(b"1" * 16))
        await reached(running, lambda x: x.get("sessions_evaluated"))
        await accept(running, request(b"2" * 16))

    served(settings, send, lambda x: x.get("sessions_evaluated") == 2)
    store = pipeline.Store.open(settings.store)
    scores = store.evaluations(session_id="s")
    store.close()
    assert {x.revision for x in scores if x.scope == "session"} == {2}


def test_a_session_that_cannot_be_scored_does_not_count_as_evaluated(settings, monkeypatch):
    evaluate = scoring.Engine.evaluate_session

    async def refuse_one(self, session, *arguments, **options):
        if session.session_id == "bad":
            raise ZeroDivisionError
        return await evaluate(self, session, *arguments, **options)

    async def send(running):
        await accept(running, request(b"1" * 16, "bad"))
        await accept(running, request(b"2" * 16, "good"))

    monkeypatch.setattr(scoring.Engine, "evaluate_session", refuse_one)
    counters = served(settings, send, lambda x: x.get("sessions_evaluated"))
    assert counters["sessions_evaluated"] == 1


@pytest.mark.slow
def test_a_later_revision_says_what_it_supersedes(settings):
    found = []

    async def evaluate_twice(running):
        await accept(running, request())
        await reached(running, lambda x: x.get("traces_finished"))
        trace_id = (b"t" * 16).hex()
        found.append(running.evaluations(trace_id=trace_id))
        found.append(await running.evaluate(trace_id=trace_id))

    served(settings, evaluate_twice, lambda _: True)
    first, second = ({x.metric: x for x in evaluations} for evaluations in found)
    assert {name: x.supersedes for name, x in second.items()} == {
        name: first[name].uid for name in second
    }


def test_a_trace_that_grows_while_it_is_scored_is_scored_again_afterwards(settings, monkeypatch):
    evaluate, may_go_on, revisions = scoring.Scoring.evaluate, asyncio.Event(), []

    async def slowly(self, stored, overrides=None):
        revisions.append(stored.revision)
        await may_go_on.wait()
        return await evaluate(self, stored, overrides)

    async def send_two_spans(running):
        late = request()
        late.resource_spans[0].scope_spans[0].spans[0].span_id = b"u" * 8
        await accept(running, request())
        await reached(running, lambda _: revisions)
        await accept(running, late)
        await reached(running, lambda _: running.health()["waiting_parts"] or len(revisions) > 1)
        may_go_on.set()

    monkeypatch.setattr(scoring.Scoring, "evaluate", slowly)
    served(settings, send_two_spans, lambda x: x.get("traces_finished") == 2)
    assert revisions == [1, 2]


def test_a_trace_nobody_knows_is_not_evaluated(settings):
    found = []

    async def ask(running):
        found.append(await running.evaluate(trace_id="0" * 32))

    served(settings, ask, lambda _: True)
    assert found == [[]]


def test_a_trace_is_not_evaluated_by_a_model_that_is_an_address(settings):
    found = []

    async def ask(running):
        try:
            await running.evaluate(
                trace_id="0" * 32, overrides=Overrides(model="oobabooga/http://127.0.0.1:1/")
            )
        except FieldError as error:
            found.append(error.field)

    served(settings, ask, lambda _: True)
    assert found == ["model"]


def test_a_trace_that_cannot_be_stored_is_put_aside_and_costs_no_other(settings, monkeypatch):
    commit = pipeline.Store.commit

    def refuse(self, traces, evaluations, **options):
        if any(x.trace.trace_ids == ("00" * 15 + "01",) for x in traces):
            raise OverflowError
        return commit(self, traces, evaluations, **options)

    async def send(running):
        for number in (1, 2):
            await accept(running, request(number.to_bytes(16, "big")))

    monkeypatch.setattr(pipeline.Store, "commit", refuse)
    counters = served(settings, send, lambda x: x.get("traces_finished") == 2)
    assert counters["agent_traces"] == 1
    assert len(quarantine.listed(settings.journal.path)) == 1


def test_a_request_whose_sender_goes_away_is_scored_all_the_same(settings):
    async def cancel(running):
        sending = asyncio.create_task(accept(running, request()))
        await asyncio.sleep(0)
        sending.cancel()
        await asyncio.wait([sending])

    counters = served(settings, cancel, lambda x: x.get("traces_finished"))
    assert counters["agent_traces"] == 1


def test_two_evaluations_at_once_are_two_revisions(settings):
    found = []

    async def evaluate_twice(running):
        await accept(running, request())
        await reached(running, lambda x: x.get("traces_finished"))
        trace_id = (b"t" * 16).hex()
        asked = Overrides(metrics=("confidence",))
        found.extend(
            await asyncio.gather(
                *(running.evaluate(trace_id=trace_id, overrides=asked) for _ in range(2))
            )
        )

    served(settings, evaluate_twice, lambda _: True)
    assert sorted(x.revision for evaluations in found for x in evaluations) == [2, 3]


@pytest.mark.parametrize(
    ("subject", "metric"), [("trace_id", "loop_detection"), ("session_id", "confidence")]
)
def test_a_metric_that_runs_with_something_else_is_refused(settings, subject, metric):
    async def ask(running):
        with pytest.raises(InputError, match=f"{metric} runs with a"):
            await running.evaluate(**{subject: "x"}, overrides=Overrides(metrics=(metric,)))

    served(settings, ask, lambda _: True)


def asked_for_the_rubric(settings, **subject):
    """The scores that the server gives when asked for the rubric of a trace that belongs to session
    s.
    """
    found = []

    async def ask(running):
        await accept(running, request())
        await reached(running, lambda x: x.get("traces_finished"))
        found.extend(await running.evaluate(**subject, overrides=Overrides(metrics=("rubric",))))

    served(settings, ask, lambda _: True)
    return found


def test_the_rubric_of_a_session_can_be_asked_for(settings):
    found = asked_for_the_rubric(settings, session_id="s")
    assert {x.scope for x in found} == {"session"}
    assert found[-1].metric == "rubric.overall"


def test_the_rubric_of_a_trace_with_a_session_is_that_of_its_session(settings):
    with pytest.raises(InputError, match="give its id, 's'"):
        asked_for_the_rubric(settings, trace_id=(b"t" * 16).hex())


@pytest.mark.slow
def test_an_instrumentation_that_records_no_content_is_told_once(settings, caplog):
    found = []

    async def send(running):
        for number in (1, 2):
            await accept(running, request(number.to_bytes(16, "big")))
        await reached(running, lambda x: x.get("traces_finished") == 2)
        found.extend(running.health()["without_content"])

    served(settings, send, lambda _: True)
    told = [x for x in caplog.messages if "records no questions" in x]
    assert told == found
    assert len(told) == 1


def test_a_rule_by_a_spans_attribute_decides_alike_when_the_stored_trace_is_evaluated_again(
    settings,
):
    rule = {
        "name": "gold",
        "when": {"attributes": {"plan": "gold"}},
        "thresholds": {"coherence": 0.9},
    }
    ruled = settings.model_copy(update={"evaluation": Evaluation.model_validate({"rules": [rule]})})
    message = request()
    message.resource_spans[0].scope_spans[0].spans[0].attributes.add(
        key="plan"
    ).value.string_value = "gold"
    found = []

    async def evaluate_twice(running):
        await accept(running, message)
        await reached(running, lambda x: x.get("traces_finished"))
        trace_id = (b"t" * 16).hex()
        found.append(running.evaluations(trace_id=trace_id))
        found.append(await running.evaluate(trace_id=trace_id))

    counted = served(ruled, evaluate_twice, lambda _: True)
    of_trace = [x for evaluations in found for x in evaluations if x.metric == "coherence"]
    assert [(x.rule, x.threshold) for x in of_trace] == [("gold", 0.9)] * 2
    assert counted["rules_decisions"] >= 1


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_names_of_spans_act_in_the_process_that_reads_traces(settings, workers):
    names = {"session_keys": ("chat.ref",), "utility_spans": ("chat*",)}
    assemble = settings.assemble.model_copy(update=names)
    named = settings.model_copy(update={"assemble": assemble, "workers": workers})
    message = request(session="")
    message.resource_spans[0].scope_spans[0].spans[0].attributes.add(
        key="chat.ref"
    ).value.string_value = "c-7"
    found = []

    async def send(running):
        if workers > 1:
            dialects.configure(SpanNames())  # those of this process, which is not to read it
        await accept(running, message)
        await reached(running, lambda x: x.get("traces_finished"))
        found.append(running.trace((b"t" * 16).hex()))

    served(named, send, lambda _: True)
    assert found[0].session_id == "c-7"
    assert [x.utility for x in found[0].model_calls] == [True]


@pytest.mark.postgresql
@pytest.mark.parametrize("is_of_a_rule", [False, True])
def test_what_is_left_of_the_budget_counts_what_other_servers_spend(
    settings, postgresql_server, is_of_a_rule, monkeypatch
):
    monkeypatch.setattr(processing, "_LOOK_EVERY_S", 0.05)
    model = {"model": "openai/gpt-4o-mini"}
    rules = [{"name": "all", "judge": model}] if is_of_a_rule else []
    judge = {"try_at_start": False, "budget": {"max_tokens": 100}}
    judge |= {} if is_of_a_rule else model
    url = postgresql_server.create()
    shared = config.Settings.model_validate(
        {
            **settings.model_dump(include={"receive", "journal"}),
            "store": {"url": url},
            "judge": judge,
            "evaluation": {"rules": rules},
        }
    )

    async def other_spends(running):
        other = JudgeLimits(url)
        other.exchange("other", 86400 * 10**9, lambda _: {"": Spending(60)})
        other.close()
        async with asyncio.timeout(30):
            while budget_left(running) != 40:  # noqa: ASYNC110 # the meter has no events
                await asyncio.sleep(0.01)

    served(shared, other_spends, lambda _: True)


def budget_left(running):
    return next(
        x.values[("tokens",)]
        for x in running.meter.collect()
        if x.metric is declared.JUDGE_BUDGET_LEFT
    )


def http_request():
    made = ExportTraceServiceRequest()
    resource = made.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "web\nshop"
    resource.scope_spans.add().spans.add(name="GET", trace_id=b"h" * 16, span_id=b"s" * 8)
    return made


def test_spans_without_genai_are_logged_once_with_their_services(settings, caplog):
    caplog.set_level("INFO", "spanscore")

    async def send(running):
        await accept(running, http_request())
        await reached(running, lambda x: x.get("traces_finished"))
        other = http_request()
        other.resource_spans[0].scope_spans[0].spans[0].trace_id = b"i" * 16
        await accept(running, other)

    served(settings, send, lambda x: x.get("traces_finished") == 2)
    (line,) = [x.getMessage() for x in caplog.records if "hold no GenAI" in x.getMessage()]
    assert line == (
        "1 spans of 1 traces hold no GenAI attributes, so nothing of them is scored;"
        " services: 'web\\nshop'"
    )


def why_not_stored(settings, message, until):
    found = []

    async def send(running):
        await accept(running, message)
        await reached(running, until)
        trace_id = message.resource_spans[0].scope_spans[0].spans[0].trace_id.hex()
        found.append(running.why_not_stored(trace_id))
        found.append(running.why_not_stored(trace_id, tenant="other"))
        await running._processing.finish_everything()

    served(settings, send, lambda x: x.get("traces_finished"))
    return found


def test_of_an_open_trace_it_is_known_when_it_is_scored(settings):
    slow = settings.assemble.model_copy(update={"complete_after": 10**12, "whole_after": 10**12})
    settings = settings.model_copy(update={"assemble": slow})
    found = why_not_stored(settings, request(), lambda _: True)
    assert found == [
        "it is open: it is scored when it has been quiet for 1000s (assemble.complete_after)",
        "",
    ]


def test_of_a_trace_without_genai_that_is_known(settings):
    found = why_not_stored(settings, http_request(), lambda x: x.get("traces_finished"))
    assert found == ["none of its spans holds GenAI attributes", ""]
