"""Whatever comes in whatever order: nothing is scored twice, nothing is lost, and everything
ends.
"""

import pytest
from hypothesis import example, given, settings, strategies as st
from scheduled_spans import ANSWER, ASK, REQUEST, RESULT, SECOND, agent, chat, span, tool

from spanscore.assemble.assembler import Assembler
from spanscore.assemble.config import Config
from spanscore.assemble.fragments import Fragment
from spanscore.model.span import Link
from spanscore.turn_scheduling import JobKind, TurnScheduler

CONFIG = Config(complete_after="10s", stitch_window="30s", late_window="5m")
RESPONSE = {"gen_ai__response__id": "resp_0123456789abcdef0123456789"}

TRACES = {
    # an ordinary turn
    1: [agent(1), chat(1, 2, 1, [ASK], ANSWER)],
    # a turn in two traces: the model requests a tool, and is given its result
    2: [chat(2, 1, 0, [ASK], REQUEST)],
    3: [chat(3, 1, 0, [ASK, REQUEST, RESULT], ANSWER, start=200, end=300)],
    # an application's call, and the gateway's report of it
    4: [agent(4), chat(4, 2, 1, [ASK], ANSWER, **RESPONSE)],
    5: [chat(5, 1, 0, [ASK], ANSWER, start=5, end=80, service="gateway", **RESPONSE)],
    # an agent that delegates by a tool call, and the agent that was called
    6: [agent(6), chat(6, 2, 1, [ASK], REQUEST, end=10), tool(6, 3, 1, 20, 80)],
    7: [agent(7, start=25, end=75), chat(7, 2, 1, [ASK], ANSWER, start=30, end=70)],
    # a trace that works for an ordinary one
    8: [
        span(
            8,
            1,
            0,
            "execute_tool",
            40,
            60,
            gen_ai__tool__name="look",
            links=(Link(f"{1:032x}", "1" * 16),),
        )
    ],
}


class Run:
    """A scheduler with its source, and a caller that works on its jobs in any order."""

    def __init__(self):
        self.assembler = Assembler(CONFIG)
        self.scheduler = TurnScheduler(CONFIG, self)
        self.now_ns = 0
        self.read, self.scoring = [], []
        self.handed_out = []
        self.rows_of, self.scored_rows, self.scored = {}, {}, set()
        self.next_row = 1

    def cut(self, now_ns):
        return self.assembler.cut(now_ns)

    def accept(self, cut, now_ns):
        return self.assembler.accept(cut, now_ns)

    def load(self, cut):
        return TRACES[int(cut.trace_id, 16)], []

    def come(self, number):
        trace = 1 + number % len(TRACES)
        key, row = trace.to_bytes(16, "big"), self.next_row
        self.next_row += 1
        if self.assembler.push(
            Fragment(key, row, items=1, has_root=True, genai=True, span_ids={b"s"}), self.now_ns
        ):
            self.rows_of.setdefault(f"{trace:032x}", set()).add(row)

    def wait(self, number):
        self.now_ns += (1, 11, 31, 61)[number % 4] * SECOND

    def hand_out(self, _number=0):
        jobs = self.scheduler.cut(self.now_ns)
        in_work = [
            trace_id
            for job in (*self.handed_out, *self.scoring, *jobs)
            for trace_id in job.trace_ids
        ]
        assert len(in_work) == len(set(in_work)), "a trace is in two jobs at once"
        self.handed_out += jobs
        return len(jobs)

    def settle(self, number):
        """Read a job; then it is held back, or to be scored."""
        if self.handed_out:
            job = self.handed_out.pop(number % len(self.handed_out))
            if not self.scheduler.hold_back(self.scheduler.read(job), self.now_ns):
                self.scoring.append(job)

    def settle_again(self, number):
        """A commit failed: what is not held back is read once more."""
        if self.scoring:
            job = self.scoring.pop(number % len(self.scoring))
            assert self.scheduler.is_current(job)
            if not self.scheduler.hold_back(self.scheduler.read(job), self.now_ns):
                self.scoring.append(job)

    def settle_two_together(self, number):
        """Two jobs are read at the same time, so that neither finds what the other is."""
        jobs = [self.handed_out.pop(number % len(self.handed_out)) for _ in self.handed_out[:2]]
        for result in [self.scheduler.read(job) for job in jobs]:
            if not self.scheduler.hold_back(result, self.now_ns):
                self.scoring.append(result.job)

    def finish(self, number):
        if self.scoring:
            job = self.scoring.pop(number % len(self.scoring))
            if job.kind is not JobKind.REREAD:
                self._note_scores(job)
            self.scheduler.finished(job, self.now_ns)
            for cut in job.cuts:
                self.assembler.done(cut)

    def _note_scores(self, job):
        revision = frozenset((cut.trace_id, cut.rows) for cut in job.cuts)
        assert revision not in self.scored, "a revision is scored twice"
        self.scored.add(revision)
        for cut in job.cuts:
            before = self.scored_rows.get(cut.trace_id, set())
            assert before <= set(cut.rows), "an older cut is scored after a later one"
            self.scored_rows[cut.trace_id] = set(cut.rows)

    def end(self):
        """Let everything end that is there; the rounds that it took."""
        for rounds in range(40):
            while self.hand_out() or self.handed_out or self.scoring:
                self.settle(0)
                self.finish(0)
            if not self.scheduler.waiting and not self.assembler.open_traces:
                return rounds
            self.now_ns += 31 * SECOND
        raise AssertionError("something never ends")


ACTIONS = ("come", "wait", "hand_out", "settle", "settle_again", "settle_two_together", "finish")
EVENTS = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 7)), min_size=10, max_size=80)


def run_of(events):
    run = Run()
    for action, number in events:
        getattr(run, action)(number)
    run.end()
    return run


# the scores of a trace that was read early cannot be committed, and it is read once more
FAILED_EARLY_COMMIT = [
    ("come", 0),
    *[("wait", 0)] * 2,
    ("hand_out", 0),
    ("settle", 0),
    ("settle_again", 0),
]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(EVENTS)
@example(FAILED_EARLY_COMMIT)
def test_each_revision_is_scored_once_and_the_last_one_is_of_all_that_came(events):
    run = run_of(events)
    assert run.scored_rows == run.rows_of


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(EVENTS)
def test_no_request_is_needed_any_more_once_late_spans_are_not_waited_for(events):
    run = run_of(events)
    run.now_ns += 2 * CONFIG.late_window
    run.hand_out()
    assert sorted(run.assembler.released()) == sorted(
        row for rows in run.rows_of.values() for row in rows
    )


def test_all_kinds_of_jobs_are_handed_out():
    run, kinds = Run(), set()
    for trace in (3, 4, 0, 1, 2, 7, 5, 6):
        run.come(trace)
        run.wait(1)
        run.hand_out()
        kinds.update(job.kind for job in run.handed_out)
        while run.handed_out or run.scoring:
            run.settle(0)
            run.finish(0)
            run.hand_out()
            kinds.update(job.kind for job in run.handed_out)
    run.end()
    assert {JobKind.TRACE, JobKind.REREAD} <= kinds
    assert any(len(revision) == 2 for revision in run.scored)
