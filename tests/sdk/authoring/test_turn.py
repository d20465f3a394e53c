"""A turn of an agent that is written by hand."""

import asyncio
import contextvars
import gc
import json
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from opentelemetry import trace

import spanscore
from spanscore.telemetry import instrumentation_suppressed


def test_a_turn_is_rebuilt_as_its_author_told_it(recorded):
    with spanscore.turn(
        "Fly to Rome?", session_id="chat-7", user_id="u-1", agent_name="travel"
    ) as turn:
        turn.answer("Booked.")
    found = recorded.turn()
    told = (found.user_input, found.final_output, found.session_id, found.user_id, found.agent_name)
    assert told == ("Fly to Rome?", "Booked.", "chat-7", "u-1", "travel")


def test_a_plan_is_the_turns_plan(recorded):
    with spanscore.turn("Fly to Rome?") as turn:
        turn.plan("look up, then book")
    assert recorded.turn().plan == "look up, then book"


def test_steps_of_a_plan_are_numbered(recorded):
    with spanscore.turn("Fly to Rome?"):
        spanscore.plan(["look up", "book"])
    assert recorded.turn().plan == "1. look up\n2. book"


def test_a_sub_agents_plan_is_not_the_turns(recorded):
    with spanscore.turn("Fly to Rome?"), spanscore.turn("Find a flight.", agent_name="finder"):
        spanscore.plan("ask the airline")
    assert recorded.turn().plan is None


def test_an_answer_is_given_back(recorded):
    with spanscore.turn("Hi") as turn:
        assert turn.answer({"ok": True}) == {"ok": True}
    assert recorded.turn().final_output == '{"ok":true}'


def test_earlier_messages_are_the_history(recorded):
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Fly to Rome?"},
    ]
    with spanscore.turn(messages) as turn:
        turn.answer("No.")
    found = recorded.turn()
    assert (found.user_input, found.system_instructions) == ("Fly to Rome?", "Be brief.")
    assert [x.text for x in found.history] == ["Hi", "Hello."]


def test_instructions_are_the_system_instructions(recorded):
    with spanscore.turn("Hi", instructions="Be brief."):
        pass
    assert recorded.turn().system_instructions == "Be brief."


def test_a_turn_is_an_asynchronous_context_manager(recorded):
    async def agent():
        async with spanscore.turn("Hi") as turn:
            await asyncio.sleep(0)
            turn.answer("Hello.")

    asyncio.run(agent())
    assert recorded.turn().final_output == "Hello."


def test_turns_that_run_side_by_side_do_not_mix(recorded):
    async def agent(question):
        async with spanscore.turn(question, session_id=question):
            await asyncio.sleep(0)
            spanscore.plan(f"answer {question}")

    async def both():
        await asyncio.gather(agent("one"), agent("two"))

    asyncio.run(both())
    assert {(x.session_id, x.plan) for x in recorded.turns()} == {
        ("one", "answer one"),
        ("two", "answer two"),
    }


def test_an_exception_passes_and_is_recorded(recorded):
    with pytest.raises(KeyError), spanscore.turn("Hi"):
        raise KeyError("flight")
    span = recorded.span("invoke_agent")
    assert (span.status.is_ok, span.attributes["error.type"]) == (False, "KeyError")


def test_a_cancelled_turn_says_so(recorded):
    async def agent():
        async with spanscore.turn("Hi"):
            await asyncio.Event().wait()

    async def cancelling():
        task = asyncio.create_task(agent())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(cancelling())
    assert (
        recorded.span("invoke_agent").attributes["error.type"]
        == "asyncio.exceptions.CancelledError"
    )


def test_a_turn_inside_of_another_is_part_of_that_one(recorded):
    with spanscore.turn("Fly to Rome?", agent_name="travel") as turn:
        with spanscore.turn("Find a flight.", agent_name="finder") as inner:
            inner.answer("LH1")
        turn.answer("Booked LH1.")
    found = recorded.turn()
    assert (found.user_input, found.final_output, found.agent_name) == (
        "Fly to Rome?",
        "Booked LH1.",
        "travel",
    )


def test_a_session_around_turns_is_theirs(recorded):
    with spanscore.session("chat-7", user_id="u-1"):
        for question in ("one", "two"):
            with spanscore.turn(question):
                pass
    assert {(x.session_id, x.user_id) for x in recorded.turns()} == {("chat-7", "u-1")}


def test_a_session_named_within_a_turn_is_that_turns(recorded):
    with spanscore.turn("Hi"):
        spanscore.session("chat-8")
    assert recorded.turn().session_id == "chat-8"


def test_an_expectation_is_rebuilt(recorded):
    with spanscore.turn("Fly to Rome?"):
        spanscore.expect(
            "a flight is booked",
            tools=["find", ("book", {"flight": "LH1"})],
            outcomes=["paid"],
            in_order=False,
        )
    found = recorded.turn().expected
    assert (found.answer, found.outcomes, found.in_order) == (
        "a flight is booked",
        ("paid",),
        False,
    )
    assert [(x.name, x.arguments) for x in found.tools] == [
        ("find", None),
        ("book", {"flight": "LH1"}),
    ]


def test_expected_tools_are_functions_or_arguments_by_name_too(recorded):
    @spanscore.tool(name="search_flights")
    def search(city):
        return city

    with spanscore.turn("one") as turn:
        turn.expect(tools=[search, {"name": "book", "arguments": {"flight": "LH1"}}])
    with spanscore.turn("two") as turn:
        turn.expect(tools={"book": {"flight": "LH2"}})
    one, two = recorded.turns()
    assert [(x.name, x.arguments) for x in one.expected.tools] == [
        ("search_flights", None),
        ("book", {"flight": "LH1"}),
    ]
    assert [(x.name, x.arguments) for x in two.expected.tools] == [("book", {"flight": "LH2"})]


def test_an_expectation_without_a_turn_is_of_the_current_span(recorded):
    with recorded.provider.get_tracer("web").start_as_current_span("POST /chat"):
        spanscore.expect("booked")
        with spanscore.turn("Fly to Rome?"):
            pass
    assert recorded.turn().expected.answer == "booked"


def test_what_is_recorded_outside_of_any_turn_is_said_once(complaints):
    for _ in range(2):
        spanscore.plan("look up")
    assert len(complaints()) == 1
    assert "outside" in complaints()[0]


def test_what_comes_after_the_turn_is_said(recorded, complaints):
    with spanscore.turn("Hi") as turn:
        pass
    turn.answer("Too late.")
    assert "outside of its turn" in complaints()[0]


def test_without_a_provider_nothing_is_recorded_and_all_goes_on(monkeypatch):
    monkeypatch.setattr(trace, "get_tracer_provider", trace.NoOpTracerProvider)
    with spanscore.turn("Hi") as turn:
        turn.plan("greet")
        assert turn.answer("Hello.") == "Hello."
    assert (turn.trace_id, turn.traceparent) == (None, None)


def test_a_turn_has_the_ids_of_its_span(recorded):
    with spanscore.turn("Hi") as turn:
        pass
    context = recorded.span("invoke_agent").context
    assert turn.trace_id == trace.format_trace_id(context.trace_id)
    assert turn.traceparent.split("-")[1:3] == [turn.trace_id, turn.span_id]


def test_a_decorated_agent_is_a_turn_each_time(recorded):
    @spanscore.turn(agent_name="travel")
    def agent(question, language="en"):
        return f"{question} {language}"

    agent("one")
    agent(question="two")
    assert [(x.user_input, x.final_output) for x in recorded.turns()] == [
        ("one", "one en"),
        ("two", "two en"),
    ]


def test_a_decorated_method_is_asked_its_first_argument(recorded):
    class Agent:
        @spanscore.turn()
        async def ask(self, question):
            return question.upper()

    assert asyncio.run(Agent().ask("hi")) == "HI"
    assert recorded.turn().user_input == "hi"


def test_a_decorated_agent_that_streams_answers_with_all_of_it(recorded):
    @spanscore.turn()
    def agent(question):
        yield "Hel"
        yield "lo."

    assert list(agent("Hi")) == ["Hel", "lo."]
    assert recorded.turn().final_output == "Hello."


@pytest.mark.slow
def test_an_agent_whose_methods_were_on_offer_is_not_kept_alive(recorded):
    class Agent:
        def book(self, flight: str):
            """Book it."""

    agent = Agent()
    with spanscore.turn("Do it.", tools=[agent.book]):
        pass
    is_alive = weakref.ref(agent)
    del agent
    gc.collect()
    assert is_alive() is None


@pytest.mark.parametrize("first", ["function", "method"])
def test_a_method_is_on_offer_without_its_object(recorded, first):
    class Agent:
        def book(this, flight: str):  # noqa: N805 - Python asks for no name
            """Book it."""

    listed = {"function": Agent.book, "method": Agent().book}
    spanscore.turn(tools=[listed[first]]).begun(None)
    with spanscore.turn("Do it.", tools=[listed["method"]]):
        pass
    [tool] = recorded.turn().available_tools
    assert list(tool.parameters["properties"]) == ["flight"]


def test_tools_on_offer_are_functions_definitions_and_names(recorded):
    def plain(city: str, days: int = 1) -> str:
        """Say the weather."""

    openai = {"type": "function", "function": {"name": "book", "parameters": {"type": "object"}}}
    anthropic = {"name": "cancel", "description": "Cancel.", "input_schema": {"type": "object"}}
    with spanscore.turn("Hi", tools=[plain, openai, anthropic, "search"]):
        pass
    tools = recorded.turn().available_tools
    assert [(x.name, x.description) for x in tools] == [
        ("plain", "Say the weather."),
        ("book", None),
        ("cancel", "Cancel."),
        ("search", None),
    ]
    assert tools[0].parameters == {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    }
    assert [x.parameters for x in tools[1:]] == [{"type": "object"}, {"type": "object"}, None]


@pytest.mark.parametrize("setting", ["false", "NO_CONTENT"])
def test_content_that_is_switched_off_is_not_recorded(recorded, monkeypatch, setting):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", setting)

    @spanscore.tool
    def find(city):
        return city

    with spanscore.turn("SECRET", instructions="SECRET") as turn:
        turn.plan("SECRET")
        find("SECRET")
        turn.answer("SECRET")
    assert "SECRET" not in json.dumps([dict(x.attributes) for x in recorded.spans])


def test_an_input_that_no_reader_can_print_does_not_stop_the_agent(recorded, complaints):
    class Broken:
        def __getattr__(self, name):
            raise RuntimeError("broken")

        def __repr__(self):
            raise RuntimeError("broken")

    with spanscore.turn([Broken()], session_id="chat-7") as turn:
        turn.answer("Hello.")
    assert (recorded.turn().final_output, recorded.turn().session_id) == ("Hello.", "chat-7")
    assert complaints() == []


def test_a_lone_surrogate_is_no_reason_to_lose_a_batch(recorded):
    with spanscore.turn("Hi \ud800", session_id="\ud800") as turn:
        turn.answer("\ud800")
    for value in recorded.span("invoke_agent").attributes.values():
        value.encode()


def test_a_turn_that_ends_in_another_context_than_it_began_in_logs_nothing(recorded, caplog):
    def streaming():
        with spanscore.turn("Hi") as turn:
            yield "Hello."
            turn.answer("Hello.")

    answers = streaming()
    assert [contextvars.copy_context().run(next, answers, None) for _ in range(2)] == [
        "Hello.",
        None,
    ]
    assert (recorded.turn().final_output, caplog.records) == ("Hello.", [])


def test_nothing_is_recorded_where_nothing_is_to_be_traced(recorded):
    @spanscore.tool
    def find(city):
        return city

    with instrumentation_suppressed(), spanscore.turn("Hi") as turn:
        find("Rome")
        turn.answer("Hello.")
    assert recorded.spans == ()


def test_a_turn_in_another_thread_is_that_threads(recorded):
    def agent(question):
        with spanscore.turn(question):
            spanscore.plan(f"answer {question}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(agent, map(str, range(8))))
    assert {x.plan for x in recorded.turns()} == {f"answer {x}" for x in range(8)}
