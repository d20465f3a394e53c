"""A real Chromium, without a network, that opens reports from disk."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from spanscore import report

_WAIT_MS = 60_000


@pytest.fixture
def show(browser, tmp_path):
    """Writes a report and opens it; the page has `complaints`, what its console and its requests
    were about.
    """
    pages = []

    def show(
        traces=(),
        scores=(),
        *,
        at="",
        width=1400,
        dark=False,
        comparison=None,
        baseline=None,
        **facts,
    ):
        path = tmp_path / f"report-{len(pages)}.html"
        results = report.Results(**{"name": "a run", **facts}, traces=traces, scores=scores)
        report.save(path, results, comparison=comparison, baseline=baseline)
        page = browser.open("about:blank", width=width, height=900)
        page.emulate_media(color_scheme="dark" if dark else "light", reduced_motion="reduce")
        page.set_default_timeout(_WAIT_MS)
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (page.complaints.append("a dialog"), dialog.dismiss()))
        page.on(
            "request",
            lambda request: (
                page.complaints.append(request.url) if request.url[:5] == "http:" else None
            ),
        )
        page.goto(f"{path.as_uri()}{at}")
        page.wait_for_selector(".page")
        pages.append(page)
        return page

    yield show
    for page in pages:
        page.close()
