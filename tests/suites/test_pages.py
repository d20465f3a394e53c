"""What the pages show of suites is true: examples are accepted, and every key is there."""

import dataclasses
import re
from pathlib import Path

import pytest

from spanscore import suites
from spanscore.metrics.session.agentic import Agentic
from spanscore.suites.suite import Case, ExpectedTool, Suite, Turn

_DOCS = Path(__file__).parents[2] / "docs"
_SUITES = (_DOCS / "suites.md").read_text(encoding="utf-8")
_AGENTIC = (_DOCS / "agentic.md").read_text(encoding="utf-8")


def test_the_shown_suites_are_accepted():
    shown = re.findall(r"```yaml suite\n(.*?)```", _SUITES, re.DOTALL)
    assert [suites.parse(x).name for x in shown] == ["travel-assistant", "failed"]


@pytest.mark.parametrize("model", [Suite, Case, Turn, ExpectedTool])
def test_every_key_of_a_suite_is_documented(model):
    assert [x for x in model.model_fields if f"`{x}`" not in _SUITES] == []


def test_every_option_of_agentic_is_documented():
    assert [x.name for x in dataclasses.fields(Agentic) if f"| `{x.name}` |" not in _AGENTIC] == []


def test_every_key_of_a_run_file_is_documented(suite, said, run_of):
    content = suites.to_json(run_of(suite("a"), [said(1, case="a")]))
    [case] = content["cases"]
    keys = {*content, *content["overall"], *case, *case["trials"][0]}
    assert [
        x
        for x in sorted(keys)
        if f"`{x}`" not in _SUITES and not x.endswith(("_ci_low", "_ci_high"))
    ] == []
