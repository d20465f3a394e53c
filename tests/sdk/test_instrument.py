"""An application's own traces are scored in its process, and the scores leave by its own
exporters.
"""

import os
import subprocess
import sys
import threading

import pytest
from application import METRICS, Application, HangingJudge, LateJudge, UnreachableJudge, chatted

import spanscore
from spanscore.config import parse
from spanscore.errors import ConfigError
from spanscore.sdk import (
    instrumentation as instrumenting,
    scoring_thread,
    scoring_thread as working,
)
from spanscore.serving import processing
from spanscore.testing import ScriptedJudge


@pytest.fixture
def application():
    return Application.made()


@pytest.fixture
def instrumented(application):
    instrumentation = application.instrument()
    yield instrumentation
    instrumentation.shutdown()


def run(script, **environ):
    """What a program prints that exits as soon as its last span has ended."""
    return subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **environ},
        timeout=100,
    )


def test_a_score_is_a_span_in_the_evaluated_trace(application, instrumented):
    root = application.turn()
    assert instrumented.force_flush()
    (summary,) = application.emitted
    assert (summary.context.trace_id, summary.parent.span_id) == (root.trace_id, root.span_id)


def test_a_score_has_the_resource_of_the_application(application, instrumented):
    application.turn()
    instrumented.force_flush()
    assert application.emitted[0].resource.attributes["service.name"] == "shop"


def test_a_score_is_an_event_of_the_evaluated_span(application, instrumented):
    root = application.turn()
    instrumented.force_flush()
    (event,) = [x.log_record for x in application.logs.get_finished_logs()]
    assert event.event_name == "gen_ai.evaluation.result"
    assert (event.trace_id, event.span_id) == (root.trace_id, root.span_id)


def test_a_flush_of_the_provider_waits_for_the_scores(application, instrumented):
    application.turn()
    application.tracer_provider.force_flush()
    assert application.emitted


def test_scores_leave_before_the_exporters_are_shut_down(application, instrumented):
    application.turn()
    application.tracer_provider.shutdown()
    assert application.emitted


def test_a_session_around_a_frameworks_agent_is_that_of_its_turn(application, instrumented):
    with spanscore.session("chat-7", user_id="u-1"):
        root = application.turn()
    instrumented.force_flush()
    found = instrumented.scores(trace_id=f"{root.trace_id:032x}")
    assert found
    assert {x.session_id for x in found} == {"chat-7"}


def test_a_session_that_a_framework_names_itself_stays(application, instrumented):
    with (
        spanscore.session("chat-7"),
        application.tracer.start_as_current_span("x", attributes={"session.id": "own"}),
    ):
        pass
    (span,) = application.spans.get_finished_spans()
    assert span.attributes["session.id"] == "own"


def test_content_in_log_records_is_read(application, instrumented):
    with application.tracer.start_as_current_span("chat m") as span:
        span.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})
        application.logger_provider.get_logger("an.agent").emit(
            event_name="gen_ai.client.inference.operation.details",
            attributes=chatted("Where is it?", "On its way."),
        )
    instrumented.force_flush()
    (score,) = [
        x
        for x in instrumented.scores(trace_id=f"{span.context.trace_id:032x}")
        if x.metric == METRICS[0]
    ]
    assert score.label == "pass"


@pytest.mark.slow
def test_scores_can_be_asked_for(application, instrumented):
    root = application.turn()
    instrumented.force_flush()
    assert {x.metric for x in instrumented.scores(trace_id=f"{root.trace_id:032x}")} == set(METRICS)


def test_a_score_that_a_person_gives_stands_beside_ours(application, instrumented):
    with application.tracer.start_as_current_span("invoke_agent shop") as root:
        root.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"})
        with application.tracer.start_as_current_span("evaluation helpful") as given:
            given.set_attributes(
                {"gen_ai.operation.name": "evaluation", "gen_ai.evaluation.name": "helpful"}
            )
            given.set_attributes(
                {"gen_ai.evaluation.score.value": 1.0, "spanscore.score.source": "human"}
            )
    instrumented.force_flush()
    scores = instrumented.scores(trace_id=f"{root.context.trace_id:032x}")
    assert [x.metric for x in scores if x.evaluator.source == "human"] == ["helpful"]


@pytest.mark.slow
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_score_that_a_person_gives_is_a_signal_of_the_session(application, value):
    config = parse("evaluation: {external_signals: {helpful: {scale: [0, 1]}}}")
    found = []
    instrumentation = application.instrument(
        metrics=["agent_reliability"], config=config, on_scores=found.extend
    )
    with application.tracer.start_as_current_span("invoke_agent shop") as root:
        root.set_attributes({"gen_ai.operation.name": "invoke_agent", "session.id": "s"})
        with application.tracer.start_as_current_span("evaluation helpful") as given:
            given.set_attributes(
                {"gen_ai.operation.name": "evaluation", "gen_ai.evaluation.name": "helpful"}
            )
            given.set_attributes(
                {"gen_ai.evaluation.score.value": value, "spanscore.score.source": "human"}
            )
    instrumentation.shutdown()
    [reliability] = [x for x in found if x.metric == "agent_reliability"]
    assert reliability.value == value


def test_on_scores_is_told_of_each_score(application):
    found = []
    instrumentation = application.instrument(on_scores=found.extend)
    application.turn()
    instrumentation.force_flush()
    instrumentation.shutdown()
    assert {x.metric for x in found} == set(METRICS)


def test_an_on_scores_that_fails_costs_no_score(application):
    def fail(_scores):
        raise ZeroDivisionError

    instrumentation = application.instrument(on_scores=fail)
    application.turn()
    instrumentation.force_flush()
    instrumentation.shutdown()
    assert application.emitted


def test_a_session_is_scored_at_the_end(application):
    instrumentation = application.instrument(
        metrics=["loop_detection"], embedding={"provider": "ngrams"}
    )
    for answer in ("It is on its way.", "It is on its way."):
        application.turn(answer=answer, **{"gen_ai.conversation.id": "s"})
    instrumentation.force_flush()
    assert not instrumentation.scores(session_id="s")
    found = []
    instrumentation._worker.running.processing._scoring._scored = found.extend
    instrumentation.shutdown()
    assert [x.metric for x in found if x.value is not None] == ["loop_detection"]


def test_a_trace_of_which_a_span_still_runs_is_not_complete(application, instrumented):
    tracer = application.tracer
    root = tracer.start_span(
        "invoke_agent shop", attributes={"gen_ai.operation.name": "invoke_agent"}
    )
    from opentelemetry import trace

    late = tracer.start_span(
        "chat m", context=trace.set_span_in_context(root), attributes=chatted("Where?", "There.")
    )
    root.end()
    instrumented.force_flush()
    before = list(application.emitted)
    late.end()
    instrumented.force_flush()
    assert (before, len(application.emitted)) == ([], 1)


def test_a_root_below_a_span_of_another_process_is_a_root(application, instrumented):
    from opentelemetry import trace

    remote = trace.SpanContext(1234, 5678, is_remote=True, trace_flags=trace.TraceFlags(1))
    around = trace.set_span_in_context(trace.NonRecordingSpan(remote))
    with application.tracer.start_as_current_span("chat m", context=around) as span:
        span.set_attributes(chatted("Where is it?", "On its way."))
    instrumented.force_flush()
    assert application.emitted


def test_a_span_that_is_not_sampled_is_not_scored(application, instrumented):
    from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult

    class RecordOnly(Sampler):
        def should_sample(self, *_, **__):
            return SamplingResult(Decision.RECORD_ONLY)

        def get_description(self):
            return "RecordOnly"

    application.tracer_provider.sampler = RecordOnly()
    application.turn()
    instrumented.force_flush()
    assert not application.emitted


def test_what_the_scoring_itself_emits_is_not_scored(application, instrumented):
    class TracedJudge:
        async def ask(self, prompt, schema, *, models=()):
            application.turn(question="Judge this.")
            raise RuntimeError("no answer")

    instrumentation = application.instrument(metrics=["task_completion"], judge=TracedJudge())
    root = application.turn()
    instrumentation.force_flush()
    instrumentation.shutdown()
    assert {x.context.trace_id for x in application.emitted} <= {root.trace_id}


@pytest.mark.slow
def test_a_judge_that_hangs_holds_up_no_flush_for_longer_than_asked(application):
    judge = HangingJudge()
    instrumentation = application.instrument(metrics=["task_completion"], judge=judge)
    application.turn()
    while not judge.asked.is_set():
        instrumentation.force_flush(300)
    assert not instrumentation.force_flush(300)
    instrumentation.shutdown(300)


def test_a_process_that_ends_keeps_what_it_found_without_a_judge_that_hangs(
    application, monkeypatch
):
    monkeypatch.setattr(scoring_thread, "_LEFT_S", 60)  # judges are waited for no longer at all
    monkeypatch.setattr(scoring_thread, "_LEFT_SHARE", 1)
    metrics = [*METRICS, "task_completion"]
    instrumentation = application.instrument(metrics=metrics, judge=HangingJudge())
    root = application.turn()
    instrumentation.shutdown(60_000)
    of_trace = {x.metric: x for x in instrumentation.scores(trace_id=f"{root.trace_id:032x}")}
    assert of_trace["check.answer_present"].value == 1
    assert of_trace["task_completion"].reason == "the process ended before the judge answered"
    assert application.emitted


@pytest.mark.parametrize("store", [None, "scores.db"])
def test_scores_can_be_asked_for_after_the_shutdown(application, tmp_path, store):
    instrumentation = application.instrument(store=store and tmp_path / store)
    root = application.turn()
    instrumentation.shutdown()
    scores = instrumentation.scores(trace_id=f"{root.trace_id:032x}")
    assert {x.metric for x in scores} == set(METRICS)


def test_without_an_id_all_scores_that_are_kept_are_given(application, monkeypatch):
    monkeypatch.setattr(instrumenting, "_PAGE", 1)
    instrumentation = application.instrument()
    roots = [application.turn() for _ in range(3)]
    instrumentation.shutdown()
    found = [(x.target.trace_id, x.metric) for x in instrumentation.scores()]
    traces = [f"{x.trace_id:032x}" for x in roots]
    assert sorted(found) == sorted((x, metric) for x in traces for metric in METRICS)


@pytest.mark.slow
def test_a_shutdown_that_a_judge_does_not_answer_in_time_is_not_done(application):
    instrumentation = application.instrument(metrics=["task_completion"], judge=HangingJudge())
    application.turn()
    assert not instrumentation.shutdown(1000)


@pytest.mark.slow
@pytest.mark.parametrize("session", [{}, {"session.id": "s"}])
def test_a_flush_that_runs_out_of_time_costs_no_trace_its_scores(application, monkeypatch, session):
    for bound in ("_QUEUED", "_JUDGED_WORKERS"):
        monkeypatch.setattr(processing, bound, 1)
    judge = LateJudge(ScriptedJudge())
    instrumentation = application.instrument(metrics=["task_completion"], judge=judge)
    for _ in range(4):
        application.turn(**session)
    while not judge.asked.is_set():
        instrumentation.force_flush(300)
    assert not instrumentation.force_flush(300)
    judge.answer()
    assert instrumentation.force_flush()
    assert len(application.emitted) == 4
    instrumentation.shutdown()


def test_nothing_that_a_span_holds_raises(application, instrumented):
    from opentelemetry.sdk.trace import ReadableSpan

    processor = application.tracer_provider._active_span_processor
    processor.on_end(ReadableSpan("no context"))


def test_what_does_not_fit_is_dropped_and_counted(application, monkeypatch):
    monkeypatch.setattr(working, "QUEUE_SIZE", 1)
    monkeypatch.setattr(working.Worker, "start", lambda self: None)
    instrumentation = application.instrument()
    application.turn()
    assert instrumentation.health()["counted"]["dropped"] == 1
    instrumentation.shutdown()


def test_a_trace_of_which_a_span_was_dropped_is_not_scored(application, monkeypatch):
    start = working.Worker.start
    monkeypatch.setattr(working, "QUEUE_SIZE", 1)
    monkeypatch.setattr(working.Worker, "start", lambda self: None)
    instrumentation = application.instrument()
    application.turn()
    monkeypatch.setattr(working, "QUEUE_SIZE", 100)
    monkeypatch.setattr(working.Worker, "start", start)
    whole = application.turn()
    instrumentation.force_flush()
    instrumentation.shutdown()
    assert {x.context.trace_id for x in application.emitted} == {whole.trace_id}


@pytest.mark.slow
def test_instrumenting_again_takes_the_place_of_what_was_before(application, instrumented):
    again = application.instrument(metrics=METRICS[:1])
    root = application.turn()
    again.force_flush()
    assert not instrumented.scores(trace_id=f"{root.trace_id:032x}")
    assert [x.metric for x in again.scores(trace_id=f"{root.trace_id:032x}")] == [METRICS[0]]
    again.shutdown()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"metrics": ["task_completio"]}, "task_completion"),
        ({"embedding": {"modle": "m"}}, "embedding.modle: unknown key; did you mean model"),
        ({"config": "/nowhere.yaml"}, "/nowhere.yaml"),
        ({"tracer_provider": object()}, "takes no span processors"),
        pytest.param(  # which imports litellm
            {"judge": "gpt-9"}, "gpt-9: there is no such provider", marks=pytest.mark.slow
        ),
    ],
)
def test_what_cannot_be_is_said_at_once(application, options, told):
    with pytest.raises(ConfigError, match=told):
        application.instrument(**options)


def test_a_judge_that_does_not_answer_is_one_line_and_in_the_health(application, caplog):
    instrumentation = application.instrument(metrics=["confidence"], judge=UnreachableJudge())
    for _ in range(3):
        application.turn()
    instrumentation.shutdown()
    [line] = [x for x in caplog.messages if "the judge gives no answer" in x]
    assert "wrong key. What to do: give a valid key" in line
    [state] = instrumentation.health()["judge"].values()
    assert (state["status"], state["reason"]) == ("fails", "wrong key")


def test_a_judge_that_hangs_until_the_end_is_said_too(application, caplog, monkeypatch):
    monkeypatch.setattr(scoring_thread, "_LEFT_S", 60)  # judges are waited for no longer at all
    monkeypatch.setattr(scoring_thread, "_LEFT_SHARE", 1)
    instrumentation = application.instrument(metrics=["confidence"], judge=HangingJudge())
    application.turn()
    instrumentation.shutdown(60_000)
    [line] = [x for x in caplog.messages if "the judge gives no answer" in x]
    assert "judge.timeout" in line


def test_without_a_judge_one_line_says_what_runs_and_what_else_could(application, caplog):
    application.instrument(metrics=None).shutdown()
    [line] = [x for x in caplog.messages if "no judge is configured" in x]
    assert "task_completion" in line.partition("what runs:")[0]
    runs = line.partition("what runs: ")[2].partition(";")[0].split(", ")
    assert {"check.errors_recovered", "loop_detection"} <= {*runs}
    assert 'metrics=["check"]' in line


def test_metrics_that_need_no_judge_are_no_reason_to_say_so(application, caplog):
    application.instrument(metrics=["check"]).shutdown()
    assert not [x for x in caplog.messages if "no judge" in x]


def test_no_thread_runs_before_the_first_span(application):
    before = threading.active_count()
    instrumentation = application.instrument()
    assert threading.active_count() == before
    instrumentation.shutdown()


PROGRAM = """
import os, time
import spanscore
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

def tell(scores):
    for score in scores:
        print("scored", flush=True)

def turn():
    with spanscore.turn(input="Where is it?") as turn:
        turn.answer("On its way.")

scoring = spanscore.instrument(metrics=["check.answer_present"], on_scores=tell)
turn()
"""

REPLACED = """
own = TracerProvider()
trace.set_tracer_provider(own)
while not own._active_span_processor._span_processors:
    time.sleep(0.1)
turn()
"""

FORKED = """
child = os.fork()
if child:
    os.waitpid(child, 0)
    print("parent ends", flush=True)
    scoring.shutdown()
    os._exit(0)
turn()
"""


@pytest.fixture(scope="module")
def program():
    return run(PROGRAM)


@pytest.mark.slow
def test_a_program_that_ends_at_once_is_scored(program):
    assert program.stdout.splitlines() == ["scored"]


@pytest.mark.slow
def test_a_program_whose_scores_nobody_gets_is_told_so():
    assert "no TracerProvider was set up" in run(PROGRAM.replace(", on_scores=tell", "")).stderr


@pytest.mark.slow
def test_who_takes_the_scores_needs_no_provider(program):
    assert "no TracerProvider" not in program.stderr


@pytest.mark.slow
def test_a_provider_that_is_set_later_is_followed():
    assert run(PROGRAM + REPLACED).stdout.splitlines() == ["scored", "scored"]


EXPORTED = """
import multiprocessing, os, sys, types
import spanscore
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

class Printed(SpanExporter):
    def export(self, spans):
        for span in spans:
            print(span.name, flush=True)
        return SpanExportResult.SUCCESS

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(Printed()))
trace.set_tracer_provider(provider)

def turn():
    with spanscore.turn(input="Where is it?") as turn:
        turn.answer("On its way.")

"""
INSTRUMENT = 'spanscore.instrument(metrics=["check.answer_present"])'

OF_MULTIPROCESSING = """
child = multiprocessing.get_context("fork").Process(target=turn)
child.start()
child.join()
"""

OF_CELERY = """
class Signal:
    receivers = {}
    def connect(self, receiver, *, weak, dispatch_uid):
        self.receivers[dispatch_uid] = receiver

celery, signals = types.ModuleType("celery"), types.ModuleType("celery.signals")
signals.worker_process_shutdown = Signal()
sys.modules |= {"celery": celery, "celery.signals": signals}
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    turn()
    for receiver in signals.worker_process_shutdown.receivers.values():
        receiver(sender=None, pid=os.getpid(), exitcode=0)
    os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "process", [OF_MULTIPROCESSING, OF_CELERY], ids=["multiprocessing", "celery"]
)
def test_a_process_that_ends_without_exit_handlers_sends_its_scores(process):
    assert run(EXPORTED + INSTRUMENT + process).stdout.splitlines() == [
        "invoke_agent",
        "spanscore: all 1 passed",
    ]


@pytest.mark.slow
def test_a_process_of_celerys_pool_that_asks_for_scores_itself_sends_them():
    process = OF_CELERY.replace("    turn()", f"    {INSTRUMENT}\n    turn()")
    assert run(EXPORTED + process).stdout.splitlines() == [
        "invoke_agent",
        "spanscore: all 1 passed",
    ]


OF_A_FORK_SERVER = """
if __name__ == "__main__":
    child = multiprocessing.get_context("forkserver").Process(target=turn)
    child.start()
    child.join()
"""


@pytest.mark.slow
def test_a_process_of_a_fork_server_sends_its_scores(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(EXPORTED + INSTRUMENT + OF_A_FORK_SERVER)
    printed = subprocess.run(
        [sys.executable, program], check=True, capture_output=True, text=True
    ).stdout
    assert printed.splitlines() == ["invoke_agent", "spanscore: all 1 passed"]


FORKED_WHILE_IMPORTING = """
import os, sys, threading, time
import spanscore

begun = threading.Event()

def told(scores):
    begun.set()
    import slow_module

spanscore.instrument(metrics=["check.answer_present"], on_scores=told)
with spanscore.turn(input="Where is it?") as turn:
    turn.answer("On its way.")
begun.wait()
while "slow_module" not in sys.modules:
    time.sleep(0.001)
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    import slow_module
    print(slow_module.is_whole, flush=True)
    os._exit(0)
"""


@pytest.mark.slow
def test_a_fork_waits_until_no_thread_of_ours_imports(tmp_path):
    module = tmp_path / "slow_module.py"
    module.write_text("import time\ntime.sleep(1)\nis_whole = True\n")
    printed = run(FORKED_WHILE_IMPORTING, PYTHONPATH=str(tmp_path)).stdout
    assert "True" in printed.splitlines()


FIRST_IMPORTS = """
import sys
import spanscore
from spanscore.testing import ScriptedJudge

scoring = spanscore.instrument(judge=ScriptedJudge())
scoring._worker.start()
scoring._worker.running.ready.wait()
before = set(sys.modules)
with spanscore.turn(input="Where is it?", tools=["find"]) as turn:
    turn.answer("On its way.")
scoring.shutdown()
print(*sorted(set(sys.modules) - before), sep="\\n")
"""


@pytest.mark.slow
def test_what_reads_and_scores_is_imported_before_the_first_span():
    assert not [x for x in run(FIRST_IMPORTS).stdout.splitlines() if x.startswith("spanscore.")]


@pytest.mark.slow
def test_nothing_is_scored_where_the_sdk_is_disabled():
    assert not run(PROGRAM, OTEL_SDK_DISABLED="true").stdout


@pytest.mark.slow
def test_a_fork_scores_its_own_spans_and_not_those_of_its_parent():
    assert run(PROGRAM + FORKED).stdout.splitlines().count("scored") == 2


def test_the_rules_of_a_configuration_hold_for_attributes_of_spans(application, tmp_path):
    file = tmp_path / "spanscore.yaml"
    file.write_text(
        "evaluation: {rules: [{name: gold, when: {attributes: {plan: gold}}}, {name: rest, metrics:"
        " none}]}"
    )
    found = []
    instrumentation = application.instrument(
        config=file, metrics=["check.answer_present"], on_scores=found.extend
    )
    application.turn(plan="gold")
    application.turn(plan="silver")
    instrumentation.force_flush()
    instrumentation.shutdown()
    assert [(x.metric, x.rule) for x in found] == [("check.answer_present", "gold")]
