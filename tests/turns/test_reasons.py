"""Each reason to join traces joins its case, says why, and joins nothing while it is switched
off.
"""

import itertools
import json
import sys
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from turn_spans import ANSWER, ASK, agent, call, chat, text, told, tool
from turn_traces import RAIN, alone, answers, asks

from spanscore.assemble.assembler import Assembler
from spanscore.assemble.config import REASONS, Config
from spanscore.assemble.fragments import Fragment
from spanscore.model.span import Link, Resource
from spanscore.otlp import files
from spanscore.rebuild import explain_all, rebuild_all, unit_of
from spanscore.turn_scheduling import JobKind, TurnScheduler
from spanscore.turns.stitch import reasons
from spanscore.turns.stitch.stitcher import Stitching, all_reasons, reference

SECOND = 10**9
GOLDEN = Path(__file__).parent.parent / "golden"
QUESTION, REPLY = (
    text("user", "Which of the two is warmer?"),
    text("assistant", "Paris, by four degrees."),
)
RESPONSE = {"gen_ai__response__id": "chatcmpl-CkL3uQmXo0uZr2sVb8Yt1wE5aHdNf"}
WAITS = {"complete_after": "10s", "stitch_window": "30s", "late_window": "5m"}


@dataclass(frozen=True)
class Case:
    """Telemetry of one turn in several traces, and words of the clause that says why they are
    joined.
    """

    since: str
    spans: list
    logs: list = field(default_factory=list)


def in_trace(number, top, *inner, service="shop"):
    """Spans as the trace `number`, `inner` in the outermost one."""
    first = alone(number, top)
    below = [
        replace(
            x,
            trace_id=first.trace_id,
            span_id=f"{number:08x}{at:08x}",
            parent_span_id=first.span_id,
        )
        for at, x in enumerate(inner)
    ]
    return [replace(x, resource=Resource({"service.name": service})) for x in (first, *below)]


def delegated():
    """An agent that asks another by a tool, and that one's trace."""
    request = call("ask_clerk", {"request": QUESTION["parts"][0]["content"]}, "c1")
    result = told(REPLY["parts"][0]["content"], "c1")
    ran = tool(
        "t",
        20,
        "ask_clerk",
        end=80,
        call__id="c1",
        call__arguments=json.dumps(request["parts"][0]["arguments"]),
        call__result=REPLY["parts"][0]["content"],
    )
    desk = in_trace(
        1,
        agent(end=100),
        chat("m", 1, [ASK], [request]),
        ran,
        chat("n", 90, [ASK, request, result], [ANSWER]),
    )
    return [*desk, *in_trace(2, agent(start=30, end=70), chat("m", 31, [QUESTION], [REPLY]))]


def gateway():
    """An application's call, and the gateway's report of it."""
    application = in_trace(1, agent(), chat("m", 1, [ASK], [ANSWER], end=90, **RESPONSE))
    return [
        *application,
        *in_trace(2, chat("m", 5, [ASK], [ANSWER], end=80, **RESPONSE), service="gateway"),
    ]


def wrapped():
    """An agent that records question and answer and no model call, and the hooks inside it."""
    content = {
        "gen_ai__input__messages": json.dumps([ASK]),
        "gen_ai__output__messages": json.dumps([ANSWER]),
    }
    named = {"gen_ai__conversation__id": "s"}
    inner = in_trace(2, agent(start=1, end=90, **named), chat("m", 2, [ASK], [ANSWER]))
    return [*in_trace(1, agent(**content, **named)), *inner]


def around():
    """An agent without model calls, around two traces of its session that are parts of a turn."""
    named = {"session__id": "s"}
    wrapper = alone(1, agent(end=100, gen_ai__agent__name="desk"), session__id="s")
    ran = alone(2, tool("x", 40, "weather", call__result="15C"), **named)
    return [wrapper, ran]


def linked():
    """A tool's trace that links to an agent's."""
    first = answers(1, 0)
    return [
        first,
        replace(alone(2, tool("x", 0, "store")), links=(Link(first.trace_id, first.span_id),)),
    ]


def recorded(case):
    loaded = files.load([GOLDEN / case])
    return {"spans": list(loaded.spans), "logs": list(loaded.logs)}


CASES = {
    "conversation": Case(
        "tool call c1 of that trace", [asks(1, 0, RAIN), answers(2, 5, RAIN, told("15C", "c1"))]
    ),
    "delegation": Case("ran while the call did, and answered what it returned", delegated()),
    "gateway": Case("that trace reports all of its model calls as well", gateway()),
    "logs_alone": Case(
        "log records that name no trace", **recorded("claude_code/shop-version-0-1")
    ),
    "session_agent": Case("that agent records no model call", around()),
    "span_link": Case("its outermost span links to trace", linked()),
    "stored_response": Case(
        "halves of a model call with response r1",
        [
            alone(1, chat("x", 0, [ASK], gen_ai__response__id="r1")),
            alone(2, chat("x", 9, None, [ANSWER], gen_ai__response__id="r1")),
        ],
    ),
    "tool_run": Case(
        "it ran tool call c1, which that trace requested",
        [asks(1, 0, RAIN), alone(2, tool("x", 2, "weather", call__id="c1", call__result="15C"))],
    ),
    "wrapper": Case("with its session, question and answer", wrapped()),
}
RESTS_ON = {"session_agent": ["tool_run"]}
"""Reasons that join only what another one shows to be part of a turn."""

each = pytest.mark.parametrize("name", sorted(CASES))


def joins(case, off=()):
    """The joins that are explained, each once."""
    explained = explain_all(case.spans, case.logs, stitch_off=off)
    return {join for _, explanation in explained for join in explanation.joins}


class Server:
    """A scheduler that traces come to one after the other."""

    def __init__(self, case, off=()):
        self.config = Config(**WAITS, stitch={name: {"enabled": False} for name in off})
        self.assembler = Assembler(self.config)
        self.received = defaultdict(lambda: ([], []))
        for is_log, items in enumerate((case.spans, case.logs)):
            for item in items:
                self.received[unit_of(item, of_log=bool(is_log))][is_log].append(item)
        self.scheduler = TurnScheduler(self.config, self)
        self.now_ns = 0
        self.joins = {}

    def cut(self, now_ns):
        return self.assembler.cut(now_ns)

    def load(self, cut):
        return self.received[cut.trace_id]

    def run(self, units, every_s):
        """The joins of the turns as they were scored last, where a trace comes every so many
        seconds.
        """
        for row, unit in enumerate(units, start=1):
            self.assembler.push(
                Fragment(bytes.fromhex(unit), row, items=1, has_root=True, span_ids={b"s"}),
                self.now_ns,
            )
            self._pass(every_s)
        for _ in range(10):
            self._pass(31)
        return {join for found in self.joins.values() for join in found}

    def _pass(self, seconds):
        self.now_ns += seconds * SECOND
        while jobs := self.scheduler.cut(self.now_ns):
            for job in jobs:
                self._work(job)

    def _work(self, job):
        if self.scheduler.hold_back(self.scheduler.read(job), self.now_ns):
            return
        if job.kind is not JobKind.REREAD:
            self.joins.update(dict.fromkeys(job.trace_ids, job.joins))
        self.scheduler.finished(job, self.now_ns)
        for cut in job.cuts:
            self.assembler.done(cut)


def test_each_reason_has_its_case():
    assert set(CASES) == {x.name for x in all_reasons()} == set(REASONS)


@each
def test_a_reason_joins_its_case_and_says_why(name):
    found = joins(CASES[name])
    assert {x.reason for x in found} == {name}
    assert all(CASES[name].since in x.since for x in found)


@each
def test_a_reason_joins_its_case_though_all_others_are_switched_off(name):
    others = [x for x in REASONS if x != name and x not in RESTS_ON.get(name, ())]
    assert joins(CASES[name], others) == joins(CASES[name])


@each
def test_what_a_reason_joins_stays_apart_while_it_is_switched_off(name):
    case = CASES[name]
    traces = rebuild_all(case.spans, case.logs, stitch_off=[name])
    assert not joins(case, [name])
    assert all(len(x.trace_ids) == 1 for x in traces)


@pytest.mark.slow
@each
@pytest.mark.parametrize("every_s", [0, 11, 31])
def test_a_server_joins_by_the_same_reasons_as_files_in_whatever_order_the_traces_come(
    name, every_s
):
    case = CASES[name]
    units = sorted(Server(case).received)
    for order in itertools.islice(itertools.permutations(units), 6):
        assert Server(case).run(order, every_s) == joins(case)


@each
def test_a_server_joins_nothing_by_a_reason_that_is_switched_off(name):
    case = CASES[name]
    server = Server(case, [name])
    assert not server.run(sorted(server.received), 11)


def test_a_server_logs_at_level_debug_why_it_joins_traces(caplog):
    caplog.set_level("DEBUG", logger="spanscore.turn_scheduling")
    server = Server(CASES["conversation"])
    server.run(sorted(server.received), 11)
    assert (
        "was joined to trace 00000000000000000000000000000001 by conversation, since its first"
        in caplog.text
    )


NEW_REASON = """
from dataclasses import dataclass

from spanscore.turns.stitch.fragment import Clue
from spanscore.turns.stitch.groups import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketClue(Clue):
    ticket: str
    is_open: bool = True


class Ticket(Reason):
    words = "both name the same ticket"
    after = ("delegation",)

    def clue(self, trace):
        ticket = trace.steps[0].span.attributes.get("ticket")
        return None if ticket is None else TicketClue(ticket=ticket)

    def offers(self, part):
        clue = part.clue(TicketClue)
        return () if clue is None else (f"ticket {clue.ticket}",)

    seeks = offers

    def join(self, groups):
        first = {}
        for part in groups.all:
            clue = part.clue(TicketClue)
            if clue is not None:
                to = first.setdefault(clue.ticket, part)
                groups.join(to, part, reason=self.name, since=f"it names ticket {clue.ticket}")
"""


@pytest.fixture
def with_a_new_reason(tmp_path, monkeypatch):
    """A folder of reasons with one module more."""
    (tmp_path / "ticket.py").write_text(NEW_REASON)
    monkeypatch.setattr(reasons, "__path__", [*reasons.__path__, str(tmp_path)])
    all_reasons.cache_clear()
    yield
    sys.modules.pop("spanscore.turns.stitch.reasons.ticket", None)
    all_reasons.cache_clear()


@pytest.mark.usefixtures("with_a_new_reason")
def test_a_new_reason_is_one_module():
    first, second, other = (
        answers(n, n, ticket=name) for n, name in ((1, "T1"), (2, "T1"), (3, "T2"))
    )
    assert {x.since for x in joins(Case("", [first, second, other]))} == {"it names ticket T1"}
    assert len(rebuild_all([first, second, other], stitch_off=["ticket"])) == 3
    assert "| `ticket` | both name the same ticket |" in reference()


def test_a_reason_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(ValueError, match="delegaton; known: conversation, delegation"):
        Stitching(["delegaton"])


def test_the_configuration_names_the_nearest_reason():
    with pytest.raises(
        ValueError, match=r"delegaton: no reason to join traces; did you mean delegation\?"
    ):
        Config(stitch={"delegaton": {"enabled": False}})


def test_a_switch_without_its_key_is_refused_with_what_to_write():
    with pytest.raises(ValueError, match="write `enabled: false` on a line under it"):
        Config(stitch={"delegation": False})


def test_a_reason_that_is_on_in_the_configuration_is_not_switched_off():
    given = Config(stitch={"delegation": {"enabled": False}, "gateway": {"enabled": True}})
    assert given.stitch_off == ("delegation",)
