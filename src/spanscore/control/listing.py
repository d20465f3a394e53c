"""The traces or sessions that a target names, page by page, and the sample of them that a run
evaluates.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from spanscore.errors import NotFoundError
from spanscore.model.trace import AgentTrace
from spanscore.specs.target import Sampling, TargetSpec, TraceFilter
from spanscore.store.listing import TraceScores
from spanscore.store.runs import Run, RunTables
from spanscore.store.store import Store

_TRACES, _SESSIONS, _IDS = 500, 50, 200
_MAX_BYTES = 8 * 2**20
_SHOWN = 3
_LAST = 2**63 - 1


class Page(NamedTuple):
    """Some of what a target names, and where the next page begins; None after the last."""

    subjects: list[str]
    next: str | None


def refuse_unknown(store: Store, tenant: str, target: TargetSpec) -> None:
    """Raise NotFoundError where a tenant has not all that a target names by its ids; a source is
    not asked. Blocks.
    """
    if target.source is not None:
        return
    if target.trace_ids:
        ids = [id_.lower() for id_ in target.trace_ids]
        what, unknown = "traces", store.read_runs(lambda x: x.unknown_traces(tenant, ids))
    elif target.session_ids:
        what, unknown = (
            "sessions",
            store.read_runs(lambda x: x.unknown_sessions(tenant, target.session_ids)),
        )
    else:
        return
    if unknown:
        some = ", ".join(map(repr, unknown[:_SHOWN])) + (
            " and others" if len(unknown) > _SHOWN else ""
        )
        raise NotFoundError(
            f"{len(unknown)} of the {what} are not stored (retention may have deleted them): {some}"
        )


def page(
    store: Store,
    tenant: str,
    target: TargetSpec,
    cursor: str,
    *,
    stored_by_ns: int,
    rows: tuple[int, int] | None = None,
) -> Page:
    """What follows `cursor`, "" at the beginning, of all that `target` names, before a sample is
    taken. Blocks.

    Where there are `rows`, without ids, only traces with rows above the first up to the second, and
    their sessions.
    """
    if target.trace_ids or target.session_ids:
        return _of_ids(store, tenant, target, int(cursor or 0))
    if target.scope == "session":
        return _of_sessions(store, tenant, target, cursor, stored_by_ns, rows)
    if rows is not None:
        return _of_rows(store, tenant, target, int(cursor or rows[0]), rows[1])
    wanted = target.filter or TraceFilter()
    if wanted == TraceFilter() and not target.where:
        ids = store.read_runs(
            lambda x: x.trace_ids(tenant, cursor, _TRACES, stored_by_ns=stored_by_ns)
        )
        return Page(ids, ids[-1] if ids else None)
    found = store.read_runs(
        lambda x: x.traces(tenant, cursor, _TRACES, max_bytes=_MAX_BYTES, stored_by_ns=stored_by_ns)
    )
    accepted = {id_: trace for id_, trace in found if trace is not None and wanted.accepts(trace)}
    return Page(_that_meet(store, tenant, target, accepted), found[-1][0] if found else None)


def _that_meet(
    store: Store, tenant: str, target: TargetSpec, traces: Mapping[str, AgentTrace]
) -> list[str]:
    """The ids of the traces that meet the target's condition, which may be on their scores."""
    condition = target.condition()
    if condition is None:
        return list(traces)
    scores = store.read_runs(lambda x: x.scores(tenant, list(traces)))
    return [
        id_ for id_, trace in traces.items() if condition.matches(TraceScores(trace, scores[id_]))
    ]


def has_newer(store: Store, tenant: str, target: TargetSpec, row: int) -> bool:
    """Whether a trace of what `target` names was stored or changed after a row. Blocks."""
    is_named = bool(target.trace_ids or target.session_ids)
    rows = None if is_named else (row, _LAST)
    cursor: str | None = ""
    while cursor is not None:
        found = page(store, tenant, target, cursor, stored_by_ns=_LAST, rows=rows)
        if found.subjects and not is_named:
            return True
        if found.subjects and _is_newer(store, tenant, target, found.subjects, row):
            return True
        cursor = found.next
    return False


def _is_newer(
    store: Store, tenant: str, target: TargetSpec, subjects: Sequence[str], row: int
) -> bool:
    are_sessions = target.scope == "session"
    return store.monitors.read(
        lambda tables: tables.has_newer(tenant, subjects, row, are_sessions=are_sessions)
    )


def every_page(
    store: Store, tenant: str, target: TargetSpec, *, stored_by_ns: int
) -> Iterator[list[str]]:
    """All that `target` names of what a tenant has, in pages. Blocks."""
    cursor: str | None = ""
    while cursor is not None:
        found = page(store, tenant, target, cursor, stored_by_ns=stored_by_ns)
        cursor = found.next
        yield found.subjects


def digest(store: Store, tenant: str, target: TargetSpec) -> str:
    """The same as long as `target` names the same traces or sessions. Blocks."""
    found = hashlib.sha256()
    for subjects in every_page(store, tenant, target, stored_by_ns=_LAST):
        for subject in subjects:
            found.update(subject.encode("utf-8", "surrogatepass") + b"\0")
    return found.hexdigest()


def add(tables: RunTables, run: Run, sampling: Sampling, found: Page, now_ns: int) -> Run | None:
    """Keep those of a page that are drawn as items of `run`, with how far its listing is; None
    where it is gone.
    """
    drawn = [(x, sampling.draw(x)) for x in found.subjects if sampling.is_in_share(x)]
    added = tables.add_items(run, drawn)
    items = (
        run.progress.items
        + added
        - _limited_to(tables, run, sampling, run.progress.items + added, found.next is None)
    )

    def listed(current: Run) -> Run:
        candidates = current.progress.candidates + len(found.subjects)
        probability = sampling.probability(candidates)
        progress = replace(current.progress, cursor=found.next, candidates=candidates, items=items)
        return replace(current, progress=replace(progress, sampling=probability))

    return tables.change(run.id, now_ns, listed)


def _limited_to(tables: RunTables, run: Run, sampling: Sampling, items: int, is_last: bool) -> int:
    """How many items go again, since others have lower draws: all that are too many at the end, and
    some before.
    """
    if sampling.count is None or items <= sampling.count * (1 if is_last else 2):
        return 0
    highest = tables.highest_draw(run.id, sampling.count)
    return 0 if highest is None else tables.drop_above(run.id, highest)


def _of_ids(store: Store, tenant: str, target: TargetSpec, start: int) -> Page:
    ids = list(dict.fromkeys(target.trace_ids or target.session_ids))
    some = ids[start : start + _IDS]

    def resolved(tables: RunTables) -> list[str]:
        if target.trace_ids:
            found = [turn for id_ in some for turn in tables.turns(tenant, id_)]
        elif target.scope == "session":
            found = [x for id_ in some for x in tables.sessions_of(tenant, id_)]
        else:
            found = [turn for id_ in some for turn in tables.turns_of_session(tenant, id_)]
        return list(dict.fromkeys(found))

    end = start + len(some)
    return Page(store.read_runs(resolved), str(end) if end < len(ids) else None)


def _of_rows(store: Store, tenant: str, target: TargetSpec, after: int, until: int) -> Page:
    found = store.read_runs(
        lambda x: x.traces_in(tenant, after, _TRACES, max_bytes=_MAX_BYTES, until=until)
    )
    wanted = target.filter or TraceFilter()
    accepted = {
        id_: trace for _, id_, trace in found if trace is not None and wanted.accepts(trace)
    }
    return Page(_that_meet(store, tenant, target, accepted), str(found[-1][0]) if found else None)


def _of_sessions(
    store: Store,
    tenant: str,
    target: TargetSpec,
    cursor: str,
    stored_by_ns: int,
    rows: tuple[int, int] | None,
) -> Page:
    keys = store.read_runs(
        lambda x: x.session_keys(tenant, cursor, _SESSIONS, stored_by_ns=stored_by_ns, rows=rows)
    )
    accepted = keys
    if target.filter is not None and target.filter != TraceFilter():
        has_trace = partial(RunTables.has_trace, tenant=tenant, is_wanted=target.filter.accepts)
        accepted = [key for key in keys if store.read_runs(partial(has_trace, session_key=key))]
    condition = target.condition()
    if condition is not None:  # one at a time: a session may be large
        accepted = [
            key
            for key in accepted
            if any(map(condition.matches, store.sessions([key], tenant=tenant)))
        ]
    return Page(accepted, keys[-1] if len(keys) == _SESSIONS else None)
