"""Selection and grouping of scores."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from sqlalchemy import ColumnElement
from sqlalchemy.engine import Connection

from spanscore.errors import FieldError, nearest
from spanscore.filters import And, Comparison, Field, Fields, Node, Not, parse, test_of
from spanscore.model.trace import TURN_OUTCOMES
from spanscore.store import selections
from spanscore.store.selections import Context, Procedure, Scores

OURS: Final = "spanscore"
"""The source of what spanscore measured."""

PROCEDURE_FIELDS: Final[Fields[Procedure]] = {
    "metric": Field("text", lambda x: x.metric),
    "scope": Field("word", lambda x: x.scope, ("trace", "session")),
    "source": Field("text", lambda x: x.source or OURS),
    "evaluator": Field("text", lambda x: x.evaluator),
    "evaluator_version": Field("text", lambda x: x.evaluator_version),
    "evaluator_kind": Field("word", lambda x: x.evaluator_kind, ("LLM", "CODE", "HUMAN")),
    "judge_model": Field("text", lambda x: x.judge_model),
    "rule": Field("text", lambda x: x.rule),
}
SUBJECT_FIELDS: Final[Fields[Context]] = {
    "service": Field("text", lambda x: x.service),
    "agent": Field("text", lambda x: x.agent),
    "environment": Field("text", lambda x: x.environment),
    "version": Field("text", lambda x: x.version),
    "model": Field("text", lambda x: x.model),
    "outcome": Field("word", lambda x: x.outcome, TURN_OUTCOMES),
    "tool": Field("texts", lambda x: x.tools),
}
TAG_FIELDS: Final[Fields[Sequence[str]]] = {"tags": Field("texts", lambda x: x)}
FILTER_FIELDS: Final[Fields[Any]] = {**PROCEDURE_FIELDS, **SUBJECT_FIELDS, **TAG_FIELDS}

_PROCEDURE_GROUPS: Final = (
    "evaluator",
    "evaluator_version",
    "evaluator_kind",
    "judge_model",
    "rule",
)
GROUP_FIELDS: Final = (*SUBJECT_FIELDS, *_PROCEDURE_GROUPS)
"""By what figures can be grouped beside metric, scope and source, which always keep them apart."""

_Wants: TypeAlias = Callable[[Any], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The scores that a question is about: those of a tenant, of what happened from
    `start_ns` to before `end_ns` (Unix ns).

    `filter` is of `FILTER_FIELDS`. `run`: those of an evaluation run; "": what was scored as it
    came, and what others gave.
    """

    tenant: str = ""
    filter: str = ""
    start_ns: int | None = None
    end_ns: int | None = None
    run: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """The procedures of which figures are made together: of one metric, scope and source, and of
    one of each group.

    Each has scores that are selected: what others have in common changes no figure.
    """

    metric: str
    scope: str
    source: str
    groups: Mapping[str, str | None]
    procedures: Sequence[Procedure]

    @property
    def scored(self) -> list[Procedure]:
        """Those whose scores have a value or a label."""
        return [x for x in self.procedures if x.status == "scored"]

    @property
    def by_id(self) -> dict[int, Procedure]:
        """All of them, by id."""
        return {x.id: x for x in self.procedures}

    @property
    def is_given(self) -> bool:
        """Whether others gave the scores: of these a subject may have several."""
        return any(x.source is not None for x in self.procedures)

    @property
    def scale(self) -> tuple[float, float] | None:
        """The scale of the values, wide enough for all; None where one is not recorded."""
        lows, highs = [x.low for x in self.scored], [x.high for x in self.scored]
        if not lows or None in lows or None in highs:
            return None
        low, high = min(x for x in lows if x is not None), max(x for x in highs if x is not None)
        return (low, high) if low < high else None

    def bounds(self, values: Any) -> tuple[float, float]:
        """What becomes 0 and 1: the scale, or where none is recorded the lowest and the highest of
        `values`.
        """
        if self.scale is not None:
            return self.scale
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
        return (low, high) if low < high else (low, low + 1.0)

    @property
    def least_chance(self) -> float:
        """The least chance with which a score was drawn."""
        return min((x.sampling for x in self.scored), default=1.0)


@dataclass(frozen=True, slots=True)
class Selected:
    """What a selection comes to in a store.

    `fields` are those of `group_by` that what was scored has. `known` has the contexts by id, where
    it matters which they are.
    """

    selection: Selection
    parts: Sequence[Part]
    contexts: Sequence[int] | None
    tagged: ColumnElement[bool] | None
    group_by: Sequence[str]
    fields: Sequence[str]
    known: Mapping[int, Context]

    def scores(self, procedures: Iterable[Procedure]) -> Scores:
        """The scores of some procedures."""
        return Scores(
            procedures=[x.id for x in procedures],
            contexts=self.contexts,
            tagged=self.tagged,
            start_ns=self.selection.start_ns,
            end_ns=self.selection.end_ns,
        )


def select(connection: Connection, selection: Selection, group_by: Sequence[str] = ()) -> Selected:
    """What a selection comes to.

    Raises FieldError where its filter or `group_by` cannot be right.
    """
    _check_groups(group_by)
    if (
        selection.start_ns is not None
        and selection.end_ns is not None
        and selection.start_ns >= selection.end_ns
    ):
        raise FieldError("end_ns", "is not after start_ns")
    of_procedures, of_contexts, of_tags = _split(selection.filter)
    accepted = [
        x
        for x in selections.procedures(connection, selection.tenant, selection.run)
        if of_procedures is None or of_procedures(x)
    ]
    fields = [x for x in group_by if x in SUBJECT_FIELDS]
    known, wanted = _contexts(connection, selection.tenant, of_contexts, needed=bool(fields))
    tagged = None if of_tags is None else selections.tagged(of_tags, selection.tenant)
    found = Selected(selection, (), wanted, tagged, group_by, fields, {x.id: x for x in known})
    procedures = selections.with_scores(connection, accepted, found.scores(()))
    parts = _parts(procedures, [x for x in group_by if x not in SUBJECT_FIELDS])
    return replace(found, parts=list(parts))


def _contexts(
    connection: Connection, tenant: str, wants: _Wants | None, *, needed: bool
) -> tuple[list[Context], list[int] | None]:
    """The contexts that may be met, where it matters which; and the ids of those wanted, None for
    all.
    """
    if wants is None:
        return selections.contexts(connection, tenant) if needed else [], None
    known = [x for x in selections.contexts(connection, tenant) if wants(x)]
    return known, [x.id for x in known]


def groups_of(context: Context | None, fields: Sequence[str]) -> Iterator[tuple[str | None, ...]]:
    """The groups in which scores of a context count: by tool one for each tool, without a tool
    one; of a context that is not known none.
    """
    if context is None:
        return
    tools: Sequence[str | None] = context.tools or (None,)
    for tool in tools if "tool" in fields else (None,):
        yield tuple(tool if name == "tool" else getattr(context, name) for name in fields)


def _parts(procedures: Sequence[Procedure], group_by: Sequence[str]) -> Iterator[Part]:
    found: dict[tuple[Any, ...], list[Procedure]] = {}
    for procedure in procedures:
        named = tuple(getattr(procedure, name) for name in group_by)
        found.setdefault(
            (procedure.metric, procedure.scope, procedure.source or OURS, *named), []
        ).append(procedure)
    for key, those in sorted(found.items(), key=repr):
        metric, scope, source = key[:3]
        yield Part(metric, scope, source, dict(zip(group_by, key[3:], strict=True)), those)


def _check_groups(group_by: Sequence[str]) -> None:
    for name in group_by:
        if name not in GROUP_FIELDS:
            raise FieldError(
                "group_by", f"there is no group {name[:80]!r}; {nearest(name[:80], GROUP_FIELDS)}"
            )
    if len(set(group_by)) < len(group_by):
        raise FieldError("group_by", "names a group twice")


def _split(text: str) -> tuple[_Wants | None, _Wants | None, Node | None]:
    """The conditions of a filter on how scores were made, on what was scored, and on its tags;
    None: there are none of these.
    """
    found = parse(text, FILTER_FIELDS)
    conditions = () if found is None else _joined(found.node)
    kinds: tuple[Fields[Any], ...] = (PROCEDURE_FIELDS, SUBJECT_FIELDS, TAG_FIELDS)
    of_kinds: list[list[Node]] = [[] for _ in kinds]
    for condition in conditions:
        names = set(_names(condition))
        place = next((x for x, fields in enumerate(kinds) if names <= fields.keys()), None)
        if place is None:
            shown = " and ".join(sorted(names))
            raise FieldError(
                "filter", f"{shown} stand under one OR or NOT: join conditions on them by AND"
            )
        of_kinds[place].append(condition)
    of_procedures, of_contexts, of_tags = (And(tuple(x)) if x else None for x in of_kinds)
    return (
        None if of_procedures is None else test_of(of_procedures, PROCEDURE_FIELDS),
        None if of_contexts is None else test_of(of_contexts, SUBJECT_FIELDS),
        of_tags,
    )


def _joined(node: Node) -> Iterator[Node]:
    """The conditions that AND joins, also in parentheses."""
    if isinstance(node, And):
        for part in node.parts:
            yield from _joined(part)
    else:
        yield node


def _names(node: Node) -> Iterator[str]:
    match node:
        case Comparison():
            yield node.field
        case Not(part):
            yield from _names(part)
        case _:
            for part in node.parts:
                yield from _names(part)
