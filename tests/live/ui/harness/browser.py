"""Headless Chromium, Debian's, driven by Playwright: what a person would see of a page, and
pictures of it.
"""

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.installed import packages
from spanscore.errors import SpanscoreError

_TIMEOUT_MS = 120_000
_LOOK_MS = 120_000
_SETTLE_MS = 1500


class Browser:
    """Chromium, started when the first page is opened: a tool without pages needs none."""

    def __init__(self) -> None:
        self._playwright: Any = None
        self._chromium: Any = None

    def open(self, url: str, *, width: int = 1500, height: int = 820, before: str = "") -> Any:
        """A new page (`playwright.sync_api.Page`) at `url`, on which the script `before` runs
        before its own.
        """
        if self._chromium is None:
            self._start()
        page = self._chromium.new_page(viewport={"width": width, "height": height})
        page.set_default_timeout(_TIMEOUT_MS)
        if before:
            page.add_init_script(before)
        page.goto(url)
        return page

    def close(self) -> None:
        """End it."""
        if self._chromium is not None:
            self._chromium.close()
            self._playwright.stop()

    def _start(self) -> None:
        program = chromium()
        sys.path.append(str(packages("playwright")))
        from playwright.sync_api import sync_playwright

        self._playwright = sync_playwright().start()
        self._chromium = self._playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"]
        )


def chromium() -> str:
    """Where it is. Raises SpanscoreError where it is not installed."""
    program = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if program is None:
        raise SpanscoreError(
            "no Chromium to look with: install it (on Debian `apt-get install chromium`), then"
            " again"
        )
    return program


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser while the block runs.

    Raises SpanscoreError when a page does not do what it was asked to.
    """
    opened = Browser()
    try:
        yield opened
    except Exception as error:
        if not type(error).__module__.startswith("playwright"):
            raise
        raise SpanscoreError(
            f"a page is not as expected: {' '.join(str(error).split())[:500]}"
        ) from error
    finally:
        opened.close()


def sees(inside: Any, text: str | re.Pattern[str]) -> bool:
    """Whether `text` is to be seen, as all that a part says, `inside` a page or a part of it; waits
    for it.
    """
    from playwright.sync_api import TimeoutError as NotInTimeError

    try:
        inside.get_by_text(text, exact=True).filter(visible=True).first.wait_for(timeout=_LOOK_MS)
    except NotInTimeError:
        return False
    return True


def until(holds: Callable[[], bool]) -> bool:
    """Whether `holds` comes true while a page loads."""
    deadline_s = time.monotonic() + _LOOK_MS / 1000
    while not holds():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.2)
    return True


def picture(page: Any, path: Path, **clip: float) -> None:
    """Save what `page` shows once it has settled, or the part of it in `clip` (x, y, width, height
    in pixels).
    """
    page.wait_for_timeout(_SETTLE_MS)
    path.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=path, **({"clip": clip} if clip else {}))
