"""The declarations keep to the conventions that their names follow."""

import re
from pathlib import Path

from spanscore.telemetry.declared import METRICS
from spanscore.telemetry.formats import name

SOURCE = Path(__file__).parents[2] / "src" / "spanscore"
CODE = "\n".join(x.read_text() for x in SOURCE.rglob("*.py") if x.name != "declared.py")
ADDED = ("_total", "_seconds", "_bytes", "_count", "_sum", "_bucket")
CONSTANTS = re.findall(
    r"^([A-Z_]+) = _", (SOURCE / "telemetry/declared.py").read_text(), re.MULTILINE
)


def test_no_two_have_the_same_name():
    assert len({x.name for x in METRICS}) == len(METRICS)


def test_a_name_is_lower_case_words_with_a_prefix():
    assert [x.name for x in METRICS if not re.fullmatch(r"spanscore(_[a-z]+)+", x.name)] == []


def test_what_prometheus_adds_is_not_in_the_name_already():
    assert [x.name for x in METRICS if x.name.endswith(ADDED)] == []


def test_a_unit_is_one_that_is_known():
    assert [x.name for x in METRICS if not re.fullmatch(r"s|By|\{\w+\}|", x.unit)] == []


def test_the_help_is_a_sentence():
    assert [x.name for x in METRICS if not re.fullmatch(r"[A-Z].*\.", x.about)] == []


def test_only_a_histogram_has_bounds():
    assert [x.name for x in METRICS if bool(x.bounds) != (x.kind == "histogram")] == []


def test_what_is_declared_is_counted_somewhere():
    assert [x for x in CONSTANTS if f"declared.{x}" not in CODE] == []


def test_a_counter_ends_in_total_and_a_unit_is_spelled_out():
    assert {"spanscore_process_uptime_seconds_total", "spanscore_journal_size_bytes"} <= {
        name(x) for x in METRICS
    }
