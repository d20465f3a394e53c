"""What `check_dialect` accepts, and what it finds wrong."""

import json
import re
from pathlib import Path

import pytest

import spanscore
from spanscore import dialects, testing
from spanscore.dialects.reading import Dialect, messages, text
from spanscore.dialects.registry import own_dialects

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/add-a-dialect.md").read_text(encoding="utf-8")
GOLDEN = ROOT / "tests/golden"
FACTS = {"user_input": "Is 00042 in stock?", "final_output": "No, there are none."}


@pytest.fixture
def recorded():
    return json.loads(re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)[1])


@pytest.fixture
def parley():
    """The dialect that the page builds."""
    made = {"__name__": "parley_spanscore"}
    exec(re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1], made)  # noqa: S102 - the page is the project's
    return made["DIALECT"]


@pytest.mark.parametrize("dialect", own_dialects(), ids=lambda x: x.name)
def test_the_projects_own_dialects_pass(dialect):
    case = min(x for x in (GOLDEN / dialect.name).iterdir() if x.is_dir())
    testing.check_dialect(dialect, spanscore.load(case.glob("*.pb.gz")))


def test_the_pages_dialect_passes(parley, recorded):
    [trace] = testing.check_dialect(parley, recorded, [FACTS])
    assert trace.tool_calls[0].name == "stock_level"


def test_telemetry_may_be_a_file(parley, recorded, tmp_path):
    path = tmp_path / "spans.json"
    path.write_text(json.dumps(recorded))
    assert len(testing.check_dialect(parley, path)) == 1


def test_afterwards_the_dialect_is_not_installed(parley, recorded):
    before = dialects.all_dialects()
    testing.check_dialect(parley, recorded)
    assert before == dialects.all_dialects()


def test_what_is_expected_and_not_read_is_told(parley, recorded):
    with pytest.raises(AssertionError, match="agent trace 1: user_input is 'Is 00042 in stock\\?' where 'Hello' is"):
        testing.check_dialect(parley, recorded, [{"user_input": "Hello"}])


def of(read, **facts):
    return Dialect("parley", read, **{"scopes": ("parley.tracing",), "prefilters": (b"parley.",), **facts})


def raising(span, _context):
    return {"kind": "model", "input": messages(span.attributes["parley.request"]).messages}


def strange(span, _context):
    return {"kind": span.attributes.get("parley.kind")}


def loose(span, _context):
    return {"kind": "tool", "tool_name": span.attributes.get("parley.agent")}


def invented(span, _context):
    return {"kind": "model", "input": messages([{"role": "user", "content": span.name}]).messages, "output": ()}


def misspelt(_span, _context):
    return {"kind": "model", "inputs": ()}


def plain(span, _context):
    return {"kind": "agent", "agent_name": text(span.attributes.get("parley.agent"))}


@pytest.mark.parametrize(
    ("dialect", "what"),
    [
        (of(plain, scopes=("parley.elsewhere",)), "it claims none of these spans"),
        (of(plain, prefilters=(b"barley",)), "no prefilter is in span 'run'"),
        (of(raising), "span 'run': reading raises KeyError: 'parley.request'"),
        (of(strange), "span 'run': the kind is 'run', which is none of agent, workflow, model, tool"),
        (of(loose), "span 'run' with parley.agent = True: tool_name is True and no text"),
        (of(invented), "span 'run' without attributes still gives input"),
        (of(misspelt), "reading raises TypeError: .*inputs"),
    ],
)
def test_what_is_wrong_is_told(dialect, what, recorded):
    with pytest.raises(AssertionError, match=what):
        testing.check_dialect(dialect, recorded)
