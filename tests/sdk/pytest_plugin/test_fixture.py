"""What a test gets by the fixture: its agent's turns, and failures that say why."""

import pytest

pytest_plugins = ["pytester"]


def test_a_turn_is_rebuilt_from_what_the_agent_emitted(project):
    project.makepyfile("""
        from agent import agent

        def test_refund(spanscore):
            answer = agent("I want my money back")
            turn = spanscore.turn()
            assert [c.name for c in turn.tool_calls] == ["find_order", "refund"]
            assert (turn.user_input, turn.final_output) == ("I want my money back", answer)
        """)
    project.runpytest_inprocess().assert_outcomes(passed=1)


def test_turns_are_those_of_this_test_alone_and_the_latest_is_the_turn(project):
    project.makepyfile("""
        from agent import agent

        def test_one(spanscore):
            agent("a")
            agent("b")
            assert [x.user_input for x in spanscore.turns()] == ["a", "b"]
            assert spanscore.turn().user_input == "b"

        def test_other(spanscore):
            agent("c")
            assert [x.user_input for x in spanscore.turns()] == ["c"]
        """)
    project.runpytest_inprocess().assert_outcomes(passed=2)


def test_turns_without_a_session_id_are_one_conversation(project):
    project.makepyfile("""
        from agent import agent

        def test_it(spanscore):
            agent("a")
            agent("b")
            assert len(spanscore.session().traces) == 2
        """)
    project.runpytest_inprocess().assert_outcomes(passed=1)


def test_the_module_and_the_fixture_live_together(project):
    project.makepyfile("""
        import spanscore
        from agent import agent

        def version():
            return spanscore.__version__

        def test_it(spanscore):
            agent("a")
            assert spanscore.turn().user_input == "a"
            assert version()
        """)
    project.runpytest_inprocess().assert_outcomes(passed=1)


def test_a_provider_that_the_test_project_sets_up_keeps_its_spans(project):
    project.makepyfile("""
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        def test_it(spanscore):
            exporter = InMemorySpanExporter()
            provider = TracerProvider()
            provider.add_span_processor(SimpleSpanProcessor(exporter))
            with provider.get_tracer("own").start_as_current_span("chat m") as span:
                span.set_attribute("gen_ai.operation.name", "chat")
                span.set_attribute("gen_ai.request.model", "m")
            assert len(exporter.get_finished_spans()) == 1
            assert spanscore.turn().model_calls[0].model == "m"
        """)
    project.runpytest_inprocess().assert_outcomes(passed=1)


def test_content_in_log_records_is_part_of_the_turn(project):
    project.makepyfile("""
        from opentelemetry import _logs, trace
        from opentelemetry._logs import LogRecord, SeverityNumber

        def test_it(spanscore):
            with \
trace.get_tracer("opentelemetry.instrumentation.openai_v2").start_as_current_span("chat m") as \
span:
                span.set_attribute("gen_ai.operation.name", "chat")
                span.set_attribute("gen_ai.system", "openai")
                span.set_attribute("gen_ai.request.model", "m")
                for name, body in (
                    ("gen_ai.user.message", {"content": "hello"}),
                    ("gen_ai.choice", \
{"index": 0, "message": {"role": "assistant", "content": "hi"}}),
                ):
                    _logs.get_logger("opentelemetry.instrumentation.openai_v2").emit(
                        LogRecord(timestamp=span.start_time + 1, body=body, event_name=name,
                                  severity_number=SeverityNumber.INFO, \
attributes={"gen_ai.system": "openai"},
                                  context=trace.set_span_in_context(span))
                    )
            assert (spanscore.turn().user_input, spanscore.turn().final_output) == ("hello", "hi")
        """)
    project.runpytest_inprocess().assert_outcomes(passed=1)


def test_without_a_span_the_failure_says_what_to_turn_on(project):
    project.makepyfile("def test_it(spanscore): spanscore.turn()")
    run = project.runpytest_inprocess()
    run.stdout.fnmatch_lines(
        ["E * no turn was recorded: the agent emitted no span in this test; turn on the *"]
    )


def test_spans_of_no_agent_are_named_in_the_failure(project):
    project.makepyfile("""
        from opentelemetry import trace

        def test_it(spanscore):
            trace.get_tracer("my.web.server").start_span("GET /").end()
            spanscore.turn()
        """)
    run = project.runpytest_inprocess()
    run.stdout.fnmatch_lines(
        ["E * of 1 spans, from my.web.server (1), none is known to be of an agent or a model*"]
    )


def test_a_span_that_never_ends_is_named_in_the_failure(project):
    project.makepyfile("""
        from opentelemetry import trace

        def test_it(spanscore):
            left = trace.get_tracer("agent").start_span("chat")
            spanscore.turn(timeout_s=0)
        """)
    run = project.runpytest_inprocess()
    run.stdout.fnmatch_lines(["E * no turn was recorded: 1 of its spans have not ended; *"])


@pytest.mark.slow
def test_a_run_that_does_not_use_the_plugin_imports_nothing_of_it(project):
    project.makepyfile("""
        import sys

        def test_it():
            heavy = \
{"opentelemetry.sdk", "pydantic", "numpy", "spanscore.config", "litellm", "rich.console"}
            assert not heavy & set(sys.modules)
        """)
    project.runpytest_subprocess("-p", "no:logfire", "-p", "no:hypothesispytest").assert_outcomes(
        passed=1
    )


@pytest.mark.slow
def test_the_plugin_can_be_left_out(project):
    project.makepyfile("def test_it(spanscore): pass")
    run = project.runpytest_subprocess("-p", "no:spanscore")
    run.stdout.fnmatch_lines(["*fixture 'spanscore' not found*"])
