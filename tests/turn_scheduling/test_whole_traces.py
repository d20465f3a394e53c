"""A trace that shows that nothing of it is missing is scored early, and again with what comes later
all the same.
"""

import pytest
from scheduled_spans import ANSWER, ASK, REQUEST, RESULT, SECOND, agent, chat, tool

from spanscore.assemble.assembler import Assembler
from spanscore.assemble.config import Config
from spanscore.assemble.fragments import Fragment
from spanscore.turn_scheduling import TurnScheduler

WHOLE = [
    agent(1),
    chat(1, 2, 1, [ASK], REQUEST, end=10),
    tool(1, 3, 1, 20, 40),
    chat(1, 4, 1, [ASK, RESULT], ANSWER),
]
QUESTION_ALONE = [agent(1), chat(1, 2, 1, [ASK], {"role": "assistant", "parts": []})]


class Run:
    """A scheduler of one trace, whose spans come when a test says so."""

    def __init__(self, **config):
        self.config = Config(**{"whole_after": "2s", "complete_after": "10s", **config})
        self.assembler = Assembler(self.config)
        self.scheduler = TurnScheduler(self.config, self)
        self.spans = {}

    def cut(self, now_ns):
        return self.assembler.cut(now_ns)

    def accept(self, cut, now_ns):
        return self.assembler.accept(cut, now_ns)

    def load(self, cut):
        return [span for row in cut.rows for span in self.spans[row]], []

    def come(self, spans, at_s):
        row = len(self.spans) + 1
        self.spans[row] = spans
        ids = {bytes.fromhex(span.span_id) for span in spans}
        parents = {bytes.fromhex(span.parent_span_id) for span in spans if span.parent_span_id}
        root = any(not span.parent_span_id for span in spans)
        key = bytes.fromhex(spans[0].trace_id)
        fragment = Fragment(
            key, row, len(spans), 100, has_root=root, span_ids=ids, parents=parents, genai=True
        )
        self.assembler.push(fragment, at_s * SECOND)

    def scored(self, at_s):
        """The tool calls of each agent trace that is scored when it is looked at this moment."""
        found = []
        for job in self.scheduler.cut(at_s * SECOND):
            result = self.scheduler.read(job)
            if not self.scheduler.hold_back(result, at_s * SECOND):
                found += [len(trace.tool_calls or ()) for trace in result.traces]
                self.scheduler.finished(job, at_s * SECOND)
                for cut in job.cuts:
                    self.assembler.done(cut)
        return found

    def scored_by_second(self, until_s):
        """When what is scored, each second looked at once."""
        return {second: found for second in range(until_s + 1) if (found := self.scored(second))}


def test_a_trace_that_shows_that_it_is_whole_is_scored_early():
    run = Run()
    run.come(WHOLE, 0)

    assert run.scored_by_second(30) == {2: [1]}


@pytest.mark.parametrize(
    "spans",
    [QUESTION_ALONE, [*WHOLE[:2], chat(1, 4, 1, [ASK], ANSWER)]],
    ids=["without an answer", "with a call whose outcome is not there"],
)
def test_one_that_lacks_something_is_not(spans):
    run = Run(stitch_window="10s")
    run.come(spans, 0)

    assert min(run.scored_by_second(60)) >= 10


def test_nor_is_one_of_a_session_that_lacks_its_answer():
    run = Run(stitch_window="10s")
    run.come([agent(1, gen_ai__conversation__id="chat 7"), QUESTION_ALONE[1]], 0)

    assert min(run.scored_by_second(60)) >= 10


def test_what_comes_while_it_is_read_is_read_with_it_once():
    run = Run()
    run.come(WHOLE, 0)
    (job,) = run.scheduler.cut(2 * SECOND)
    run.come([chat(1, 5, 1, [ASK], ANSWER, start=50, end=60)], 3)

    assert run.scheduler.hold_back(run.scheduler.read(job), 3 * SECOND)
    assert run.scored_by_second(60) == {5: [1]}


def test_what_is_read_too_late_gives_way_to_the_complete_trace():
    run = Run()
    run.come(WHOLE, 0)
    (job,) = run.scheduler.cut(2 * SECOND)
    run.come([chat(1, 5, 1, [ASK], ANSWER, start=50, end=60)], 9)
    assert run.scheduler.cut(30 * SECOND) == []

    assert run.scheduler.hold_back(run.scheduler.read(job), 30 * SECOND)
    assert [second for second in range(30, 60) if run.scored(second)] == [30]


def test_one_whose_parent_is_missing_is_not():
    run = Run(idle_after="30s")
    run.come(WHOLE[1:], 0)

    assert min(run.scored_by_second(90)) >= 30


def test_what_comes_after_it_was_scored_gives_a_second_revision_which_waits_for_more():
    run = Run()
    run.come([*WHOLE[:2], WHOLE[3], tool(1, 3, 1, 20, 40)], 0)
    assert run.scored_by_second(4) == {2: [1]}
    run.come([chat(1, 5, 1, [ASK], ANSWER, start=50, end=60)], 5)

    assert [second for second in range(6, 30) if run.scored(second)] == [15]


def test_one_that_becomes_whole_is_scored_then():
    run = Run()
    run.come([agent(1), chat(1, 2, 1, [ASK], {"role": "assistant", "parts": []})], 0)
    assert run.scored_by_second(4) == {}
    run.come([chat(1, 4, 1, [ASK], ANSWER)], 5)

    assert [second for second in range(6, 60) if run.scored(second)] == [7]


def test_nothing_is_scored_early_where_the_waits_are_equal():
    run = Run(whole_after="10s")
    run.come(WHOLE, 0)

    assert run.scored_by_second(30) == {10: [1]}


def test_what_was_not_whole_goes_on_where_nothing_can_be_late():
    run = Run(late_window="0s", stitch_window="10s")
    run.come(QUESTION_ALONE, 0)
    assert run.scored_by_second(6) == {}
    run.come([chat(1, 4, 1, [ASK], ANSWER)], 7)

    assert [second for second in range(8, 60) if run.scored(second)] == [9]


def test_no_row_stays_once_all_is_scored_and_nothing_can_be_late():
    run = Run(late_window="20s")
    run.come(QUESTION_ALONE, 0)
    run.scored_by_second(60)
    run.scored(120)

    assert (set(run.assembler.released()), run.scheduler.waiting) == ({1}, 0)
