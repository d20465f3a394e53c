"""The page in a real browser: what fails and why, lists, turns and sessions, by mouse and by
keys.
"""

import csv
import io
import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from contrast import LOW_CONTRAST
from filled_store import S, score, turn
from harness.browser import until

from spanscore.model.score import JudgeUsage, Score
from spanscore.store.config import Config
from spanscore.store.store import Store, StoredTrace

pytestmark = pytest.mark.browser

_RUN = "document.title='owned'"
_OVERRIDE = "\u202egnp.exe\u2066"
_NASTY = (
    f"\"'></script><script>{_RUN}</script><img src=x"
    f' onerror="{_RUN}"><style>*{{display:none}}{_OVERRIDE}'
)


def _titles(page):
    return page.locator(".row .row-title").all_inner_texts()


def _write(served, *turns):
    """Turns with their scores, into the store of a server."""
    store = Store.open(Config(url=served.store_url))
    for trace, *scores in turns:
        store.commit([StoredTrace(trace, 1, "")], scores)
    store.close()


def _open_turn(page):
    page.locator(".row").first.click()
    page.wait_for_selector(".page.turn")


def test_the_first_page_has_the_metrics_that_fail_with_the_judges_reasons(show, server):
    page = show(server)
    page.wait_for_selector(".why-list")
    parts = page.locator(".reasons-part")
    named = dict(
        zip(parts.locator(".metric").all_inner_texts(), parts.all_inner_texts(), strict=True)
    )
    assert "The user asked for a departure after 10 am" in named["task_completion"]
    assert re.search(r"\d+ failing", named["task_completion"])
    assert page.title() == "Failing · spanscore"
    assert page.complaints == []


def test_a_failing_metric_has_its_pass_rate_with_n_and_an_interval(show, server):
    page = show(server)
    heading = page.locator(".reasons-part h2", has_text="task_completion")
    heading.locator(".rate-of").wait_for()  # the reasons do not wait for it
    text = heading.inner_text()
    assert re.search(
        r"[89]\d(\.\d)? % 8\d(\.\d)? % to 9\d(\.\d)? % n = \d+ scores in 100 sessions",
        " ".join(text.split()),
    )


def test_a_turn_without_a_score_says_why(show, serve):
    served = serve(evaluation={"sampling": 0}).start()
    _write(served, (turn(0, time.time_ns(), failing=False),))
    page = show(served, "#/traces")
    row = page.locator(".row").first
    row.wait_for()
    assert "left out of the sample" in row.inner_text()
    _open_turn(page)
    assert "No score: left out of the sample" in page.locator(".remarks").first.inner_text()
    assert page.complaints == []


def test_trends_have_each_metric_with_intervals_as_a_picture_and_as_a_table(show, server):
    page = show(server, "#/trends?range=24h", ready=".trend")
    card = page.locator(".trend", has_text="task_completion")
    assert card.locator(".point").count() >= 1
    card.locator("summary").click()
    row = card.locator("tbody tr").first.inner_text()
    assert re.search(r"\d+ ?% to \d", " ".join(row.split()))
    assert page.complaints == []


def test_trends_are_grouped_by_what_the_reader_chooses(show, server):
    page = show(server, "#/trends?range=24h", ready=".trend")
    page.get_by_label("Group by").select_option("service")
    names = page.locator(".trend", has_text="task_completion").locator(".line-names")
    names.locator("li", has_text="travel").wait_for()
    assert sorted(names.locator("li").all_inner_texts()) == ["shop", "travel", "weather"]
    assert "by=service" in page.url


def test_scores_of_turns_and_of_sessions_by_one_metric_stand_apart(show, serve):
    served = serve()
    now = time.time_ns() - 60 * S
    good, bad = (turn(number, now, failing=False, session_id=f"s{number}") for number in (1, 2))
    of_session = {"scope": "session", "subject_id": bad.session_key}
    _write(
        served,
        (good, score(good, "rubric.polite", 1.0, "It is polite.")),
        (
            bad,
            score(bad, "rubric.polite", 1.0, "It is polite."),
            replace(score(bad, "rubric.polite", 0.0, "The session is rude."), **of_session),
        ),
    )
    page = show(served.start())
    part = page.locator(".reasons-part", has_text="The session is rude.")
    part.locator(".rate-of").wait_for()
    words = " ".join(part.locator("h2").inner_text().split())
    assert words.startswith("rubric.polite sessions 1 failing pass 0 %")


def test_a_picture_of_a_trend_has_pass_rates_or_means_and_not_both(show, serve):
    served = serve()
    now = time.time_ns() - 60 * S
    points = [(turn(n, now - n * 86_400 * S, failing=False), n) for n in range(1, 4)]
    made = [(trace, score(trace, "mixed", 0.4, "")) for trace, _ in points]
    made[2] = made[2][0], replace(made[2][1], threshold=None)
    _write(served, *made)
    page = show(served.start(), "#/trends?range=7d", ready=".trend")
    card = page.locator(".trend", has_text="mixed")
    card.locator("summary").click()
    assert card.locator("thead th").nth(2).inner_text() == "mean"
    assert card.locator("tbody tr td:nth-child(3)").all_inner_texts() == ["0.4", "0.4", "0.4"]


def test_a_reason_leads_to_the_turn_and_the_steps_that_it_rests_on(show, server):
    page = show(server)
    page.locator(".reasons-part", has_text="task_completion").locator(".why-card").first.click()
    page.wait_for_selector(".page.turn")
    page.locator(".score.fail", has_text="task_completion").locator(".place").click()
    assert page.locator(".step.evidence .step-name").all_inner_texts() == ["book_flight"]
    assert "turn=" in page.url


def test_a_metric_of_which_the_newest_scores_have_none_shows_its_newest_reasons(show, serve):
    served = serve()
    now = time.time_ns() - 60 * S
    old = turn(1, now - 9 * S, failing=True)
    _write(served, (old, score(old, "confidence", 0.0, "It is not sure of the date.")))
    for number in range(2, 6):
        trace = turn(number, now, failing=True)
        noise = [score(trace, f"noisy.m{x}", 0.0, "Noise.") for x in range(100)]
        _write(served, (trace, *noise))
    page = show(served.start())
    part = page.locator(".reasons-part", has=page.get_by_text("confidence", exact=True))
    part.locator(".why", has_text="It is not sure of the date.").wait_for()
    assert "1 failing" in part.inner_text()


def test_a_list_says_how_many_there_are_and_in_which_order(show, large_server):
    page = show(large_server, "#/traces")
    page.locator(".found", has_text="50,000 turns, the newest first").wait_for()
    page = show(large_server, "#/failing")
    assert until(lambda: re.search(r"^\d,\d{3} turns, the", page.locator(".found").inner_text()))


def test_a_row_has_the_user_the_tokens_and_what_judging_cost(show, serve):
    served = serve()
    trace = turn(7, time.time_ns() - 60 * S, failing=False)
    usage = JudgeUsage(1, 900, 100, 0.0021)
    _write(served, (trace, replace(score(trace, "task_completion", 1.0, "Yes."), usage=usage)))
    page = show(served.start(), "#/traces")
    row = page.locator(".row").inner_text()
    assert "user user-7 · 3,361 tokens · judged for 0.002 USD" in row


@pytest.mark.parametrize("order", ["", "?order=newest"])
def test_a_session_of_one_turn_shows_its_question_and_a_longer_one_its_id(show, serve, order):
    served = serve()
    now = time.time_ns() - 60 * S
    alone = turn(1, now, failing=True, session_id="of one", user_input="Is it open?")
    two = [turn(x, now, failing=False, session_id="of two") for x in (2, 3)]
    nowhere = turn(4, now, failing=False, session_id=None, user_input="And tomorrow?")
    for trace in (alone, *two, nowhere):
        _write(served, (trace, score(trace, "task_completion", 0.0, "No.")))
    page = show(served.start(), f"#/sessions{order}")
    expected = {"Is it open?", "of two"} | (set() if order else {"And tomorrow?"})
    assert set(_titles(page)) == expected


def test_a_trend_is_by_when_turns_began_and_not_by_when_they_were_scored(show, serve):
    served = serve()
    now = time.time_ns()
    for number in (1, 2, 3):
        trace = turn(number, now - number * 86_400 * S, failing=False)
        made = score(trace, "task_completion", 1.0, "Yes.")
        _write(served, (trace, replace(made, evaluated_at_ns=now)))
    page = show(served.start(), "#/trends?range=7d", ready=".trend")
    assert page.locator(".trend .point").count() == 3


def test_a_turn_leads_to_its_trace_in_the_readers_backend(show, serve):
    served = serve(page={"trace_url": "https://traces.example.com/{trace_id}?tab=1"})
    trace = turn(1, time.time_ns() - 60 * S, failing=False)
    _write(served, (trace, score(trace, "task_completion", 1.0, "Yes.")))
    page = show(served.start(), f"#/traces?turn={trace.id}", ready=".page.turn")
    links = page.locator(".page.turn a")
    address = f"https://traces.example.com/{trace.trace_ids[0]}?tab=1"
    assert {x.get_attribute("href") for x in links.all()} == {address}
    assert [x.get_attribute("rel") for x in links.all()] == ["noreferrer"] * 2


def _saved(page, name):
    with page.expect_download() as waiting:
        page.get_by_role("button", name=name).click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_text()


def test_what_is_listed_is_saved_as_csv_in_which_no_text_is_a_formula(show, serve):
    served = serve()
    trace = turn(1, time.time_ns() - 60 * S, failing=True, user_input='=1+1, "x"')
    _write(served, (trace, score(trace, "task_completion", 0.25, "No.")))
    page = show(served.start(), "#/traces")
    name, text = _saved(page, "CSV")
    [row] = csv.DictReader(io.StringIO(text))
    assert name == "spanscore-traces.csv"
    assert (row["id"], row["input"], row["score.task_completion"]) == (
        trace.id,
        '\'=1+1, "x"',
        "0.25",
    )


def test_all_that_is_listed_is_saved_as_json_lines_and_nothing_else(show, server):
    page = show(server, "#/traces?service=shop")
    _, text = _saved(page, "JSON Lines")
    rows = [json.loads(x) for x in text.splitlines()]
    assert len(rows) == 133
    assert {x["service"] for x in rows} == {"shop"}


def test_points_of_trends_are_saved(show, server):
    page = show(server, "#/trends?range=24h", ready=".trend")
    _, text = _saved(page, "JSON Lines")
    assert {"metric", "from", "value", "n"} <= json.loads(text.splitlines()[0]).keys()


def _versions(served, *versions):
    """Twelve turns of each version, of which those of the last one fail."""
    now = time.time_ns() - 60 * S
    for number in range(12 * len(versions)):
        version = versions[number % len(versions)]
        bad = version == versions[-1]
        trace = turn(number, now, failing=bad, session_id=f"s{number}")
        target = replace(trace.target, resource={"service.version": version})
        trace = replace(trace, target=target)
        made = score(trace, "task_completion", 0.0 if bad else 1.0, "It is so.")
        runs = [
            replace(made, run=x * 32, outcome=Score(y, "")) for x, y in (("a", 0.9), ("b", 0.1))
        ]
        _write(served, (trace, made, *runs))


def test_the_last_two_versions_are_compared_unless_others_are_chosen(show, serve):
    served = serve()
    _versions(served, "1.2", "1.9", "1.10")
    page = show(served.start(), "#/compare", ready=".differences tbody tr")
    assert page.locator("h1").inner_text() == "1.10 against 1.9"
    row = page.locator(".differences tbody tr").inner_text()
    assert ("100 %" in row, "worse" in row) == (True, True)
    page.get_by_label("After").select_option("1.2")
    page.locator("h1", has_text="1.2 against 1.9").wait_for()
    page.locator(".verdict", has_text="cannot tell").wait_for()
    assert "b=1.2" in page.url
    assert page.evaluate(LOW_CONTRAST) == []
    assert page.complaints == []


def test_two_evaluation_runs_are_compared(show, serve):
    served = serve()
    _versions(served, "1")
    page = show(served.start(), f"#/compare?of=runs&a={'a' * 32}&b={'b' * 32}", ready="tbody tr")
    row = page.locator(".differences tbody tr").inner_text()
    assert "worse" in row
    assert "12 sessions in both" in row


def test_one_version_has_nothing_to_be_compared_with(show, serve):
    served = serve()
    _versions(served, "1")
    page = show(served.start(), "#/compare", ready=".all-well")
    page.locator(".all-well", has_text="Fewer than two versions are recorded").wait_for()


def test_a_metric_lists_the_turns_that_fail_in_it(show, server):
    page = show(server)
    page.locator(".reasons-part .metric button", has_text="tool_correctness").click()
    page.locator(".chip", has_text="fails in tool_correctness").wait_for()
    page.wait_for_selector(".row")
    assert all("tool_correctness" in x for x in page.locator(".row .names").all_inner_texts())


def test_an_address_opens_what_is_in_it_and_back_leads_back(show, server):
    page = show(server, "#/traces?service=shop")
    assert page.get_by_label("Any service").input_value() == "shop"
    _open_turn(page)
    address = page.url
    page.go_back()
    page.locator("h1", has_text="Choose a turn").wait_for()
    assert page.url.endswith("#/traces?service=shop")
    other = show(server, address.partition("/ui/")[2], ready=".page.turn")
    assert "shop" in other.locator(".page-head .meta").inner_text()


def test_what_is_searched_is_found(show, server):
    page = show(server, "#/traces")
    page.get_by_role("searchbox").fill("(321)")
    assert until(lambda: [x for x in _titles(page) if "(321)" in x] == _titles(page) != [])


def test_a_filter_that_cannot_be_right_says_what_to_write(show, server):
    page = show(server, "#/traces?filter=latecy%20%3E%2010s", ready=".problem:not([hidden])")
    assert "latency" in page.locator(".filters .problem").inner_text()


def test_sessions_are_listed_worst_first(show, server):
    page = show(server, "#/sessions")
    shares = [
        float(x.rpartition(" · ")[2].removesuffix(" %"))
        for x in page.locator(".row .row-facts").all_inner_texts()
    ]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0
    page.get_by_label("Order").select_option("newest")
    page.locator(".row", has_text="4 turns").first.wait_for()
    assert _titles(page)[0] == "session-99"
    assert "order=newest" in page.url


def test_a_session_has_its_turns(show, server):
    page = show(server, "#/sessions")
    page.locator(".row").first.click()
    page.wait_for_selector(".page.session")
    assert page.locator(".turn-card").count() == 4
    page.locator(".turn-card").last.click()
    page.wait_for_selector(".page.turn")
    page.locator(".page-head .link", has_text="session").click()
    page.wait_for_selector(".page.session")


def test_all_is_reached_by_keys(show, server):
    page = show(server)
    page.keyboard.press("j")
    page.wait_for_selector(".page.turn")
    first = page.locator("h1").inner_text()
    page.keyboard.press("j")
    assert until(lambda: page.locator("h1").inner_text() != first)
    page.keyboard.press("k")
    assert until(lambda: page.locator("h1").inner_text() == first)
    page.keyboard.press("Escape")
    page.locator("h1", has_text="What fails now").wait_for()
    page.keyboard.press("2")
    page.locator("h1", has_text="Choose a turn").wait_for()
    page.wait_for_selector(".row")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.press("Enter")
    page.keyboard.press("End")
    page.wait_for_selector(".page.turn")
    page.keyboard.press("?")
    assert page.locator(".help").is_visible()


def test_what_has_the_focus_is_seen_to_have_it(show, server):
    page = show(server)
    seen = set()
    for _ in range(30):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            "[document.activeElement].map(x => [x.className || x.textContent,"
            " getComputedStyle(x).outlineStyle])[0]"
        )
        seen.add(name)
        assert outline != "none" or page.evaluate("document.activeElement === document.body"), name
    assert len(seen) > 10


def test_nothing_that_a_trace_contains_is_run_or_loaded(show, serve):
    served = serve()
    now = 1_790_000_000 * S
    names = (
        "user_input final_output agent_name service_name system_instructions session_id user_id"
        " plan"
    )
    nasty = dict.fromkeys(names.split(), _NASTY)
    trace = turn(1, now, failing=True, **nasty)
    _write(served, (trace, score(trace, _NASTY, 0.0, _NASTY, {_NASTY: _NASTY, "x": [_NASTY]})))
    page = show(served.start())
    for at in (
        "#/failing",
        f"#/traces?turn={trace.id}",
        f"#/failing?search={_NASTY}&turn=<img>",
        "#/sessions",
    ):
        page.evaluate("at => { location.hash = at; }", at)
        page.wait_for_timeout(400)
        page.evaluate("document.querySelectorAll('details').forEach(x => { x.open = true; })")
    page.locator(".row").first.click()
    page.wait_for_selector(".page.session")
    assert page.title() == "Sessions · spanscore"
    assert page.locator("img, iframe, .view script, .view style, .view a").count() == 0
    assert [x for x in page.complaints if "400" not in x] == []


def test_text_that_turns_the_direction_of_writing_stays_in_its_place(show, serve):
    served = serve()
    trace = turn(
        1,
        1_790_000_000 * S,
        failing=True,
        agent_name=f"agent{_OVERRIDE}",
        service_name="plain-service",
    )
    _write(served, (trace, score(trace, "task_completion", 0.0, "It failed.")))
    page = show(served.start(), f"#/traces?turn={trace.id}", ready=".page.turn")
    isolated = page.evaluate(
        "[...document.querySelectorAll('.meta span')].every(x => getComputedStyle(x).unicodeBidi"
        " === 'isolate')"
    )
    assert isolated
    assert "plain-service" in page.locator(".meta").inner_text()


def test_fifty_thousand_turns_are_gone_through_page_by_page(show, large_server):
    page = show(large_server, "#/traces")
    asked = []
    page.on("request", lambda x: asked.append(x.url) if x.url.endswith("ListTraces") else None)
    page.locator(".scroller").focus()
    rows = page.locator(".rows")
    for _ in range(12):
        height = rows.evaluate("x => x.offsetHeight")
        page.keyboard.press("End")
        assert until(lambda height=height: rows.evaluate("x => x.offsetHeight") > height)
    assert page.locator(".row").count() < 60
    assert len(asked) <= 30
    assert int(page.locator(".row").last.get_attribute("aria-posinset")) > 1000


def test_fifty_thousand_turns_are_filtered(show, large_server):
    page = show(large_server, "#/traces?filter=user_input%3A%22(777)%22", ready=".found")
    page.locator(".found[aria-busy=false]", has_text="1 turn").wait_for(timeout=300_000)
    assert len(_titles(page)) == 1


@pytest.mark.parametrize(
    "at",
    [
        "#/failing",
        "#/traces",
        "#/sessions",
        "#/trends?range=24h",
        "#/runs?new=1",
        "#/monitors?new=1",
    ],
)
@pytest.mark.parametrize("dark", [False, True])
def test_text_has_the_contrast_that_wcag_asks_for(show, server, at, dark):
    page = show(server, at, dark=dark, ready=".row, .trend, .form")
    if at in {"#/traces", "#/sessions"}:
        page.locator(".row").first.click()
    page.wait_for_selector(".page .part, .page .tile")
    for details in page.locator("details.more-fields").all():
        details.evaluate("x => { x.open = true; }")
    assert page.evaluate(LOW_CONTRAST) == []


def test_on_a_narrow_screen_list_and_page_take_turns_and_nothing_is_cut_off(show, server):
    page = show(server, "#/traces", width=400)
    page.locator(".row").first.click()
    page.wait_for_selector(".page.turn")
    assert page.locator(".list").is_hidden()
    assert page.evaluate(
        "document.querySelector('.main').scrollWidth <= document.documentElement.clientWidth"
    )
    page.locator(".to-list").click()
    assert page.locator(".list").is_visible()


@pytest.mark.parametrize(
    ("at", "shown"), [("", ".why-card"), ("#/trends", ".trend"), ("#/annotate", ".choose .link")]
)
def test_every_view_is_shown_on_a_narrow_screen(show, server, at, shown):
    page = show(server, at, width=400, ready=shown)
    page.locator(shown).first.wait_for(state="visible")
    assert page.locator(".views a").last.bounding_box()["x"] < 400
    wider = "(x) => x.scrollWidth > x.clientWidth"
    assert not page.locator(".views").evaluate(wider)
    assert not page.evaluate(
        "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )


def test_a_table_that_is_wider_than_the_screen_is_scrolled_by_keys(show, server):
    page = show(server, "#/trends", width=400, ready=".trend")
    page.locator(".trend summary").first.click()
    table = page.locator(".trend .scrolls").first
    table.focus()
    page.keyboard.press("ArrowRight")
    while table.evaluate("x => x.scrollLeft") == 0:  # the page's policy lets no text be evaluated
        page.wait_for_timeout(20)
