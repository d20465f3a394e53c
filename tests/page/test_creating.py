"""Runs and monitors are created in a real browser, by the keyboard, for those who may write."""

import pytest
from contrast import LOW_CONTRAST
from filled_store import fill

pytestmark = pytest.mark.browser

_TURNS = 40


@pytest.fixture
def served(serve):
    """A server with some turns."""
    made = serve()
    fill(made.store_url, _TURNS)
    return made.start()


@pytest.fixture
def new_run(show, served):
    """Opens the form of a new run."""
    page = show(served, "#/runs?new=1", ready=".form")
    page.get_by_label("check.errors_recovered").wait_for()
    return page


def _estimate(page):
    page.get_by_role("button", name="What does it cost?").click()
    page.get_by_role("button", name="Start the run").wait_for(timeout=15_000)


def test_a_run_is_created_by_keys_after_its_cost_was_shown(show, served):
    page = show(served, "#/runs")
    page.keyboard.press("a")
    page.get_by_label("check.errors_recovered").focus()
    page.keyboard.press("Space")
    page.get_by_label("Name").focus()
    page.keyboard.type("by keys")
    assert page.get_by_role("button", name="Start the run").count() == 0
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Start the run").wait_for(timeout=15_000)
    assert f"{_TURNS}\nof {_TURNS}" in page.locator(".form .tiles").inner_text()
    page.keyboard.press("Enter")
    page.locator(".page.run .page-head", has_text="done").wait_for()
    (run,) = served.ask("RunService/ListRuns")["runs"]
    assert (run["displayName"], run["measure"]["metrics"]) == (
        "by keys",
        ["check.errors_recovered"],
    )
    page.locator(".row", has_text="by keys").wait_for()
    assert page.complaints == []


def test_a_field_without_a_control_of_its_own_is_among_the_others(new_run, served):
    new_run.get_by_text("All other fields").click()
    new_run.get_by_label("Min tokens").fill("1")
    new_run.get_by_label("Has error").select_option("false")
    _estimate(new_run)
    new_run.get_by_role("button", name="Start the run").click()
    new_run.wait_for_selector(".page.run")
    (run,) = served.ask("RunService/ListRuns")["runs"]
    assert run["target"]["filter"] == {"minTokens": "1", "hasError": False}
    assert new_run.complaints == []


def test_a_run_has_the_filter_the_sample_and_the_model_that_were_typed(show, serve):
    served = serve(judge={"model": "gpt-4o", "api_base": "http://127.0.0.1:9"})
    fill(served.store_url, _TURNS)
    page = show(served.start(), "#/runs?new=1", ready=".form")
    page.get_by_label("Service", exact=True).fill("shop")
    page.get_by_label("Filter").fill("tool_calls >= 1")
    page.get_by_label("Sample").select_option("share")
    page.get_by_label("Per cent").fill("50")
    page.get_by_label("Seed").fill("7")
    page.get_by_label("Other metrics").fill("task_completion, check.errors_recovered")
    page.get_by_label("Model").fill("gpt-4o-mini")
    page.get_by_text("Ids, thresholds").click()
    page.get_by_label("Thresholds").fill("task_completion=0.8")
    page.get_by_label("At most USD").fill("0.5")
    _estimate(page)
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_selector(".page.run")
    (run,) = served.ask("RunService/ListRuns")["runs"]
    assert run["target"]["filter"] == {"service": "shop"}
    assert run["target"]["where"] == "tool_calls >= 1"
    assert run["target"]["sampling"] == {"share": 0.5, "seed": "7"}
    assert run["measure"]["metrics"] == ["task_completion", "check.errors_recovered"]
    assert run["measure"]["model"] == "gpt-4o-mini"
    assert run["measure"]["thresholds"] == {"task_completion": 0.8}
    assert run["budget"] == {"maxUsd": 0.5}


def test_what_was_changed_is_estimated_again_before_it_is_started(new_run):
    page = new_run
    _estimate(page)
    page.get_by_label("Service", exact=True).fill("shop")
    assert page.get_by_role("button", name="Start the run").count() == 0
    assert page.locator(".form .tiles").count() == 0


def test_a_run_that_is_started_twice_is_made_once(new_run, served):
    page = new_run
    _estimate(page)

    def lose(route):
        route.fetch()
        route.fulfill(status=503, json={"code": "unavailable", "message": "It is lost."})

    page.route("**/*CreateRun", lose, times=1)
    page.get_by_role("button", name="Start the run").click()
    page.locator(".form .problem", has_text="It is not started: It is lost.").wait_for()
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_selector(".page.run")
    assert len(served.ask("RunService/ListRuns")["runs"]) == 1


@pytest.mark.parametrize(
    ("label", "text", "problem"),
    [("Filter", "color = red", "color"), ("Other metrics", "task_completio", "task_completion")],
)
def test_what_is_wrong_with_a_run_is_shown_and_nothing_is_made(
    new_run, served, label, text, problem
):
    page = new_run
    page.get_by_label(label).fill(text)
    page.get_by_role("button", name="What does it cost?").click()
    page.locator(".form .problem", has_text=problem).wait_for()
    assert page.get_by_label(label).input_value() == text
    assert served.ask("RunService/ListRuns") == {}


def test_what_was_typed_stays_while_another_view_is_open(new_run):
    page = new_run
    page.get_by_label("Name").fill("half done")
    page.get_by_role("link", name="Turns").click()
    page.wait_for_selector(".row")
    page.go_back()
    assert page.get_by_label("Name").input_value() == "half done"


def test_a_monitor_that_watches_a_metric_is_created(show, served):
    page = show(served, "#/monitors")
    page.get_by_role("link", name="New monitor").click()
    page.get_by_label("Metric", exact=True).fill("task_completion")
    page.get_by_label("Figure").select_option("pass_rate")
    page.get_by_label("Held against").select_option("floor")
    page.get_by_label("Limit").fill("0.8")
    page.get_by_label("Number").fill("5")
    page.get_by_label("Name").fill("falls")
    page.keyboard.press("Enter")
    page.locator(".page.monitor", has_text="the pass rate of task_completion").wait_for()
    page.locator(".row", has_text="falls").wait_for()
    (monitor,) = served.ask("MonitorService/ListMonitors")["monitors"]
    assert monitor["schedule"]["everyS"] == 300
    assert (monitor["watch"]["floor"], monitor["watch"]["of"]) == (0.8, "pass_rate")
    assert "run" not in monitor
    assert page.complaints == []


def test_a_monitor_that_starts_runs_is_created(show, served):
    page = show(served, "#/monitors?new=1", ready=".form")
    page.get_by_label("Kind").select_option("run")
    page.get_by_label("check.errors_recovered").check()
    page.get_by_label("About").select_option("everything")
    page.get_by_label("When", exact=True).select_option("yes")
    page.get_by_label("Ticks").select_option("cron")
    page.get_by_label("Cron").fill("0 6 * * mon")
    page.get_by_label("Time zone").fill("Europe/Berlin")
    page.get_by_role("button", name="Create the monitor").click()
    page.wait_for_selector(".page.monitor")
    page.get_by_role("button", name="Look now").click()
    page.locator(".ticks tbody tr", has_text="asked for").wait_for()
    (monitor,) = served.ask("MonitorService/ListMonitors")["monitors"]
    schedule = monitor["schedule"]
    assert (schedule["cron"], schedule["timeZone"]) == ("0 6 * * mon", "Europe/Berlin")
    assert monitor["run"]["measure"] == {"metrics": ["check.errors_recovered"]}
    assert monitor["run"]["everything"] is True
    assert "watch" not in monitor


def test_what_is_wrong_with_a_monitor_is_shown_and_nothing_is_made(show, served):
    page = show(served, "#/monitors?new=1", ready=".form")
    page.get_by_label("Metric", exact=True).fill("task_completion")
    page.get_by_label("Ticks").select_option("cron")
    page.get_by_label("Cron").fill("99 * * * *")
    page.get_by_role("button", name="Create the monitor").click()
    page.locator(".form .problem", has_text="cron").wait_for()
    assert served.ask("MonitorService/ListMonitors") == {}


@pytest.mark.parametrize("view", ["runs", "monitors"])
def test_who_may_not_write_sees_no_form(show, guarded, view):
    page = show(guarded, f"#/{view}?new=1")
    page.get_by_label("Token").fill("reader")
    page.keyboard.press("Enter")
    page.locator(".main", has_text="needs the scope write").wait_for()
    assert page.locator("form, .create").count() == 0
    page.keyboard.press("a")
    assert page.locator("form").count() == 0


@pytest.mark.parametrize("dark", [False, True])
def test_runs_and_monitors_have_the_contrast_that_wcag_asks_for(show, served, dark):
    run = {"displayName": "mine", "measure": {"metrics": ["check.errors_recovered"]}}
    served.ask("RunService/CreateRun", run=run)
    watch = {"metric": "task_completion", "floor": 0.8}
    served.ask("MonitorService/CreateMonitor", monitor={"displayName": "mine", "watch": watch})
    for view, ready in (("runs", ".page.run .tiles"), ("monitors", ".page.monitor .facts")):
        page = show(served, f"#/{view}", dark=dark, ready=".row")
        page.locator(".row").first.click()
        page.wait_for_selector(ready)
        assert page.evaluate(LOW_CONTRAST) == []


@pytest.mark.parametrize("dark", [False, True])
def test_an_estimate_has_the_contrast_that_wcag_asks_for(show, served, dark):
    page = show(served, "#/runs?new=1", dark=dark, ready=".form")
    _estimate(page)
    assert page.evaluate(LOW_CONTRAST) == []
