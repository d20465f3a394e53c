"""Which texts announce steps: two or more of them are a plan."""

import pytest

from spanscore.model.plan import announced_steps

NO_PLANS = [
    *(
        "",
        ".",
        "OK.",
        "Next step.",
        "Sure, one moment please.",
        "Let me check that for you.",
        "Working on it...",
    ),
    *(
        "I will help you with that.",
        "Great! Let's move on to the next step, then.",
        "Let me think step by step.",
    ),
    *(
        "Einen Moment bitte.",
        "Ich schaue kurz nach.",
        "Dann schaue ich mal nach.",
        "Un instant, s'il vous plaît.",
    ),
    *(
        "Un momento, por favor.",
        "Vou verificar isso agora.",
        "Хорошо, минуту.",
        "好的，请稍等。",
        "下一步",
    ),
    *("少々お待ちください。", "次のステップ"),
    *(
        "First I look it up.",
        "I ask the parcel clerk.",
        "I'll look up the weather in Tokyo and Paris.",
    ),
    *("I found your order. I will refund it.", "The desk opens at 10:30."),
    "I need to check your identity before I can proceed.",
    "Here are your details:\n- Name: Ann Lee\n- City: Paris\n- Phone: 5",
    "Which one is it? 1. a blue cat? 2. a red dog?",
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
    "i. find a flight\nii. book the hotel",
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
    "Find a flight → book the hotel",
    "First I will find a flight, then I'll book the hotel.",
    "I'll find a flight and book the hotel.",
    "I'll find a flight. I will also book the hotel.",
    "Let me find a flight. Then I'll book the hotel.",
    "Zuerst suche ich einen Flug, dann buche ich das Hotel.",
    "D'abord je cherche un vol, puis je réserve l'hôtel.",
    "Je vais chercher un vol et réserver un hôtel.",
    "Primero busco un vuelo y luego reservo el hotel.",
    "Prima cerco un volo, poi prenoto l'albergo.",
    "Primeiro procuro um voo, depois reservo o hotel.",
    "Eerst zoek ik een vlucht, daarna boek ik het hotel.",
    "Najpierw znajdę lot, potem zarezerwuję hotel.",
    "Сначала я найду рейс, затем забронирую отель.",
    "Önce uçuşu bulacağım, sonra oteli ayıracağım.",
    "我先查询航班，然后预订酒店。",
    "まず航空券を探して、次にホテルを予約します。",
    "먼저 항공편을 찾고 그다음 호텔을 예약하겠습니다.",
    "أولاً سأبحث عن رحلة ثم سأحجز الفندق.",
]


@pytest.mark.parametrize("text", NO_PLANS)
def test_a_text_that_only_goes_on_or_announces_one_step_is_no_plan(text):
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
    "text", ["1. " * 100_000, "- a\n" * 100_000, "[" * 100_000, "then " * 100_000, "→ " * 100_000]
)
def test_no_text_takes_long(text):
    assert len(announced_steps(text)) <= 50


def test_turkish_without_its_dotless_i_announces_steps_too():
    steps = announced_steps("Dosyayi oku, ardindan raporu yaz.")

    assert steps == ("Dosyayi oku", "raporu yaz")
