"""What `check_dialect` accepts, and what it finds wrong."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

import spanscore
from spanscore import dialects, testing
from spanscore.dialects.reading import Dialect, messages, span_of, text
from spanscore.dialects.registry import own_dialects
from spanscore.rebuild import rebuild_all

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/add-a-dialect.md").read_text(encoding="utf-8")
GOLDEN = ROOT / "tests/golden"
INSTALLED = ROOT / "tests/dialects/installed"
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


def recorded_turn(name):
    """The spans and log records of one turn, of the smallest recording of a dialect."""
    cases = [x for x in (GOLDEN / name).iterdir() if x.is_dir()]
    paths = min(
        (sorted(x.glob("*.pb.gz")) for x in cases),
        key=lambda files: sum(x.stat().st_size for x in files),
    )
    telemetry = spanscore.load(paths)
    turns = [
        [x for x in telemetry.spans if x.trace_id in turn.trace_ids]
        for turn in rebuild_all(telemetry.spans, telemetry.logs)
        if name in turn.dialects
    ]
    return dataclasses.replace(telemetry, spans=min(turns, key=len))


@pytest.mark.slow
@pytest.mark.parametrize("name", [x.name for x in own_dialects()])
def test_the_projects_own_dialects_pass(name):
    dialect = next(x for x in own_dialects() if x.name == name)
    testing.check_dialect(dialect, recorded_turn(name))


def test_the_pages_dialect_passes(parley, recorded):
    [trace] = testing.check_dialect(parley, recorded, [FACTS])
    assert trace.tool_calls[0].name == "stock_level"


@pytest.fixture
def barley():
    """The distribution of the tests, with turns in log records and a quirk in OpenInference's
    spans.
    """
    made = {"__name__": "barley_spanscore"}
    for name in ("__init__", "openinference"):
        exec((INSTALLED / f"barley_spanscore/{name}.py").read_text(encoding="utf-8"), made)  # noqa: S102 - likewise
    return made


def test_turns_in_log_records_are_held_to_the_same(barley):
    logs = json.loads((INSTALLED / "logs.json").read_text(encoding="utf-8"))
    found = testing.check_dialect(barley["DIALECT"], logs, [FACTS, {"user_input": "And 00043?"}])
    assert len(found) == 2


def test_a_quirk_is_held_to_the_same(barley):
    [found] = testing.check_dialect(
        barley["QUIRK"], INSTALLED / "spans.json", [FACTS | {"agent_name": "helper"}]
    )
    assert found.dialects == ("openinference",)


def test_a_quirk_that_is_used_for_no_span_is_wrong(barley):
    other = dataclasses.replace(barley["QUIRK"], scopes=("parley",))
    with pytest.raises(
        AssertionError,
        match="barley is used for none of these spans, of which 3 are read as openinf",
    ):
        testing.check_dialect(other, INSTALLED / "spans.json")


def test_a_quirk_needs_a_dialect_to_be_under(barley):
    with pytest.raises(AssertionError, match="there is no dialect 'openinferense'"):
        testing.check_dialect(
            dataclasses.replace(barley["QUIRK"], under="openinferense"), INSTALLED / "spans.json"
        )


def raising_parts(_unit, _spans, logs):
    yield [span_of("u", logs[0].attributes["barley.thread"], logs[0])], []


def unordered(_unit, _spans, logs):
    yield [span_of("u", "barley.prompt", logs[0]), span_of("u", "barley.answer", logs[1])], []


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"prefilters": (b"parley",)}, "no prefilter is in log record 'barley.prompt'"),
        (
            {"parts": raising_parts},
            "log record 'barley.prompt' .*: reading raises KeyError: 'barley.thread'",
        ),
        ({"parts": unordered}, "log records in another order, or twice, give another agent trace"),
        ({"scopes": ()}, "no agent trace comes of this telemetry"),
    ],
)
def test_what_is_wrong_with_turns_in_log_records_is_told(barley, changed, what):
    dialect, parts = barley["DIALECT"], changed.pop("parts", None)
    if parts is not None:
        changed["log_turns"] = tuple(dataclasses.replace(x, parts=parts) for x in dialect.log_turns)
    with pytest.raises(AssertionError, match=what):
        testing.check_dialect(dataclasses.replace(dialect, **changed), INSTALLED / "logs.json")


def test_telemetry_may_be_a_file(parley, recorded, tmp_path):
    path = tmp_path / "spans.json"
    path.write_text(json.dumps(recorded))
    assert len(testing.check_dialect(parley, path)) == 1


def test_afterwards_the_dialect_is_not_installed(parley, recorded):
    before = dialects.all_dialects()
    testing.check_dialect(parley, recorded)
    assert before == dialects.all_dialects()


def test_what_is_expected_and_not_read_is_told(parley, recorded):
    with pytest.raises(
        AssertionError, match="agent trace 1: user_input is 'Is 00042 in stock\\?' where 'Hello' is"
    ):
        testing.check_dialect(parley, recorded, [{"user_input": "Hello"}])


def of(read, **facts):
    return Dialect(
        "parley", read, **{"scopes": ("parley.tracing",), "prefilters": (b"parley.",), **facts}
    )


def raising(span, _context):
    return {"kind": "model", "input": messages(span.attributes["parley.request"]).messages}


def strange(span, _context):
    return {"kind": span.attributes.get("parley.kind")}


def loose(span, _context):
    return {"kind": "tool", "tool_name": span.attributes.get("parley.agent")}


def invented(span, _context):
    return {
        "kind": "model",
        "input": messages([{"role": "user", "content": span.name}]).messages,
        "output": (),
    }


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
        (
            of(strange),
            "span 'run': the kind is 'run', which is none of agent, workflow, model, tool",
        ),
        (of(loose), "span 'run' with parley.agent = True: tool_name is True and no text"),
        (of(invented), "span 'run' without attributes still gives input"),
        (of(misspelt), "reading raises TypeError: .*inputs"),
    ],
)
def test_what_is_wrong_is_told(dialect, what, recorded):
    with pytest.raises(AssertionError, match=what):
        testing.check_dialect(dialect, recorded)
