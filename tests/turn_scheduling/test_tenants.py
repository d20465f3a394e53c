"""Each tenant's traces are read by themselves, and all tenants share what may be remembered of
them.
"""

import pytest

from spanscore.assemble import fragments
from spanscore.assemble.assembler import Assembler
from spanscore.assemble.config import Config
from spanscore.assemble.fragments import Fragment
from spanscore.model.options import duration_ns
from spanscore.turn_scheduling import TurnScheduler, scheduler as tenant_scheduler

SECOND = duration_ns("1s")


class Source:
    """Traces without spans, which are complete as soon as they have come."""

    def __init__(self, config):
        self.assembler = Assembler(config)
        self.config = config
        self._rows = iter(range(1, 10_000))

    def come(self, tenant, now_ns, number=1):
        key = fragments.with_tenant(number.to_bytes(16, "big"), tenant)
        self.assembler.push(
            Fragment(key, next(self._rows), items=1, has_root=True, span_ids={b"s"}), now_ns
        )

    def cut(self, now_ns):
        return self.assembler.cut(now_ns + self.config.complete_after)

    def accept(self, cut, now_ns):
        return self.assembler.accept(cut, now_ns)

    def load(self, _cut):
        return [], []


@pytest.fixture
def source():
    return Source(Config(max_parts=100))


@pytest.fixture
def scheduler(source):
    return TurnScheduler(source.config, source)


def read(scheduler, now_ns):
    """Read what there is; the tenants and trace ids that were."""
    found = []
    for job in scheduler.cut(now_ns):
        assert not scheduler.hold_back(scheduler.read(job), now_ns)
        scheduler.finished(job, now_ns)
        found.append((job.tenant, job.cuts[0].trace_id))
    return found


def remembered(scheduler):
    return list(scheduler._tenants)


def test_one_trace_id_of_two_tenants_is_read_twice(scheduler, source):
    for tenant in ("acme", "blue"):
        source.come(tenant, 0)
    assert read(scheduler, 0) == [("acme", f"{1:032x}"), ("blue", f"{1:032x}")]


def test_a_tenant_is_forgotten_once_none_of_its_traces_can_be_opened_again(scheduler, source):
    source.come("acme", 0)
    read(scheduler, 0)
    source.come("blue", SECOND)
    read(scheduler, SECOND)
    assert remembered(scheduler) == ["acme", "blue"]
    read(scheduler, source.config.late_window)
    assert remembered(scheduler) == ["blue"]


def test_a_tenant_is_remembered_while_one_of_its_traces_is_in_work(scheduler, source):
    source.come("acme", 0)
    [job] = scheduler.cut(0)
    scheduler.cut(10 * source.config.late_window)
    assert remembered(scheduler) == ["acme"]
    scheduler.hold_back(scheduler.read(job), 0)
    scheduler.finished(job, 0)
    scheduler.cut(10 * source.config.late_window)
    assert remembered(scheduler) == []


def test_of_too_many_tenants_the_quietest_are_forgotten(scheduler, source, monkeypatch):
    monkeypatch.setattr(tenant_scheduler, "_MAX_TENANTS", 2)
    for second, tenant in enumerate(("acme", "blue", "acme", "coral")):
        source.come(tenant, second * SECOND, number=second + 1)
        read(scheduler, second * SECOND)
    read(scheduler, 3 * SECOND)
    assert remembered(scheduler) == ["acme", "coral"]


def test_what_may_be_remembered_is_shared_out(scheduler, source):
    for number, tenant in enumerate(("acme", "blue", "coral", "dune")):
        source.come(tenant, 0, number=number)
    read(scheduler, 0)
    assert {x._pending._max_parts for x in scheduler._tenants.values()} == {25}
    read(scheduler, source.config.late_window)
    source.come("acme", source.config.late_window)
    read(scheduler, source.config.late_window)
    assert [x._pending._max_parts for x in scheduler._tenants.values()] == [100]
