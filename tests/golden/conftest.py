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
    """Gives the difference between a case's file and what is rebuilt; with `--write-golden` writes
    it into the file instead.
    """

    def hold(case, file, text):
        expected = file.read_text(encoding="utf-8") if file.exists() else ""
        if text == expected:
            return ""
        difference = "\n".join(
            difflib.unified_diff(
                expected.splitlines(), text.splitlines(), "before", "after", n=2, lineterm=""
            )
        )
        if not request.config.getoption("--write-golden", default=False):
            return f"{difference}\nif it is meant: pytest tests/golden -k {case} --write-golden"
        file.write_text(text, encoding="utf-8")
        record_property(_CHANGED, f"{case}\n{difference}")
        return ""

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
