"""Functions that are recorded as tools."""

import asyncio
import functools
import inspect
import json

import pytest

import spanscore


def calls(recorded):
    return recorded.turn().tool_calls


def only(recorded):
    [span] = [x for x in recorded.spans if x.name.startswith("execute_tool")]
    return span


def result(recorded):
    return json.loads(only(recorded).attributes["gen_ai.tool.call.result"])


def arguments(recorded):
    return json.loads(only(recorded).attributes["gen_ai.tool.call.arguments"])


def test_a_call_is_rebuilt_with_its_arguments_and_result(recorded):
    @spanscore.tool
    def book(flight: str, *, seats: int = 1) -> dict:
        """Book it."""
        return {"flight": flight, "seats": seats}

    with spanscore.turn("Do it."):
        assert book("LH1", seats=2) == {"flight": "LH1", "seats": 2}
    [call] = calls(recorded)
    assert (call.name, call.arguments, call.result) == (
        "book",
        {"flight": "LH1", "seats": 2},
        {"flight": "LH1", "seats": 2},
    )


def test_a_call_has_an_id_of_its_own(recorded):
    @spanscore.tool
    def book(flight):
        return flight

    with spanscore.turn("Do it."):
        book("LH1")
        book("LH1")
    assert len({x.call_id for x in calls(recorded)} - {None}) == 2


def test_a_call_has_the_id_that_the_model_gave_it(recorded):
    @spanscore.tool
    def book(flight):
        return flight

    with spanscore.turn("Do it."), spanscore.call_id("call_7"):
        book("LH1")
    assert [x.call_id for x in calls(recorded)] == ["call_7"]


def test_an_id_is_that_of_one_call_alone(recorded):
    @spanscore.tool
    def look_up(flight):
        return flight

    @spanscore.tool
    def book(flight):
        return look_up(flight)

    with spanscore.turn("Do it."), spanscore.call_id("call_7"):
        book("LH1")
    ids = {
        x.name: x.attributes["gen_ai.tool.call.id"]
        for x in recorded.spans
        if x.name.startswith("execute_tool")
    }
    assert ids["execute_tool book"] == "call_7" != ids["execute_tool look_up"]


def test_a_call_that_a_recorded_model_asked_for_has_its_id(recorded):
    @spanscore.tool
    def book(flight):
        return flight

    asked = {
        "role": "assistant",
        "tool_calls": [
            {"id": "c1", "function": {"name": "book", "arguments": '{"flight": "LH1"}'}}
        ],
    }
    with spanscore.turn("Do it."):
        with spanscore.model_call("gpt-4o-mini", "Do it.") as call:
            call.answer(asked)
        book("LH1")
    [found] = calls(recorded)
    assert (found.call_id, found.result) == ("c1", "LH1")


def test_a_call_outside_of_any_turn_is_the_one_that_a_model_asked_for(recorded):
    @spanscore.tool
    def book(flight):
        return flight

    function = {"name": "book", "arguments": '{"flight": "LH1"}'}
    asked = {"role": "assistant", "tool_calls": [{"id": "c1", "function": function}]}
    with recorded.provider.get_tracer("a.framework").start_as_current_span("invoke_agent clerk"):
        with spanscore.model_call("gpt-4o-mini", "Do it.") as call:
            call.answer(asked)
        book("LH1")
    [found] = calls(recorded)
    assert (found.call_id, found.result) == ("c1", "LH1")


def test_a_call_that_is_taken_up_while_others_are_asked_for_is_taken_up_once(recorded):
    turn = spanscore.turn("Do it.")
    turn.note_requests([("book", {}, "c1")])
    taken = []

    def asked_for():
        taken.append(turn.requested_id("book", {}))
        yield "book", {}, "c2"

    turn.note_requests(asked_for())
    taken.append(turn.requested_id("book", {}))
    assert taken == ["c1", "c2"]


def test_a_tools_exception_passes_and_is_its_error(recorded):
    @spanscore.tool
    def book(flight):
        raise ValueError(f"{flight} is full")

    with spanscore.turn("Do it."), pytest.raises(ValueError, match="LH1 is full"):
        book("LH1")
    [call] = calls(recorded)
    assert (call.error, call.returned, call.error_inferred) == ("LH1 is full", False, False)


def test_a_coroutine_function_stays_one(recorded):
    @spanscore.tool
    async def book(flight):
        await asyncio.sleep(0)
        return flight

    assert inspect.iscoroutinefunction(book)
    assert asyncio.run(book("LH1")) == "LH1"
    assert only(recorded).attributes["gen_ai.tool.call.result"] == "LH1"


def test_a_function_that_returns_a_coroutine_is_followed_to_its_end(recorded):
    async def work():
        raise ValueError("full")

    @spanscore.tool
    def book():
        return work()

    with pytest.raises(ValueError, match="full"):
        asyncio.run(book())
    assert only(recorded).attributes["error.type"] == "ValueError"


def test_a_generators_result_is_what_it_yielded(recorded):
    @spanscore.tool
    def flights(city):
        yield "LH1"
        yield "LH2"

    assert inspect.isgeneratorfunction(flights)
    assert list(flights("Rome")) == ["LH1", "LH2"]
    assert result(recorded) == ["LH1", "LH2"]


def test_a_generator_is_sent_to_thrown_into_and_closed_as_before(recorded):
    seen = []

    @spanscore.tool
    def flights():
        try:
            seen.append((yield 1))
            yield 2
        except KeyError:
            seen.append("thrown")
            yield 3
        finally:
            seen.append("closed")

    work = flights()
    assert [next(work), work.send("sent"), work.throw(KeyError())] == [1, 2, 3]
    work.close()
    assert seen == ["sent", "thrown", "closed"]
    assert result(recorded) == [1, 2, 3]


def test_a_generators_own_return_value_is_its_result(recorded):
    @spanscore.tool
    def flights():
        yield "looking"
        return {"found": 2}

    def consuming():
        found.append((yield from flights()))

    found = []
    assert list(consuming()) == ["looking"]
    assert found == [{"found": 2}] == [result(recorded)]


def test_what_a_consumer_does_between_two_items_is_not_in_the_tool(recorded):
    @spanscore.tool
    def flights():
        yield "LH1"

    @spanscore.tool
    def book(flight):
        return flight

    with spanscore.turn("Do it."):
        for flight in flights():
            book(flight)
    turn = recorded.span("invoke_agent").context.span_id
    assert {x.parent.span_id for x in recorded.spans if x.name.startswith("execute_tool")} == {turn}


def test_an_asynchronous_generator_stays_one(recorded):
    @spanscore.tool
    async def flights(city):
        yield "LH1"
        yield "LH2"

    async def consuming():
        return [x async for x in flights("Rome")]

    assert inspect.isasyncgenfunction(flights)
    assert asyncio.run(consuming()) == ["LH1", "LH2"]
    assert result(recorded) == ["LH1", "LH2"]


def test_an_asynchronous_generator_that_fails_says_so(recorded):
    @spanscore.tool
    async def flights():
        yield "LH1"
        raise ValueError("full")

    async def consuming():
        return [x async for x in flights()]

    with pytest.raises(ValueError, match="full"):
        asyncio.run(consuming())
    assert only(recorded).attributes["error.type"] == "ValueError"


def test_a_method_is_recorded_without_its_object(recorded):
    class Desk:
        @spanscore.tool
        def book(self, flight):
            return flight

    Desk().book("LH1")
    assert arguments(recorded) == {"flight": "LH1"}


def test_a_method_of_a_class_may_be_decorated_on_either_side(recorded):
    class Desk:
        @spanscore.tool
        @staticmethod
        def one(flight):
            return flight

        @staticmethod
        @spanscore.tool
        def two(flight):
            return flight

        @spanscore.tool
        @classmethod
        def three(cls, flight):
            return flight

        @classmethod
        @spanscore.tool
        def four(cls, flight):
            return flight

    assert [x("LH1") for x in (Desk.one, Desk.two, Desk().three, Desk.four)] == ["LH1"] * 4
    given = [json.loads(x.attributes["gen_ai.tool.call.arguments"]) for x in recorded.spans]
    assert given == [{"flight": "LH1"}] * 4


def test_an_object_that_can_be_called_is_a_tool(recorded):
    class Search:
        """Search the web."""

        def __call__(self, query):
            return query

    assert spanscore.tool(Search())("Rome") == "Rome"
    span = only(recorded)
    assert (span.name, span.attributes["gen_ai.tool.description"]) == (
        "execute_tool Search",
        "Search the web.",
    )
    assert arguments(recorded) == {"query": "Rome"}


def test_a_class_is_recorded_by_the_calls_of_its_instances(recorded):
    @spanscore.tool(name="search")
    class Search:
        def __call__(self, query):
            return query

    found = Search()
    assert isinstance(found, Search)
    assert found("Rome") == "Rome"
    assert (only(recorded).name, arguments(recorded)) == ("execute_tool search", {"query": "Rome"})


def test_a_partial_is_called_by_its_functions_name(recorded):
    def book(flight, seats):
        return seats

    spanscore.tool(functools.partial(book, seats=2))("LH1")
    assert only(recorded).name == "execute_tool book"


def test_further_arguments_are_named_as_the_function_names_them(recorded):
    @spanscore.tool
    def book(flight, *names, **options):
        return None

    book("LH1", "Ann", "Bob", window=True)
    assert arguments(recorded) == {"flight": "LH1", "names": ["Ann", "Bob"], "window": True}


def test_defaults_that_the_call_left_out_stay_out(recorded):
    @spanscore.tool
    def book(flight, seats=1):
        return None

    book("LH1")
    assert arguments(recorded) == {"flight": "LH1"}


def test_arguments_that_the_function_refuses_are_recorded_all_the_same(recorded):
    @spanscore.tool
    def book(flight):
        return None

    with pytest.raises(TypeError):
        book(flight="LH1", hotel="Ritz")
    assert arguments(recorded) == {"flight": "LH1", "hotel": "Ritz"}


def test_a_result_that_is_none_was_returned(recorded):
    @spanscore.tool
    def cancel():
        return None

    with spanscore.turn("Do it."):
        cancel()
    assert [(x.result, x.returned) for x in calls(recorded)] == [(None, True)]


@pytest.mark.parametrize(
    "value", ["42", "true", "null", "It rains.", "", '"quoted"', 42, 1.5, False, ["a"], {"a": [1]}]
)
def test_a_result_is_rebuilt_as_it_was(recorded, value):
    @spanscore.tool
    def look_up():
        return value

    with spanscore.turn("Do it."):
        look_up()
    assert [x.result for x in calls(recorded)] == [value]


def test_a_result_that_is_too_large_is_cut_and_says_so(recorded):
    @spanscore.tool
    def look_up(text):
        return [text] * 10

    with spanscore.turn("Do it."):
        look_up("long " * 20_000)
    assert len(only(recorded).attributes["gen_ai.tool.call.result"]) < 101_000
    assert "tool_calls" in recorded.turn().damaged


def test_nothing_that_is_recorded_keeps_a_tool_from_running(recorded):
    class Hostile:
        def __repr__(self):
            raise RuntimeError("no")

        @property
        def model_dump(self):
            raise RuntimeError("no")

    @spanscore.tool
    def look_up(given):
        return given

    given = Hostile()
    assert look_up(given) is given


def test_a_tool_that_is_not_to_be_captured_says_only_that_it_was_called(recorded):
    @spanscore.tool(capture=False)
    def look_up(secret):
        return secret

    look_up("s3cret")
    assert "s3cret" not in json.dumps(dict(only(recorded).attributes))


def test_a_decorated_function_keeps_its_name_and_signature():
    @spanscore.tool(name="other")
    def book(flight: str) -> str:
        """Book it."""
        return flight

    assert (book.__name__, book.__doc__, str(inspect.signature(book))) == (
        "book",
        "Book it.",
        "(flight: str) -> str",
    )
