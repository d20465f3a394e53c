"""Traces whose partition was taken away are waited for no longer."""

from scheduled_spans import ASK, REQUEST, chat

from spanscore.assemble.assembler import Assembler
from spanscore.assemble.config import Config
from spanscore.assemble.fragments import Fragment
from spanscore.turn_scheduling import TurnScheduler

CONFIG = Config(complete_after="10s", stitch_window="30s")
MINUTE_NS = 60 * 10**9


class Source:
    """One trace that ends with a request of the model, so that it waits for the rest."""

    def __init__(self):
        self.assembler = Assembler(CONFIG)
        self.assembler.push(
            Fragment(bytes.fromhex(f"{2:032x}"), 1, items=1, has_root=True, span_ids={b"1"}), 0
        )

    def cut(self, now_ns):
        return self.assembler.cut(now_ns)

    def accept(self, cut, now_ns):
        return self.assembler.accept(cut, now_ns)

    def load(self, _cut):
        return [chat(2, 1, 0, [ASK], REQUEST)], []


def test_a_trace_that_waits_is_let_go_with_its_row():
    source = Source()
    scheduler = TurnScheduler(CONFIG, source)
    (job,) = scheduler.cut(MINUTE_NS)
    assert scheduler.hold_back(scheduler.read(job), MINUTE_NS)
    assert scheduler.waiting == 1
    scheduler.forget({1})
    source.assembler.forget({1})
    assert not scheduler.waiting
    assert source.assembler.released() == [1]
    assert not scheduler.cut(10 * MINUTE_NS)
