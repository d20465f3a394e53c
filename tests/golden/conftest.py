"""The switch that writes the golden files anew, `pytest tests/golden --write-golden`, and prints
what that changed.
"""

import difflib

import pytest

_CHANGED = "golden case written anew"


def pytest_addoption(parser):
    parser.addoption(
        "--write-golden",
        action="store_true",
        help="write what is rebuilt now, and print the difference",
    )


@pytest.fixture
def hold(request, record_property):
    """Compares a case's text with its file; with `--write-golden` writes the file instead, and
    skips the test.
    """

    def hold(case, file, text):
        expected = file.read_text(encoding="utf-8") if file.exists() else ""
        if not request.config.getoption("--write-golden", default=False):
            assert text == expected, f"if it is meant: pytest tests/golden -k {case} --write-golden"
            return
        if text != expected:
            file.write_text(text, encoding="utf-8")
            lines = difflib.unified_diff(
                expected.splitlines(), text.splitlines(), "before", "after", n=2, lineterm=""
            )
            record_property(_CHANGED, "\n".join((case, *lines)))
        pytest.skip("written" if text != expected else "as it was")

    return hold


def pytest_terminal_summary(terminalreporter):
    """Print the differences; properties of reports come from the processes of xdist too."""
    reports = [
        x
        for reports in terminalreporter.stats.values()
        for x in reports
        if hasattr(x, "user_properties")
    ]
    changed = {
        text for report in reports for name, text in report.user_properties if name == _CHANGED
    }
    for text in sorted(changed):
        case, _, difference = text.partition("\n")
        terminalreporter.section(f"{case} was written anew")
        terminalreporter.write_line(difference)
    if terminalreporter.config.getoption("--write-golden"):
        terminalreporter.write_line(f"golden cases that changed: {len(changed)}")
