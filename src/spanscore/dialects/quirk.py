"""What a quirk is: how the spans of one framework or instrumentation differ from what their dialect
expects.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from spanscore.dialects.content_switch import ContentSwitch
from spanscore.dialects.forms.values import Facts, Side, text
from spanscore.dialects.log_turns import LogTurns
from spanscore.model.span import Span
from spanscore.model.step import Message, Step

Items: TypeAlias = list[dict[str, Any]]
"""The messages of one side of a model call, as objects, before they become messages."""


def _same_span(span: Span) -> Span:
    return span


def _as_it_is(_span: Span, _facts: Facts, _outermost: bool) -> None:
    """Change nothing."""


def _nothing_more(_span: Span, _facts: Facts) -> None:
    """Add nothing."""


def _same_items(_span: Span, items: Items) -> Items:
    return items


def _no_messages(_span: Span, _side: Side, _facts: Facts) -> tuple[Message, ...] | None:
    return None


def _name_of_span(span: Span) -> str | None:
    return text(span.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirk:
    """How a framework's spans differ from what the dialect named `under` reads in general.

    It is for spans of that dialect whose scope's name is among `scopes`, or for which `matches` is
    true; of several, the first by name. Every dialect can have quirks with these parts:

    - `prepare` gives the span that is read, perhaps with other attributes.
    - `complete` adds to the facts that were read, in place, or corrects them.
    - `refine_trace` is given all steps of a trace that the dialect read, and gives them back,
      perhaps with other facts.
    - `content` is what turns on the recording of content in such spans, each by the start of a
      scope's name.
    - `log_turns` finds the turns that it records in log records.
    - `claims_scopes`: spans of these scopes are of the dialect, also where nothing else shows it.

    Dialects that read for many frameworks use more: OpenInference all of these, OpenLLMetry `place`
    and `items`, MLflow `place` and `agent_name`.

    - `place` corrects, in place, the kind of the step and whose it is, before its content is read.
      It is given whether no span above this one is read by any dialect.
    - `items` changes flattened messages before they are read.
    - `messages` gives the messages of one side in place of the flattened ones; None where the span
      has none.
    - `agent_name` gives the name of an agent whose span states none; by default the span's name.
    - `envelope` is the key under which the framework puts what a function returned and that is no
      object.
    - `omits_empty_arguments`: a call without arguments is recorded without them.
    - `returns_state`: an object that a function returned is the framework's state, and no answer.
    """

    name: str
    under: str
    scopes: tuple[str, ...] = ()
    matches: Callable[[Span], bool] | None = None
    claims_scopes: bool = False
    content: tuple[ContentSwitch, ...] = ()
    log_turns: tuple[LogTurns, ...] = ()
    prepare: Callable[[Span], Span] = _same_span
    place: Callable[[Span, Facts, bool], None] = _as_it_is
    items: Callable[[Span, Items], Items] = _same_items
    messages: Callable[[Span, Side, Facts], tuple[Message, ...] | None] = _no_messages
    agent_name: Callable[[Span], str | None] = _name_of_span
    envelope: str | None = None
    omits_empty_arguments: bool = False
    returns_state: bool = False
    complete: Callable[[Span, Facts], None] = _nothing_more
    refine_trace: Callable[[Sequence[Step]], Sequence[Step]] | None = None


NO_QUIRK = Quirk(name="", under="")
"""The quirk of a span that is as its dialect reads it in general."""


@dataclass(frozen=True, slots=True)
class Quirks:
    """All quirks of one dialect: finds the one of a span."""

    by_scope: Mapping[str, Quirk] = field(default_factory=dict)
    looking: tuple[tuple[Callable[[Span], bool], Quirk], ...] = ()

    @classmethod
    def of(cls, quirks: Iterable[Quirk]) -> "Quirks":
        """Arrange quirks; of two with the same scope the first one counts."""
        by_scope: dict[str, Quirk] = {}
        looking = []
        for quirk in quirks:
            for scope in quirk.scopes:
                by_scope.setdefault(scope, quirk)
            if quirk.matches is not None:
                looking.append((quirk.matches, quirk))
        return cls(by_scope, tuple(looking))

    def find(self, span: Span) -> Quirk:
        """The quirk of a span, or `NO_QUIRK`."""
        found = self.by_scope.get(span.scope.name)
        if found is not None:
            return found
        for matches, quirk in self.looking:
            if matches(span):
                return quirk
        return NO_QUIRK
