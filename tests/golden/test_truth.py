"""What is rebuilt from our own recordings against what was said in them: nothing missing, nothing
invented.
"""

import gzip
import json
import re
from collections import defaultdict

import pytest
from conversation import CONVERSATIONS
from described import FRAMEWORKS, GOLDEN, frameworks
from truth import FACTS, wrong

from spanscore.otlp import files
from spanscore.rebuild import rebuild_all

KNOWN = [(framework, case) for framework in frameworks() for case in framework.cases]
FIELDS = {
    "user_input": "user_input",
    "final_output": "final_output",
    "system": "system_instructions",
}
FIELDS |= {"tools_offered": "available_tools", "tool_results": "tool_calls", "plan": "plan"}
MACHINE = re.compile(
    rb"(?<![\w.-])/(?:root/|Users/|tmp/|home/(?!app/))|\\Users\\|Linux-[0-9]|host\.name|process\.pid"
)
CASES = sorted(x.parent for x in GOLDEN.glob("*/*/SOURCE"))
RECORDED = [(x, y) for x, y in KNOWN if x.golden(y).is_dir()]


def name(value):
    framework, case = value
    return f"{framework.dialect}/{case.name}"


@pytest.fixture(scope="module")
def rebuilt():
    """The agent traces of a case, each case read once."""
    known = {}

    def traces(framework, case):
        folder = framework.golden(case)
        if folder not in known:
            telemetry = files.load(sorted(folder.glob("*.pb.gz")))
            known[folder] = json.loads(
                json.dumps([x.to_json() for x in rebuild_all(telemetry.spans, telemetry.logs)])
            )
        return known[folder]

    return traces


@pytest.mark.parametrize("recorded", RECORDED, ids=name)
def test_each_turn_is_one_agent_trace(recorded, rebuilt):
    framework, case = recorded
    turns = len(CONVERSATIONS[framework.conversation].turns)
    assert len(rebuilt(framework, case)) == (case.truth.agent_traces or turns)


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize("recorded", RECORDED, ids=name)
def test_a_fact_is_what_was_said_and_null_where_it_was_not_recorded(recorded, fact, rebuilt):
    framework, case = recorded
    traces = rebuilt(framework, case)
    if fact not in case.truth.differs and len(traces) == len(
        CONVERSATIONS[framework.conversation].turns
    ):
        assert wrong(fact, traces, framework, case) == [], "turns where it is wrong"


@pytest.mark.parametrize("recorded", RECORDED, ids=name)
def test_what_is_as_it_was_said_is_not_called_damaged(recorded, rebuilt):
    framework, case = recorded
    doubtful = {*case.truth.differs, *case.truth.not_recorded}
    whole = {field for fact, field in FIELDS.items() if fact not in doubtful}
    assert [
        x["damaged"] for x in rebuilt(framework, case) if whole.intersection(x["damaged"])
    ] == []


@pytest.mark.parametrize("recorded", RECORDED, ids=name)
def test_what_is_said_to_differ_does_differ(recorded, rebuilt):
    framework, case = recorded
    traces = rebuilt(framework, case)
    assert [x for x in case.truth.differs if not wrong(x, traces, framework, case)] == []


@pytest.mark.parametrize("recorded", RECORDED, ids=name)
def test_turns_share_a_session_as_they_did(recorded, rebuilt):
    framework, case = recorded
    turns, traces = CONVERSATIONS[framework.conversation].turns, rebuilt(framework, case)
    groups = defaultdict(set)
    for turn, trace in zip(turns, sorted(traces, key=lambda x: x["started_ns"]), strict=False):
        groups[turn.session].add(trace["session_id"])
    ids = [x for group in groups.values() for x in group if x is not None]
    assert case.truth.agent_traces or len(ids) == len(set(ids)) <= len(groups)


def test_facts_that_are_said_to_be_missing_exist():
    named = {x for _, case in KNOWN for x in (*case.truth.not_recorded, *case.truth.differs)}
    assert named <= set(FACTS)


def test_every_case_that_can_be_recorded_has_been():
    assert [name(x) for x in KNOWN if not x[0].golden(x[1]).is_dir()] == []


def test_every_recording_of_ours_can_be_recorded_again():
    ours = {
        x.parent
        for x in GOLDEN.glob("*/*/SOURCE")
        if "tests/recording" in x.read_text(encoding="utf-8")
    }
    assert ours <= {x.golden(y) for x, y in KNOWN}


def test_every_folder_of_a_framework_says_how_it_is_run():
    assert [
        x.name for x in FRAMEWORKS.iterdir() if x.is_dir() and not (x / "recording.toml").exists()
    ] == []


@pytest.mark.parametrize(
    "case",
    sorted(x.parent for x in GOLDEN.glob("*/*/SOURCE")),
    ids=lambda x: f"{x.parent.name}/{x.name}",
)
def test_a_recording_holds_nothing_of_a_machine(case):
    content = b"".join(gzip.decompress(x.read_bytes()) for x in case.glob("*.pb.gz"))
    assert MACHINE.findall(content) == []
