"""Which texts announce steps: two or more of them are a plan."""

import pytest

from spanscore.model.plan import announced_steps

NO_PLANS = [
    "",
    ".",
    "OK.",
    "Great! Let's move on to the next step, then.",
    "I'll find a flight. I will also book the hotel.",
    "First I will find a flight, then I'll book the hotel.",
    "我先查询航班，然后预订酒店。",
    "The desk opens at 10:30.",
    "1. find a flight",
    "Here are your details:\n- Name: Ann Lee\n- City: Paris\n- Phone: 5",
    "There are two:\n- Paris\n- Rome",
    "Which one is it? 1. a blue cat? 2. a red dog?",
    "Which steps?\n- Paris\n- Rome",
    "Version 1.2 then 1.3.",
    '["Paris", "Rome"]',
    (
        '[{"name": "weather", "arguments": {"city": "Paris"}}, {"name": "weather", "arguments":'
        ' {"city": "Rome"}}]'
    ),
]
TWO_STEPS = [
    "Plan: 1. find a flight. 2. book the hotel.",
    "1) find a flight 2) book the hotel",
    "(1) find a flight; (2) book the hotel",
    "a) find a flight b) book the hotel",
    "**1.** Find a flight\n**2.** Book the hotel",
    "Plan:\n1. Find a flight\n   with a window seat\n2. Book",
    "# Plan\n\n- find a flight\n- book the hotel\n",
    "- [ ] find a flight\n- [x] book the hotel",
    "I'll do this:\n* find a flight\n* book the hotel",
    "## Find a flight\nIt must be cheap.\n## Book the hotel\nNear the sea.",
    "Step 1: find a flight. Step 2: book the hotel.",
    "Schritt 1: Flug suchen. Schritt 2: Hotel buchen.",
    "计划：1.查询航班。2.预订酒店。",
    "①查询航班②预订酒店",
    "第一步：查询航班。第二步：预订酒店。",
    '["find a flight", "book the hotel"]',
    '{"reasoning": "few words", "plan": ["find a flight", "book the hotel"]}',
    'My plan:\n```json\n{"steps": [{"title": "Find a flight"}, {"title": "Book the hotel"}]}\n```',
    "Plan:\n- search\n- book",
    "## My plan for today\n1. Search\n2. Book",
    "**Steps**\n* search\n* book",
]


@pytest.mark.parametrize("text", NO_PLANS)
def test_a_text_without_a_list_of_two_steps_is_no_plan(text):
    assert announced_steps(text) == ()


@pytest.mark.parametrize("text", TWO_STEPS)
def test_a_text_with_two_steps_is_a_plan_of_two_steps(text):
    assert len(announced_steps(text)) == 2


def test_a_plan_on_one_line_has_as_many_steps_as_numbers():
    text = "Plan: 1. find a flight 2. book the hotel 3. send the ticket"
    assert announced_steps(text) == ("find a flight", "book the hotel", "send the ticket")


def test_numbers_that_are_no_series_are_no_steps():
    assert announced_steps("Section 4. says a lot, and section 7. even more.") == ()


@pytest.mark.parametrize(
    "text", ["1. " * 100_000, "- a\n" * 100_000, "[" * 100_000, "plan " * 100_000, "**" * 100_000]
)
def test_no_text_takes_long(text):
    assert len(announced_steps(text)) <= 50
