"""Cut traces in, agent traces out, as they come: most by themselves, the parts of one turn when they are all there."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from spanscore import rebuild, turns
from spanscore.assemble import keys
from spanscore.assemble.assembler import Assembler, Cut
from spanscore.assemble.config import Config
from spanscore.assemble.parts import Parts
from spanscore.assemble.recent import MAX_IDS, Recent
from spanscore.model.trace import AgentTrace
from spanscore.span_attributes import SpanAttributes

_MAX_TEXTS = 50_000
"""Questions, and texts of tool calls' arguments, that are remembered, some 20 MB: above it the oldest are forgotten."""

_MAX_TENANTS = 1000
"""Tenants of which is remembered what later traces may have to do with; above it the quietest are forgotten."""


class Source(Protocol):
    """Where cut traces come from, with their spans: the server's backlog, or what an agent's own process emitted."""

    @property
    def assembler(self) -> Assembler:
        """What decides when a trace is complete."""
        ...

    def cut(self, now_ns: int) -> list[Cut]:
        """The traces that are complete by now."""
        ...

    def load(self, cut: Cut) -> rebuild.Received:
        """The spans and log records of a trace that was cut. May be called from any thread."""
        ...


@dataclass(frozen=True, slots=True)
class Work:
    """Traces to be read: one as it was cut, or, where `is_turn`, those of one turn, which need not wait any more.

    `is_again`: the trace was dealt with before, and is only read for what ties it to one that looks for it; it gives no
    agent traces. `within` tells of the traces of a turn by which tool call they were asked, as `turns.build` wants it.
    """

    cuts: tuple[Cut, ...]
    is_turn: bool = False
    is_again: bool = False
    within: Mapping[str, str] = field(default_factory=dict)

    @property
    def tenant(self) -> str:
        """Whose these traces are."""
        return self.cuts[0].tenant


@dataclass(frozen=True, slots=True)
class Read:
    """What was read: the agent traces, and what ties the trace to others.

    For others it is known by `ids_of_calls`, and by what it says.
    """

    work: Work
    traces: Sequence[AgentTrace] = ()
    ends: turns.TraceFragment | None = None
    ids_of_calls: Sequence[str] = ()
    hints: turns.DelegationHints | None = None


class Reader:
    """Reads traces and has those wait that are parts of turns. Belongs to one event loop, but for `read`.

    Of each tenant by itself: no trace is compared with one of another tenant, and all share what may be remembered.
    """

    def __init__(
        self,
        config: Config,
        source: Source,
        watch: turns.Watch | None = None,
        *,
        attributes: Collection[str] = (),
    ) -> None:
        """`watch` is told of each agent trace that is rebuilt, in the thread that reads it.

        `attributes` are those of spans that the agent traces are given with.
        """
        self._config = config
        self._source = source
        self._watch = watch
        self._attributes = attributes
        self._of_tenant: OrderedDict[str, _TenantReader] = OrderedDict()  # the one that was heard of last is the last
        self._sharing = 1

    @property
    def waiting(self) -> int:
        """How many traces wait for other parts of their turn, or until what was cut of them before is dealt with."""
        return sum(x.waiting for x in self._of_tenant.values())

    def cut(self, now_ns: int) -> list[Work]:
        """What is to be read now: traces that are complete, and turns that are whole or wait no longer.

        Each is in work until it is given to `keeps` and, if that does not keep it, to `finished`; what is cut anew of a
        trace or a turn that is in work waits until then, or two would be scored as the same revision.
        """
        cuts: dict[str, list[Cut]] = {}
        for cut in self._source.cut(now_ns):
            cuts.setdefault(cut.tenant, []).append(cut)
        for tenant in cuts:
            self._hear_of(tenant, now_ns)
        self._share()
        found = [x for tenant, reader in self._of_tenant.items() for x in reader.cut(cuts.get(tenant, ()), now_ns)]
        self._forget_quiet(now_ns)
        return found

    def read(self, work: Work) -> Read:
        """Read what is to be read. May be called from any thread. Raises whatever a reader does on content."""
        return self._of_tenant[work.tenant].read(work)

    def keeps(self, read: Read, now_ns: int) -> bool:
        """Whether what was read has to wait for the rest of its turn; then `cut` gives it again. Else it is done."""
        return self._of_tenant[read.work.tenant].keeps(read, now_ns)

    def finished(self, work: Work, now_ns: int) -> None:
        """What was read was scored and committed, or given up."""
        self._of_tenant[work.tenant].finished(work, now_ns)

    def is_part(self, cut: Cut) -> bool:
        """Whether a trace may yet turn out to be part of a turn with others."""
        reader = self._of_tenant.get(cut.tenant)
        return reader is not None and reader.is_part(cut)

    def _hear_of(self, tenant: str, now_ns: int) -> None:
        if tenant not in self._of_tenant:
            made = _TenantReader(self._config, self._source, tenant, self._watch, self._attributes)
            self._of_tenant[tenant] = made
        self._of_tenant[tenant].heard_ns = now_ns
        self._of_tenant.move_to_end(tenant)

    def _forget_quiet(self, now_ns: int) -> None:
        """Forget tenants of whose traces none can be read any more, and, of too many, those that nothing waits of."""
        oldest_ns = now_ns - self._config.late_window
        quiet = [x for x, reader in self._of_tenant.items() if reader.is_done]
        too_many = len(self._of_tenant) - _MAX_TENANTS
        for number, tenant in enumerate(quiet):
            if number < too_many or self._of_tenant[tenant].heard_ns <= oldest_ns:
                del self._of_tenant[tenant]
        self._share()

    def _share(self) -> None:
        """Have each tenant remember its share of what may be remembered, however many there are now."""
        count = max(len(self._of_tenant), 1)
        if count != self._sharing:
            self._sharing = count
            for reader in self._of_tenant.values():
                reader.limit(count)


class _TenantReader:
    """Reads the traces of one tenant; see `Reader`."""

    def __init__(
        self,
        config: Config,
        source: Source,
        tenant: str,
        watch: turns.Watch | None,
        attributes: Collection[str],
    ) -> None:
        self.heard_ns = 0
        """When a trace of this tenant was cut last."""
        self._config = config
        self._tenant = tenant
        self._watch = watch
        self._attributes = attributes
        self._source = source
        self._parts = Parts[turns.TraceFragment](
            config,
            group=turns.group,
            is_whole=turns.is_whole,
            is_settled=turns.is_settled,
            is_there=self._can_read,
        )
        self._recent = Recent(config)
        self._late_window_ns = config.late_window
        self._delegations = turns.DelegationIndex(_MAX_TEXTS)
        self._talking = threading.Lock()  # traces are read in several threads
        self._unjoined = turns.UnmatchedContinuations()
        self._unread: dict[int, int] = {}  # when each was handed out, by the id of the object
        self._again: list[Work] = []
        self._later: list[Work] = []
        self._again_after: set[str] = set()
        self._compared_with: dict[str, list[str]] = {}
        self._in_work: set[str] = set()

    @property
    def is_done(self) -> bool:
        """Whether nothing is in work, and nothing waits."""
        return not (self._in_work or self._unread or self._again or self.waiting)

    def limit(self, tenants: int) -> None:
        """Remember no more than one of so many tenants may."""
        self._parts.limit(self._config.max_parts // tenants)
        self._recent.limit(MAX_IDS // tenants)
        with self._talking:
            self._delegations.limit(_MAX_TEXTS // tenants)

    @property
    def waiting(self) -> int:
        """See `Reader.waiting`."""
        return self._parts.waiting + len(self._later)

    def cut(self, cuts: Iterable[Cut], now_ns: int) -> list[Work]:
        """See `Reader.cut`; `cuts` are those of this tenant."""
        again, self._again = self._again, []
        new = [*(Work((cut,)) for cut in cuts), *again]
        self._unread.update((id(work), now_ns) for work in new)
        found = self._one_of_each([*self._later, *new])
        read_until_ns = next(iter(self._unread.values()), now_ns)  # what waits to be read may be what a part waits for
        whole = [self._together(x, now_ns) for x in self._parts.due(read_until_ns, is_busy=self._is_busy)]
        self._in_work.update(_ids(whole))
        return [work for work in (*found, *whole) if work.cuts]

    def read(self, work: Work) -> Read:
        """See `Reader.read`."""
        loaded = [self._source.load(cut) for cut in work.cuts]
        watch = SpanAttributes(self._attributes, self._watch) if self._attributes else None
        if work.is_turn:
            completeness = [cut.completeness for cut in work.cuts]
            traces = rebuild.rebuild_together(
                loaded, completeness=completeness, within=work.within, watch=watch or self._watch
            )
            return Read(work, [self._unjoined.marked(x) for x in _with_attributes(traces, watch)])

        said: turns.DelegationHints | None = None

        def is_sought(ids_of_calls: Sequence[str], hints_of: Callable[[], turns.DelegationHints | None]) -> bool:
            nonlocal said
            said = hints_of()
            self._hear(work, said)
            return self._is_sought(_id(work), ids_of_calls) or bool(self._delegation_partners(_id(work), said))

        part = rebuild.rebuild_part(
            *loaded[0], completeness=work.cuts[0].completeness, is_sought=is_sought, watch=watch or self._watch
        )
        return Read(
            work, () if work.is_again else _with_attributes(part.traces, watch), part.ends, part.ids_of_calls, said
        )

    def keeps(self, read: Read, now_ns: int) -> bool:
        """See `Reader.keeps`."""
        work, trace_id = read.work, _id(read.work)
        self._unread.pop(id(work), None)
        self._compared_with.pop(trace_id, None)
        self._unjoined.take(read.traces)
        if work.is_turn:
            return False
        is_kept = False
        if read.ends is None or work.cuts[0].completeness == "truncated":
            is_kept = self._keeps_ordinary(read, now_ns)
        elif not work.is_again:
            is_kept = self._keeps_part(read.ends, read, now_ns)
        elif trace_id not in self._parts:
            self._parts.add(read.ends, None, now_ns)
        for cut in self._parts.replaced():
            self._source.assembler.done(cut)
        if is_kept:
            self._done(work)
        return is_kept

    def finished(self, work: Work, now_ns: int) -> None:
        """See `Reader.finished`."""
        self._unread.pop(id(work), None)
        self._done(work)
        for trace_id in _ids([work]):
            if trace_id in self._again_after:
                self._again_after.discard(trace_id)
                self._read_again(trace_id, now_ns)

    def is_part(self, cut: Cut) -> bool:
        """See `Reader.is_part`."""
        return cut.trace_id in self._parts

    def _keeps_ordinary(self, read: Read, now_ns: int) -> bool:
        """Remember by what others may know a trace that is dealt with by itself.

        One that may have asked it can have been read at the same time: then it is read once more, as what it may be.
        """
        work, trace_id = read.work, _id(read.work)
        if read.ends is None and not work.is_again and self._delegation_partners(trace_id, read.hints):
            self._unread[id(work)] = now_ns
            self._later.append(work)
            return True
        self._parts.forget(trace_id)
        self._recent.add(read.ids_of_calls, trace_id, now_ns)
        if not work.is_again:
            self._read_after(trace_id, read.ids_of_calls)
        return False

    def _keeps_part(self, ends: turns.TraceFragment, read: Read, now_ns: int) -> bool:
        """Take in what may be part of a turn with others, and have those read again that were dealt with before."""
        sought = [x for x in ends.links if x not in self._parts]
        same = [x for x in self._recent.find(ends.repeatable) if x != ends.trace_id and self._can_read(x)]
        partners = self._delegation_partners(ends.trace_id, read.hints)
        compared = [x for x in dict.fromkeys((*same, *partners)) if x not in self._parts]
        if compared:
            self._compared_with[ends.trace_id] = compared
            ends = replace(ends, must_wait=True)
        is_kept = self._parts.add(ends, read.work.cuts[0], now_ns)
        for trace_id in (*sought, *compared):
            self._read_again(trace_id, now_ns)
        return is_kept

    def _hear(self, work: Work, hints: turns.DelegationHints | None) -> None:
        """Remember what a trace says, by which others may find that they have to do with it."""
        if hints is not None and not work.is_again:
            heard_ns = self._unread.get(id(work), 0)
            with self._talking:
                self._delegations.add(_id(work), hints, heard_ns)
                self._delegations.forget_before(heard_ns - self._late_window_ns)

    def _delegation_partners(self, trace_id: str, hints: turns.DelegationHints | None) -> list[str]:
        """The traces of which one's tool call may have asked the other. May be called from any thread."""
        if hints is None:
            return []
        with self._talking:
            found = self._delegations.of(trace_id, hints)
        return [x for x in found if x in self._parts or self._can_read(x)]

    def _can_read(self, trace_id: str) -> bool:
        """Whether a trace that was cut can be read again."""
        return self._source.assembler.can_read(self._key(trace_id))

    def _key(self, trace_id: str) -> bytes:
        """What the assembler knows a trace of this tenant by."""
        return keys.with_tenant(bytes.fromhex(trace_id), self._tenant)

    def _read_after(self, trace_id: str, ids_of_calls: Sequence[str]) -> None:
        """Have a trace read again after it was dealt with, if a part that was read meanwhile looks for it.

        Such parts wait for that, however long the scoring takes: by themselves they would be taken for whole turns.
        """
        if not self._is_sought(trace_id, ids_of_calls):
            return
        self._again_after.add(trace_id)
        for part in self._parts.seekers(_keys(trace_id, ids_of_calls)):
            self._compared_with.setdefault(part, []).append(trace_id)

    def _is_sought(self, trace_id: str, ids_of_calls: Sequence[str]) -> bool:
        """Whether a part looks for a trace, by its own id or by that of a model call in it."""
        return any(self._parts.is_sought(x) for x in _keys(trace_id, ids_of_calls))

    def _one_of_each(self, works: Sequence[Work]) -> list[Work]:
        """Of these traces, those that are not in work already, which they now are; the others come later."""
        found: list[Work] = []
        self._later = []
        for work in works:
            trace_id = _id(work)
            if trace_id in self._in_work:
                self._later.append(work)
            else:
                self._in_work.add(trace_id)
                found.append(work)
        return found

    def _is_busy(self, trace_id: str) -> bool:
        """Whether a trace is in work, or one with which it has to be compared before it is dealt with."""
        return trace_id in self._in_work or any(x in self._in_work for x in self._compared_with.get(trace_id, ()))

    def _done(self, work: Work) -> None:
        self._in_work.difference_update(_ids([work]))

    def _read_again(self, trace_id: str, now_ns: int) -> None:
        """Have a trace read again that was dealt with as an ordinary one, now that another looks for it."""
        if trace_id in self._in_work:
            self._again_after.add(trace_id)
        elif trace_id not in self._parts:
            cut = self._source.assembler.again(self._key(trace_id), now_ns)
            self._again += [] if cut is None else [Work((cut,), is_again=True)]

    def _together(self, parts: Sequence[tuple[turns.TraceFragment, Cut | None]], now_ns: int) -> Work:
        assembler = self._source.assembler
        for part, _ in parts:
            self._compared_with.pop(part.trace_id, None)
        cuts = (cut or assembler.again(self._key(part.trace_id), now_ns) for part, cut in parts)
        within = turns.asked_within(part for part, _ in parts)
        return Work(tuple(x for x in cuts if x is not None), is_turn=True, within=within)


def _with_attributes(traces: Sequence[AgentTrace], watch: SpanAttributes | None) -> Sequence[AgentTrace]:
    return traces if watch is None else watch.added_to(traces)


def _keys(trace_id: str, ids_of_calls: Sequence[str]) -> Iterator[str]:
    """What parts look for a trace by."""
    yield turns.keys.trace(trace_id)
    yield from map(turns.keys.model_call, ids_of_calls)


def _id(work: Work) -> str:
    return work.cuts[0].trace_id


def _ids(works: Sequence[Work]) -> list[str]:
    return [cut.trace_id for work in works for cut in work.cuts]
