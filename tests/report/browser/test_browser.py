"""The report in a real browser: what a reader sees, finds and reaches by keys, and what no trace
can do to the page.
"""

import re

import pytest
from report_turns import agent_trace, evaluation

from spanscore import report
from spanscore.model.score import Score
from spanscore.model.trace import ToolCall
from spanscore.stats import Estimate, Interval

pytestmark = pytest.mark.browser

_RUN = "document.title='owned'"
_NASTY = f'"\'></script><script>{_RUN}</script><img src=x onerror="{_RUN}"><style>*{{display:none}}'
_MANY = 5_000


def _failing(number=1, **facts):
    """A turn whose tool failed, and the check that says so."""
    call = ToolCall("c1", "book", {"flight": "LH-401"}, error="upstream timeout", started_ns=None)
    trace = agent_trace(
        number, calls=(call,), final_output="I could not book it: upstream timeout.", **facts
    )
    finding = {
        "call": 1,
        "tool": "book",
        "argument": None,
        "text": 'failed with "upstream timeout"',
    }
    outcome = Score(0.0, 'Call 1 (book): failed with "upstream timeout".', {"findings": [finding]})
    return trace, evaluation(trace, "check.errors_recovered", outcome=outcome)


def _rows(page):
    return page.locator(".row .row-title").all_inner_texts()


def test_the_first_page_has_the_verdicts_with_intervals(show):
    page = show(
        [agent_trace(x) for x in range(6)],
        [evaluation(agent_trace(x), value=float(x > 1)) for x in range(6)],
    )
    row = page.locator(".metrics tbody tr").first.inner_text()
    assert re.search(r"66\.7 % 2\d\.\d % to 9\d", " ".join(row.split()))
    assert page.complaints == []


def test_a_failing_turn_shows_the_step_and_the_text_that_its_score_rests_on(show):
    trace, score = _failing()
    page = show([trace], [score])
    page.locator(".row").first.click()
    page.wait_for_selector(".page.turn")
    evidence = page.locator(".step.evidence")
    assert evidence.locator(".step-name").all_inner_texts() == ["book"]
    assert evidence.locator("mark").all_inner_texts() == ["upstream timeout"]
    assert page.locator(".message.agent mark").all_inner_texts() == ["upstream timeout"]
    assert page.complaints == []


def test_a_number_in_a_reason_leads_to_its_step(show):
    trace = agent_trace()
    page = show(
        [trace],
        [evaluation(trace, value=0.0, reason="Step 1 asked for the wrong town.")],
        at=f"#turn={trace.id}",
    )
    page.locator(".place").click()
    assert page.locator(".score.active .metric").inner_text() == "task_completion"
    assert page.locator(".step:not(.dim) .step-name").all_inner_texts() == ["weather"]


def test_a_score_of_a_session_leads_to_the_step_of_a_turn(show):
    turns = [agent_trace(x, session_id="s") for x in (1, 2)]
    score = evaluation(
        turns[1],
        "conversation_completion",
        scope="session",
        subject_id="s",
        reason="Step 2 is late.",
    )
    page = show(turns, [score], at="#session=0")
    page.locator(".score-head").click()
    page.locator(".place").click()
    page.wait_for_selector(".page.turn")
    assert "question 2" in page.locator("h1").inner_text()
    assert page.locator(".step.open .step-name").all_inner_texts() == ["weather"]


def test_nothing_that_a_trace_contains_is_run_or_loaded(show):
    call = ToolCall(_NASTY, _NASTY, {_NASTY: _NASTY}, _NASTY, error=_NASTY)
    facts = {
        "user_input": _NASTY,
        "final_output": _NASTY,
        "agent_name": _NASTY,
        "system_instructions": _NASTY,
    }
    trace = agent_trace(calls=(call,), session_id=_NASTY, **facts)
    score = evaluation(
        trace, _NASTY, value=0.0, reason=_NASTY, metadata={_NASTY: _NASTY, "x": [_NASTY]}
    )
    cases = [report.Case(name=_NASTY, status="fail", reasons=(_NASTY,), detail=_NASTY)]
    page = show([trace], [score], name=_NASTY, cases=cases, notes=(_NASTY,))
    for at in ("", f"#turn={trace.id}", "#session=0", "#test=0"):
        page.evaluate("at => { location.hash = at; }", at)
        page.wait_for_timeout(150)
        page.evaluate("document.querySelectorAll('details').forEach(x => { x.open = true; })")
    assert page.title() == f"{_NASTY} · spanscore"
    assert page.locator("img, iframe, .page script, .page style, .page a").count() == 0
    assert page.complaints == []


def test_a_turn_leads_to_its_trace_in_the_readers_backend_where_one_is_configured(show):
    trace = agent_trace()
    at = f"#turn={trace.id}"
    page = show([trace], at=at, trace_url="https://traces.example.com/{trace_id}")
    links = {x.get_attribute("href") for x in page.locator(".page.turn a").all()}
    assert links == {f"https://traces.example.com/{trace.trace_ids[0]}"}
    assert show([trace], at=at).locator(".page.turn a").count() == 0


def test_thousands_of_turns_scroll_and_are_searched_without_a_long_pause(show):
    turns = [agent_trace(x) for x in range(_MANY)]
    page = show(turns, [evaluation(x) for x in turns])
    page.evaluate("document.querySelector('.scroller').scrollTop = 1e9")
    page.wait_for_timeout(100)
    assert page.locator(".row").count() < 60
    assert "question 4999" in _rows(page)[-1]
    page.locator("input[type=search]").fill("question 4321")
    page.locator(".found", has_text="1 of").wait_for()
    assert _rows(page) == ["How warm is it in Oslo, question 4321?"]


def _searched(page, text):
    """The titles of the rows once all steps are looked into."""
    page.locator("input[type=search]").fill(text)
    page.locator(".found[aria-busy=false]").wait_for()
    return _rows(page)


def test_words_in_the_steps_of_a_turn_are_found_and_shown(show):
    calls = (ToolCall("c1", "search", {"page": "Straße 4711"}, "a rain of frogs"),)
    page = show([agent_trace(1), agent_trace(2, calls=calls), agent_trace(3)])
    assert _searched(page, "Frogs") == ["How warm is it in Oslo, question 2?"]
    assert page.locator(".row .names b").all_inner_texts() == ["frogs"]
    assert _searched(page, "straße 4711") == ["How warm is it in Oslo, question 2?"]
    assert page.complaints == []


def test_words_of_which_one_is_in_the_row_and_one_in_the_steps_are_found(show):
    calls = (ToolCall("c1", "search", {}, 'the "answer" is 42'),)
    page = show([agent_trace(x, calls=calls) for x in (1, 2)])
    assert _searched(page, 'question 2? "answer"') == ["How warm is it in Oslo, question 2?"]


def test_words_of_the_reports_own_are_not_found_in_the_steps(show):
    page = show([agent_trace(1)], [evaluation(agent_trace(1))])
    assert _searched(page, "completeness") == []


def test_thousands_of_turns_are_searched_with_their_steps(show):
    calls = (ToolCall("c1", "search", {}, "a rain of frogs"),)
    page = show(
        [agent_trace(x, **({"calls": calls} if x == _MANY - 1 else {})) for x in range(_MANY)]
    )
    assert _searched(page, "frogs") == [f"How warm is it in Oslo, question {_MANY - 1}?"]


def test_a_turn_of_hundreds_of_calls_opens_at_the_step_that_matters(show):
    calls = tuple(ToolCall(f"c{x}", "search", {"page": x}, "nothing") for x in range(900))
    trace = agent_trace(calls=calls)
    page = show(
        [trace],
        [evaluation(trace, value=0.0, reason="Step 850 found nothing.")],
        at=f"#turn={trace.id}",
    )
    page.locator(".place").click()
    shown = page.locator(".step.evidence")
    assert shown.locator(".step-number").all_inner_texts() == ["850"]
    assert shown.is_visible()


def test_all_is_reached_by_keys(show):
    trace, score = _failing(1)
    other = agent_trace(2)
    page = show([trace, other], [score, evaluation(other)])
    page.keyboard.press("j")
    page.wait_for_selector(".page.turn")
    assert "question 1?" in page.locator("h1").inner_text()
    page.keyboard.press("n")
    assert page.locator(".score.active .metric").inner_text() == "check.errors_recovered"
    page.keyboard.press("Escape")
    assert page.locator(".score.active").count() == 0
    page.keyboard.press("j")
    page.locator("h1", has_text="question 2?").wait_for()
    page.keyboard.press("f")
    assert len(_rows(page)) == 1
    page.keyboard.press("/")
    page.keyboard.type("nowhere")
    page.locator(".nothing").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.locator(".help").is_visible()


def test_a_metric_of_the_overview_lists_the_turns_that_fail_in_it(show):
    turns = [agent_trace(x) for x in (1, 2, 3)]
    page = show(turns, [evaluation(x, value=float(x is not turns[1])) for x in turns])
    page.locator(".metrics tbody button").first.click()
    assert _rows(page) == ["How warm is it in Oslo, question 2?"]


@pytest.mark.parametrize("dark", [False, True])
def test_the_colours_are_those_that_the_reader_prefers(show, dark):
    page = show([agent_trace()], dark=dark)
    light = page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every(x => x > 200)"
    )
    assert light is not dark
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == ("light" if dark else "dark")


def test_on_a_narrow_screen_list_and_page_take_turns_and_nothing_is_cut_off(show):
    trace, score = _failing()
    page = show([trace], [score], width=400)
    page.locator(".to-list").click()
    page.locator(".row").first.click()
    page.wait_for_selector(".page.turn")
    assert page.locator(".list").is_hidden()
    assert page.evaluate(
        "document.querySelector('.main').scrollWidth <= document.documentElement.clientWidth"
    )


def test_a_comparison_says_what_changed_and_shows_the_turn_before(show):
    own, other = (
        agent_trace(1),
        agent_trace(9, user_input=agent_trace(1).user_input, final_output="It is cold."),
    )
    estimate = Estimate(0.5, 20, Interval(0.4, 0.6), "x")
    difference = report.Difference(
        name="pass rate",
        baseline=estimate,
        own=estimate,
        difference=Estimate(-0.2, 20, Interval(-0.3, -0.1), "x"),
        verdict="worse",
        unit="%",
    )
    page = show(
        [own],
        [evaluation(own, value=0.1)],
        comparison=report.Comparison(baseline="before", verdict="worse", differences=[difference]),
        baseline=report.Results(
            name="before", traces=[other], scores=[evaluation(other, value=0.9)]
        ),
    )
    shown = " ".join(page.locator(".comparison").inner_text().split())
    assert "-20 % -30 % to -10 %" in shown
    page.locator(".row").first.click()
    page.wait_for_selector(".change")
    assert "-0.8" in page.locator(".change").inner_text()
    assert "It is cold." in page.locator(".past-output").inner_text()


@pytest.mark.parametrize("width", [1000, 1300])
def test_no_column_of_a_comparison_is_cut_off(show, width):
    value = Estimate(12.345, 20, Interval(-10.111, 110.222), "x")
    share = Estimate(0.1234, 20, Interval(-0.8456, 0.8456), "x")
    differences = [
        report.Difference(
            name=name,
            baseline=found,
            own=found,
            difference=found,
            verdict="cannot tell",
            unit=unit,
            note="too few sessions",
            counted="of 4 traces and 2 sessions, by the metrics that both runs have",
        )
        for name, found, unit in (
            ("pass rate", share, "%"),
            ("conversation_completeness", value, ""),
            ("latency", value, "s"),
        )
    ]
    compared = report.Comparison(baseline="before", verdict="cannot tell", differences=differences)
    trace = agent_trace()
    page = show([trace], [evaluation(trace)], width=width, comparison=compared)
    assert (
        page.evaluate(
            "[...document.querySelectorAll('.scrolls')].filter(x => x.scrollWidth > x.clientWidth)"
            ".map(x => x.innerText)"
        )
        == []
    )


def test_the_shares_that_pass_say_what_they_count(show):
    good, bad, bare = (agent_trace(x) for x in (1, 2, 3))
    rate = Estimate(0.5, 2, None, "x")
    difference = report.Difference(
        name="pass rate",
        baseline=rate,
        own=rate,
        difference=Estimate(0.0, 2, None, "x"),
        verdict="cannot tell",
        unit="%",
        counted="of 2 traces",
    )
    page = show(
        [good, bad, bare],
        [evaluation(good), evaluation(bad, value=0.0)],
        comparison=report.Comparison(
            baseline="before", verdict="cannot tell", differences=[difference]
        ),
    )
    assert "50 % of 2 turns with a verdict pass" in page.locator(".tile").first.inner_text()
    assert "of 2 traces" in page.locator(".differences tbody tr").first.inner_text()


def test_a_test_shows_its_trials_and_leads_to_their_turns(show):
    turns = [agent_trace(x) for x in (1, 2)]
    trials = [
        report.Trial(status="pass", trace_ids=turns[0].trace_ids),
        report.Trial(status="fail", reasons=("No.",), trace_ids=turns[1].trace_ids),
    ]
    case = report.Case(
        name="oslo", status="fail", trials=trials, reasons=("trial 2: No.",), detail="assert 7 == 8"
    )
    page = show(turns, cases=[case], at="#test=0")
    assert "assert 7 == 8" in page.locator(".page").inner_text()
    page.locator(".turn-card").last.click()
    page.wait_for_selector(".page.turn")
    assert "question 2" in page.locator("h1").inner_text()


def test_a_session_of_very_many_turns_shows_the_first_and_more_on_request(show):
    turns = [agent_trace(x, session_id="s") for x in range(450)]
    page = show(turns, at="#session=0")
    assert page.locator(".turn-card").count() == 200
    page.locator(".more", has_text="more of 450").click()
    assert page.locator(".turn-card").count() == 400
