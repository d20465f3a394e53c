"""The annotation queue in a real browser: labels by keys, saved at once."""

import re

import pytest
from contrast import LOW_CONTRAST
from filled_store import fill
from harness.browser import until

pytestmark = pytest.mark.browser

_AT = "#/annotate?metric=task_completion"


@pytest.fixture
def served(serve):
    """A server with some turns."""
    made = serve()
    fill(made.store_url, 30)
    return made.start()


@pytest.fixture
def annotate(show):
    """Opens the queue as a person of a name."""

    def annotate(served, at=_AT):
        page = show(served, at, ready=".choose, .page")
        page.get_by_label("Your name").fill("ann")
        page.keyboard.press("Enter")
        page.locator(".wide-filters").click(position={"x": 5, "y": 5})
        page.wait_for_selector(".label-bar:not([hidden])")
        return page

    return annotate


def _labels(served):
    found = served.ask("ScoreService/ListScores", source="human").get("scores", [])
    return [(x["evaluator"]["author"], x["metric"], x["label"], x.get("reason", "")) for x in found]


def _title(page):
    return page.locator(".page-head h1").inner_text()


def _said(page, text):
    page.locator(".said", has_text=text).wait_for()


def test_a_key_labels_what_is_shown_and_the_next_one_comes(annotate, served):
    page = annotate(served)
    first = _title(page)
    page.keyboard.press("y")
    _said(page, "pass is saved. The judge:")
    assert until(lambda: _title(page) != first)
    page.keyboard.press("2")
    _said(page, "fail is saved")
    assert sorted(x[:3] for x in _labels(served)) == [
        ("ann", "task_completion", "fail"),
        ("ann", "task_completion", "pass"),
    ]
    assert page.complaints == []


def test_what_the_judge_found_is_hidden_until_the_label_is_given(annotate, served):
    page = annotate(served)
    assert page.locator(".score, .main .state").count() == 0
    assert "The judge" not in page.locator(".label-bar").inner_text()


def test_a_comment_is_saved_with_the_label(annotate, served):
    page = annotate(served)
    page.keyboard.press("c")
    page.keyboard.type("yes, but slow")
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    _said(page, "pass is saved")
    assert _labels(served) == [("ann", "task_completion", "pass", "yes, but slow")]


def test_the_last_label_is_taken_back(annotate, served):
    page = annotate(served)
    first = _title(page)
    page.keyboard.press("n")
    _said(page, "fail is saved")
    page.keyboard.press("u")
    _said(page, "fail is taken back")
    assert until(lambda: _title(page) == first)
    assert _labels(served) == []


def test_what_is_skipped_is_not_asked_again(annotate, served):
    page = annotate(served)
    first = _title(page)
    page.keyboard.press("s")
    _said(page, "Skipped")
    page.reload()
    page.wait_for_selector(".label-bar:not([hidden])")
    assert _title(page) != first
    assert _labels(served) == []


def test_a_label_that_cannot_be_saved_is_kept_and_tried_again(annotate, served):
    page = annotate(served)
    first = _title(page)
    served.stop()
    page.keyboard.press("y")
    page.locator(".label-bar .problem", has_text="is not saved; press 1 to try again").wait_for()
    assert _title(page) == first
    assert page.locator("[data-label=pass]").get_attribute("aria-pressed") == "true"
    served.start()
    page.keyboard.press("1")
    _said(page, "pass is saved")
    assert len(_labels(served)) == 1


def test_a_metric_is_chosen_of_those_that_have_scores(show, served):
    page = show(served, "#/annotate", ready=".choose")
    page.get_by_role("button", name="tool_correctness").click()
    assert "metric=tool_correctness" in page.url


def test_what_is_taken_for_one_metric_is_not_labelled_for_another(show, served):
    page = show(served, _AT, ready=".choose")
    slow = []

    def lease(route):
        if route.request.post_data_json["queue"]["metric"] == "task_completion":
            slow.append(route)
        else:
            route.continue_()

    page.route("**/*LeaseAnnotationItems", lease)
    page.get_by_label("Your name").fill("ann")
    page.keyboard.press("Enter")
    assert until(lambda: slow or page.wait_for_timeout(20))
    page.evaluate("location.hash = '#/annotate?metric=tool_correctness'")
    page.wait_for_selector(".label-bar:not([hidden])")
    with page.expect_response("**/*LeaseAnnotationItems"):
        slow[0].fulfill(
            json={"items": [{"subjectId": "of-another-metric", "scope": "SCOPE_TRACE"}]}
        )
    first = _title(page)
    page.locator(".main").click()
    page.keyboard.press("y")
    assert until(lambda: page.locator(".main h1").inner_text() != first)
    assert page.locator(".page.turn").count() == 1


def test_the_label_of_another_metric_is_not_taken_back(annotate, served):
    page = annotate(served)
    page.keyboard.press("y")
    _said(page, "pass is saved")
    page.evaluate("location.hash = '#/annotate?metric=tool_correctness'")
    page.locator(".wide-filters [role=status]", has_text=re.compile("^$")).wait_for(
        state="attached"
    )
    page.wait_for_selector(".label-bar:not([hidden])")
    page.keyboard.press("u")
    _said(page, "There is nothing to take back")
    assert [x[1] for x in _labels(served)] == ["task_completion"]


def test_keys_label_nothing_until_the_next_one_is_shown(annotate, served):
    page = annotate(served)
    slow = []
    page.route("**/*GetTraceView", lambda route: slow.append(route), times=1)  # noqa: PLW0108 - Playwright looks into it
    page.keyboard.press("y")
    assert until(lambda: slow or page.wait_for_timeout(20))
    page.keyboard.press("n")
    slow[0].continue_()
    _said(page, "pass is saved")
    page.keyboard.press("s")
    _said(page, "Skipped.")
    assert [x[2] for x in _labels(served)] == ["pass"]


def test_nothing_is_said_of_the_last_label_while_the_next_is_being_saved(annotate, served):
    page = annotate(served)
    page.keyboard.press("y")
    _said(page, "pass is saved")
    slow = []
    page.route("**/*CreateScore", lambda route: slow.append(route), times=1)  # noqa: PLW0108 - Playwright looks into it
    page.keyboard.press("y")
    assert until(lambda: slow or page.wait_for_timeout(20))
    assert page.locator(".said").text_content() == ""
    slow[0].continue_()
    _said(page, "pass is saved")


def test_a_label_whose_answer_is_lost_is_saved_with_the_comment_as_it_is_now(annotate, served):
    page = annotate(served)

    def lose(route):
        route.fetch()
        route.fulfill(status=503, json={"code": "unavailable", "message": "It is lost."})

    page.route("**/*CreateScore", lose, times=1)
    page.keyboard.press("y")
    page.locator(".label-bar .problem", has_text="is not saved; press 1 to try again").wait_for()
    page.keyboard.press("c")
    page.keyboard.type("but slow")
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    _said(page, "pass is saved")
    assert ("ann", "task_completion", "pass", "but slow") in _labels(served)


def test_why_the_metrics_cannot_be_read_is_shown(show, served):
    page = show(served, "#/failing")
    error = {"code": "internal", "message": "The figures cannot be read."}
    page.route("**/*SummarizeScores", lambda route: route.fulfill(status=500, json=error))
    page.keyboard.press("r")
    page.locator(".failing-page .problem", has_text="The figures cannot be read.").wait_for()
    page.evaluate("location.hash = '#/annotate'")
    page.locator(".annotate .main", has_text="The figures cannot be read.").wait_for()


def test_agreement_with_the_judge_grows_with_the_labels(annotate, served):
    page = annotate(served)
    page.locator(".agreed", has_text="there are no labels yet").wait_for()
    for number in range(6):
        page.keyboard.press("y")
        page.locator(".agreed", has_text=f"n = {number + 1} label").wait_for()
        _said(page, "pass is saved")
    (judge,) = served.ask("AnnotationService/GetAgreement", metric="task_completion")["judges"]
    agreement = next(x for x in judge["atRandom"]["measures"] if x["name"] == "agreement")
    text = page.locator(".agreed").inner_text()
    assert f"{100 * agreement['value']:.1f}".removesuffix(".0") in text
    assert re.search(r"\(\d+(\.\d)? % to \d+(\.\d)? %\), n = 6 labels in \d+ session", text)
    page.locator(".agreed summary").click()
    assert page.locator(".agreed svg .line").count() == 1
    assert page.locator(".agreed-table tbody tr").count() == 6
    page.keyboard.press("u")
    page.locator(".agreed", has_text="n = 5 labels").wait_for()
    assert page.complaints == []


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_the_contrast_that_wcag_asks_for(show, served, dark):
    page = show(served, _AT, ready=".choose, .page", dark=dark)
    page.get_by_label("Your name").fill("ann")
    page.keyboard.press("Enter")
    page.locator(".wide-filters").click(position={"x": 5, "y": 5})
    page.wait_for_selector(".label-bar:not([hidden])")
    page.keyboard.press("y")
    _said(page, "pass is saved")
    page.locator(".agreed summary").click()
    assert page.evaluate(LOW_CONTRAST) == []
