"""The page beside a server that goes on: what is new, runs, tokens, and a server that does not
answer.
"""

import pytest
from harness.browser import until

pytestmark = pytest.mark.browser


def _worked(bar):
    """How many are worked off, by a progress bar."""
    return int(bar.get_attribute("aria-valuenow"))


def _enter(page, token):
    page.get_by_label("Token").fill(token)
    page.keyboard.press("Enter")


def test_where_nothing_is_stored_the_page_says_what_to_do(show, serve):
    page = show(serve().start(), "#/traces")
    page.locator(".nothing", has_text="Nothing is stored yet").wait_for()
    assert "4317" not in page.locator(".nothing").inner_text()
    page.keyboard.press("1")
    page.locator(".nothing", has_text="No turn fails").wait_for()
    page.locator(".all-well", has_text="Nothing is stored yet").wait_for()
    page.get_by_role("link", name="Runs").click()
    page.locator(".nothing", has_text="spanscore runs create").wait_for()


def test_where_nothing_is_scored_the_page_says_why(show, serve):
    served = serve(
        evaluation={"default_metrics": False, "metrics": {"task_completion": {}}}
    ).start()
    served.send_turn("a question", 1)
    page = show(served)
    assert until(
        lambda: page.keyboard.press("r") or "no_judge" in page.locator(".all-well").inner_text()
    )
    assert "No turn of these has a score" in page.locator(".all-well").inner_text()


def test_without_a_judge_the_page_says_how_to_get_one(show, serve):
    page = show(serve().start())
    assert "SPANSCORE_JUDGE_MODEL" in page.locator(".remarks").inner_text()


def test_what_is_new_comes_by_itself_and_moves_nothing(show, serve):
    served = serve().start()
    for number in range(40):
        served.send_turn(f"question {number}", number)
    page = show(served, "#/traces")
    assert until(
        lambda: page.keyboard.press("r") or "40 turns" in page.locator(".found").inner_text()
    )
    page.keyboard.press("j")
    page.wait_for_selector(".page.turn")
    page.locator(".scroller").focus()
    page.evaluate("document.querySelector('.scroller').scrollTop = 620")
    page.evaluate("document.querySelector('.main').dataset.same = 'yes'")
    top = page.evaluate("document.elementFromPoint(100, 400).closest('.row').dataset.key")
    served.send_turn("a new question", 40)
    page.locator(".found", has_text="41 turns").wait_for()
    assert page.evaluate("document.elementFromPoint(100, 400).closest('.row').dataset.key") == top
    assert page.evaluate("document.activeElement.className") == "scroller"
    assert page.locator(".main[data-same] .page.turn").count() == 1


def test_a_server_that_does_not_answer_leaves_what_was_read_with_its_time(show, serve):
    served = serve().start()
    served.send_turn("a question", 1)
    page = show(served, "#/traces")
    page.wait_for_selector(".row")
    served.stop()
    page.keyboard.press("r")
    page.locator(".notice", has_text="does not answer").wait_for()
    assert "UTC" in page.locator(".notice").inner_text()
    assert page.locator(".row").count() == 1
    served.start()
    page.keyboard.press("r")
    page.locator(".notice").wait_for(state="hidden")


def test_a_token_is_asked_for_once(show, guarded):
    page = show(guarded, "#/traces")
    _enter(page, "wrong")
    page.locator(".problem", has_text="This token is not known here").wait_for()
    _enter(page, "reader")
    page.wait_for_selector(".nothing")
    assert page.url.endswith("#/traces")
    page.reload()
    page.wait_for_selector(".nothing")
    assert page.evaluate("localStorage.length") == 0
    page.get_by_role("button", name="Forget token").click()
    page.get_by_label("Token").wait_for()


def test_where_there_are_tenants_the_reader_may_name_one(show, serve):
    served = serve(tenancy={"enabled": True}).start()
    page = show(served, "#/traces")
    page.get_by_label("Tenant").fill("acme")
    page.keyboard.press("Enter")
    page.locator(".nothing", has_text="Nothing is stored yet").wait_for()
    assert page.locator(".top .tag").inner_text() == "acme"


def test_a_token_that_may_not_read_is_refused_with_the_reason(show, guarded):
    page = show(guarded)
    _enter(page, "sender")
    page.locator(".problem", has_text="needs read").wait_for()


def test_who_may_not_write_sees_runs_and_why_nothing_can_be_done_with_them(show, guarded):
    guarded.ask("RunService/CreateRun", "writer", run={"displayName": "mine"})
    page = show(guarded, "#/runs")
    _enter(page, "reader")
    page.locator(".row", has_text="mine").click()
    button = page.locator(".action-row button").first
    button.click(force=True)
    assert button.get_attribute("aria-disabled") == "true"
    assert "needs the scope write" in page.locator(".actions").inner_text()


def test_a_run_is_followed_paused_resumed_and_cancelled(show, large_server):
    run = {"displayName": "all of it", "measure": {"metrics": ["check.errors_recovered"]}}
    large_server.ask("RunService/CreateRun", run=run)
    page = show(large_server, "#/runs")
    page.keyboard.press("j")
    bar = page.get_by_role("progressbar")
    assert until(lambda: _worked(bar) > 0)
    before = _worked(bar)
    assert until(lambda: _worked(bar) > before)
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").wait_for()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Pause").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.locator(".page-head", has_text="cancelled").wait_for()
    assert page.get_by_role("button", name="Delete").is_visible()
    assert page.complaints == []


def test_a_monitor_is_triggered_paused_and_resumed(show, serve):
    served = serve().start()
    page = show(served, "#/monitors")
    page.locator(".nothing", has_text="spanscore monitors create").wait_for()
    watch = {"metric": "task_completion", "floor": 0.8}
    served.ask(
        "MonitorService/CreateMonitor",
        monitor={"displayName": "mine", "watch": watch, "schedule": {"everyS": 3600}},
    )
    page.keyboard.press("r")
    page.locator(".row", has_text="mine").click()
    page.locator(".page.monitor", has_text="task_completion").wait_for()
    page.get_by_role("button", name="Look now").click()
    page.locator(".ticks tbody tr", has_text="asked for").wait_for()
    page.get_by_role("button", name="Pause").click()
    page.locator(".page-head", has_text="paused").wait_for()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Pause").wait_for()
    assert page.complaints == []
