"""Each tenant's traces are read by themselves, and all tenants share what may be remembered of them."""

import pytest

from spanscore import reading
from spanscore.assemble import keys
from spanscore.assemble.assembler import Assembler
from spanscore.assemble.config import Config
from spanscore.assemble.fragments import Fragment
from spanscore.model.quantity import duration_ns
from spanscore.reading import Reader

SECOND = duration_ns("1s")


class Source:
    """Traces without spans, which are complete as soon as they have come."""

    def __init__(self, config):
        self.assembler = Assembler(config)
        self.config = config
        self._rows = iter(range(1, 10_000))

    def come(self, tenant, now_ns, number=1):
        key = keys.with_tenant(number.to_bytes(16, "big"), tenant)
        self.assembler.push(Fragment(key, next(self._rows), items=1, has_root=True, span_ids={b"s"}), now_ns)

    def cut(self, now_ns):
        return self.assembler.cut(now_ns + self.config.complete_after)

    def load(self, _cut):
        return [], []


@pytest.fixture
def source():
    return Source(Config(max_parts=100))


@pytest.fixture
def reader(source):
    return Reader(source.config, source)


def read(reader, now_ns):
    """Read what there is; the tenants and trace ids that were."""
    found = []
    for work in reader.cut(now_ns):
        assert not reader.keeps(reader.read(work), now_ns)
        reader.finished(work, now_ns)
        found.append((work.tenant, work.cuts[0].trace_id))
    return found


def remembered(reader):
    return list(reader._of_tenant)


def test_one_trace_id_of_two_tenants_is_read_twice(reader, source):
    for tenant in ("acme", "blue"):
        source.come(tenant, 0)
    assert read(reader, 0) == [("acme", f"{1:032x}"), ("blue", f"{1:032x}")]


def test_a_tenant_is_forgotten_once_none_of_its_traces_can_be_opened_again(reader, source):
    source.come("acme", 0)
    read(reader, 0)
    source.come("blue", SECOND)
    read(reader, SECOND)
    assert remembered(reader) == ["acme", "blue"]
    read(reader, source.config.late_window)
    assert remembered(reader) == ["blue"]


def test_a_tenant_is_remembered_while_one_of_its_traces_is_in_work(reader, source):
    source.come("acme", 0)
    [work] = reader.cut(0)
    reader.cut(10 * source.config.late_window)
    assert remembered(reader) == ["acme"]
    reader.keeps(reader.read(work), 0)
    reader.finished(work, 0)
    reader.cut(10 * source.config.late_window)
    assert remembered(reader) == []


def test_of_too_many_tenants_the_quietest_are_forgotten(reader, source, monkeypatch):
    monkeypatch.setattr(reading, "_MAX_TENANTS", 2)
    for second, tenant in enumerate(("acme", "blue", "acme", "coral")):
        source.come(tenant, second * SECOND, number=second + 1)
        read(reader, second * SECOND)
    read(reader, 3 * SECOND)
    assert remembered(reader) == ["acme", "coral"]


def test_what_may_be_remembered_is_shared_out(reader, source):
    for number, tenant in enumerate(("acme", "blue", "coral", "dune")):
        source.come(tenant, 0, number=number)
    read(reader, 0)
    assert {x._parts._max_parts for x in reader._of_tenant.values()} == {25}
    read(reader, source.config.late_window)
    source.come("acme", source.config.late_window)
    read(reader, source.config.late_window)
    assert [x._parts._max_parts for x in reader._of_tenant.values()] == [100]
