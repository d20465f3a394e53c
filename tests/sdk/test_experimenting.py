"""An agent is run over cases, and what comes of it is a run as `spanscore test` writes it."""

import asyncio
import itertools
import json
import threading

import pytest
from opentelemetry import trace
from opentelemetry.context import Context

import spanscore
from spanscore.cli.main import main
from spanscore.config import parse
from spanscore.errors import InputError

CASES = [
    {
        "id": case_id,
        "input": said,
        "expected_tools": [{"tool_name": tool}],
        "final_answer_uses_tools": True,
    }
    for case_id, said, tool in (("sum", "What is 2 + 3?", "add"), ("greeting", "Hello", "greet"))
]


def emitted(question, answer, tools):
    """What an instrumented agent does: spans, and an answer."""
    tracer = trace.get_tracer("an.agent")
    with tracer.start_as_current_span("invoke_agent calculator") as span:
        span.set_attribute("gen_ai.operation.name", "invoke_agent")
        span.set_attribute("gen_ai.input.messages", said("user", question))
        for name in tools:
            with tracer.start_as_current_span(f"execute_tool {name}") as tool:
                tool.set_attribute("gen_ai.operation.name", "execute_tool")
                tool.set_attribute("gen_ai.tool.name", name)
                tool.set_attribute("gen_ai.tool.call.arguments", "{}")
                tool.set_attribute("gen_ai.tool.call.result", json.dumps({"value": answer}))
        span.set_attribute("gen_ai.output.messages", said("assistant", answer))
    return answer


def said(role, text):
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def agent(question):
    return emitted(question, "5", ["add"])


def run(cases=CASES, agent=agent, **options):
    return spanscore.experiment(cases, agent, progress=False, **options)


def statuses(experiment):
    return {x.case.id: "".join(y.status[0] for y in x.trials) for x in experiment.run.cases}


def test_each_case_is_run_as_often_as_wanted():
    assert statuses(run(trials=3)) == {"sum": "ppp", "greeting": "fff"}


def test_one_case_is_not_called_cases():
    assert str(run(CASES[:1])).startswith("agent: 1 case, 1 passed")


def test_a_case_may_say_how_often_itself():
    assert statuses(run([{**CASES[0], "trials": 2}, CASES[1]])) == {"sum": "pp", "greeting": "f"}


def test_the_turns_are_those_that_the_instrumentation_emitted():
    [trace, _] = run().traces
    assert (trace.user_input, trace.final_output, trace.tool_calls[0].name) == (
        "What is 2 + 3?",
        "5",
        "add",
    )


def test_an_agent_that_emits_nothing_is_known_by_what_it_returns():
    [trace] = run([{"input": "Hello"}], lambda _: "Hi").traces
    assert (trace.user_input, trace.final_output, trace.tool_calls) == ("Hello", "Hi", None)


def test_an_agent_may_be_a_coroutine_function():
    async def waiting(question):
        await asyncio.sleep(0)
        return emitted(question, "5", ["add"])

    assert statuses(run(agent=waiting))["sum"] == "p"


def test_trials_at_once_do_not_mix():
    meet = threading.Barrier(2, timeout=30)

    def meeting(question):
        meet.wait()
        return emitted(question, question, ["add" if "2" in question else "greet"])

    assert statuses(run(agent=meeting, concurrency=2)) == {"sum": "p", "greeting": "p"}


def test_coroutines_at_once_do_not_mix():
    async def meeting(question):
        await asyncio.sleep(0)
        return emitted(question, question, ["add" if "2" in question else "greet"])

    assert set(statuses(run(agent=meeting, concurrency=8, trials=4)).values()) == {"pppp"}


def test_it_runs_one_trial_at_a_time_unless_told_otherwise():
    at_once = []

    async def counting(question):
        at_once.append(1)
        await asyncio.sleep(0)
        most = len(at_once)
        at_once.pop()
        return emitted(question, str(most), ["add"])

    assert {x.final_output for x in run(agent=counting, trials=5).traces} == {"1"}


def test_an_agent_that_raises_has_failed_the_trial_with_its_error():
    def broken(question):
        raise ValueError("no such order")

    [case] = run(CASES[:1], broken).run.cases
    assert (case.status, case.trials[0].reasons) == (
        "fail",
        ("the agent raised ValueError: no such order",),
    )


@pytest.mark.parametrize("case", [CASES[0], "Hello"], ids=["tools are expected", "no tools"])
def test_a_trial_in_which_the_agent_raises_counts_in_the_rates(case):
    calls = itertools.count()

    def failing_first(question):
        if next(calls) == 0:
            raise ValueError("no such order")
        return agent(question)

    thresholds = {"check.answer_present": 1}
    [found] = run([case], failing_first, trials=3, thresholds=thresholds).run.cases
    assert (found.n, found.passed, found.odds["n"]) == (3, 2, 3)


def test_a_conversation_has_one_session_in_each_trial():
    def talking(question, session_id):
        return emitted(question, session_id, ["add"])

    case = {
        "id": "two",
        "turns": [{"input": "a"}, {"input": "b", "expected_tools": [{"tool_name": "add"}]}],
    }
    traces = run([case], talking, trials=2).traces
    assert [x.user_input for x in traces] == ["a", "b", "a", "b"]
    assert len({x.final_output for x in traces}) == 2


def test_texts_are_cases_of_which_only_thresholds_expect_something():
    assert statuses(run(["Hello", "Hello"], thresholds={"tool_correctness": 0.5})).keys() == {
        "Hello",
        "Hello (2)",
    }


def test_a_file_of_a_suite_is_run(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(f"name: sums\ncases: {json.dumps(CASES)}\n")
    assert run(path).run.suite.name == "sums"


def test_a_suite_has_the_name_that_is_given_to_it():
    suite = run().run.suite
    assert run(suite, name="nightly").run.suite.name == "nightly"


def test_within_a_running_event_loop_it_works_as_well():
    async def notebook():
        return statuses(run())

    assert asyncio.run(notebook())["sum"] == "p"


def test_it_may_be_awaited():
    found = asyncio.run(spanscore.experiment_async(CASES, agent, progress=False))
    assert statuses(found)["sum"] == "p"


def test_two_runs_are_compared(tmp_path, capsys):
    run(trials=3, output=tmp_path / "a.json")
    run(agent=lambda x: emitted(x, "Hi", ["greet"]), trials=3, output=tmp_path / "b.json")
    main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")])
    assert "greeting" in capsys.readouterr().out


def test_it_is_shown_as_a_table():
    shown = repr(run(trials=3))
    assert "2 cases, 1 passed, 1 failed" in shown
    assert "sum       pass    PPP" in shown


def test_a_notebook_shows_no_markup_of_a_case():
    assert "<script>" not in run([{**CASES[0], "id": "<script>"}])._repr_html_()


def test_progress_is_told_on_standard_error(capsys):
    spanscore.experiment(CASES, agent)
    assert "spanscore: running the agent: 2 of 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cases", "options", "told"),
    [
        ([{"id": "x"}], {}, "case 'x' has no input to give to the agent"),
        ([{"inptu": "x"}], {}, "did you mean input?"),
        (["x"], {"metrics": ["coherenc"]}, "coherence"),
        (["x"], {"concurrency": 0}, "concurrency 0"),
        ([], {}, "there are none"),
    ],
)
def test_what_cannot_be_run_is_refused(cases, options, told):
    with pytest.raises(InputError, match=told.replace("?", r"\?")):
        run(cases, **options)


def test_it_is_written_as_a_page(tmp_path):
    run(run_id="nightly").to_html(tmp_path / "out.html")
    assert "agent, run nightly" in (tmp_path / "out.html").read_text()


def delegating(question):
    """An agent whose tool asks another agent, which is traced apart."""
    asked = "Which flights leave Amsterdam for Oslo on Thursday morning?"
    tracer = trace.get_tracer("an.agent")
    with tracer.start_as_current_span("invoke_agent travel") as span:
        span.set_attribute("gen_ai.operation.name", "invoke_agent")
        span.set_attribute("gen_ai.input.messages", said("user", question))
        with tracer.start_as_current_span("execute_tool ask_flights") as tool:
            tool.set_attribute("gen_ai.operation.name", "execute_tool")
            tool.set_attribute("gen_ai.tool.name", "ask_flights")
            tool.set_attribute("gen_ai.tool.call.arguments", json.dumps({"question": asked}))
            with tracer.start_as_current_span("invoke_agent flights", context=Context()) as other:
                other.set_attribute("gen_ai.operation.name", "invoke_agent")
                other.set_attribute("gen_ai.input.messages", said("user", asked))
                other.set_attribute(
                    "gen_ai.output.messages", said("assistant", "Two, at 7:00 and at 9:30.")
                )
            tool.set_attribute("gen_ai.tool.call.result", "Two, at 7:00 and at 9:30.")
        span.set_attribute("gen_ai.output.messages", said("assistant", "Two flights."))
    return "Two flights."


@pytest.mark.parametrize(("is_joined", "turns"), [(True, 1), (False, 2)])
def test_the_configuration_says_which_traces_are_one_turn(is_joined, turns):
    settings = parse(f"assemble: {{stitch: {{delegation: {{enabled: {str(is_joined).lower()}}}}}}}")
    assert len(run([{"input": "To Oslo, please"}], delegating, config=settings).traces) == turns
