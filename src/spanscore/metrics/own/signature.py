"""What the signature of a metric's function says: what it measures, and which options it has."""

import copy
import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from spanscore.errors import InputError
from spanscore.metrics._base import Metric
from spanscore.model.score import ScopeKind
from spanscore.model.trace import AgentTrace, Session

_SUBJECTS: Mapping[str, ScopeKind] = {AgentTrace.__name__: "trace", Session.__name__: "session"}
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_RESERVED = frozenset(x for x in dir(Metric) if not x.startswith("__")) | {
    "call",
    "measure",
    "unmeasurable_session",
}
_PLAIN = (bool, int, float, str)
EARLIER = "earlier"


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a metric: a keyword-only parameter, with its type and default."""

    name: str
    kind: Any
    default: Any

    def field(self) -> tuple[str, Any, Any]:
        """As `dataclasses.make_dataclass` takes it; each metric gets a default of its own."""
        return (
            self.name,
            self.kind,
            dataclasses.field(default_factory=lambda: copy.deepcopy(self.default)),
        )


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function measures, whether it takes the turns before, and its options."""

    scope: ScopeKind
    takes_earlier: bool
    options: tuple[Option, ...]

    def fields(self) -> list[tuple[str, Any, Any]]:
        """The options as `dataclasses.make_dataclass` takes them."""
        return [x.field() for x in self.options]


def signature_of(function: Callable[..., Any], name: str, scope: ScopeKind | None) -> Signature:
    """The signature of the function of metric `name`; `scope`, if given, says what it measures.

    Raises InputError, which says how to write it, where the function cannot be called as a
    metric's.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise InputError(
            f"{name}: the parameters of {function!r} are not known; decorate a function"
        ) from None
    positional = [x for x in parameters if x.kind in _POSITIONAL]
    others = positional[1:]
    is_well_formed = bool(positional) and all(x.name == EARLIER or _has_default(x) for x in others)
    if not is_well_formed or any(x.kind is x.VAR_POSITIONAL for x in parameters):
        raise InputError(
            f"{name}{inspect.signature(function)}: a metric's function takes a trace or a session,"
            " of a trace also `earlier`, and options after a `*`, such as (trace, *, limit=5)"
        )
    if loose := [x.name for x in others if x.name != EARLIER]:
        raise InputError(f"{name}: options come after a `*`: write (…, *, {loose[0]}=…)")
    options = [_option(function, name, x) for x in parameters if x.kind is x.KEYWORD_ONLY]
    return Signature(_scope(function, name, positional[0], scope), bool(others), tuple(options))


def _scope(
    function: Callable[..., Any], name: str, subject: inspect.Parameter, given: ScopeKind | None
) -> ScopeKind:
    annotated = _SUBJECTS.get(_type_name(_annotation(function, subject)))
    if given not in {None, "trace", "session"}:
        raise InputError(f"{name}: the scope {given!r} is neither 'trace' nor 'session'")
    if given and annotated and given != annotated:
        raise InputError(
            f"{name}: {subject.name} is annotated as a {annotated}, but its scope is {given!r}"
        )
    return given or annotated or ("session" if subject.name == "session" else "trace")


def _type_name(annotation: Any) -> str:
    """The last part of a type's name, which may be written as a text that cannot be resolved
    here.
    """
    named = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return named.strip("'\"").rpartition(".")[2]


def _option(function: Callable[..., Any], metric: str, parameter: inspect.Parameter) -> Option:
    name = parameter.name
    if not _has_default(parameter):
        raise InputError(f"{metric}: the option {name} needs a default: write {name}=…")
    if name in _RESERVED or name.startswith("_"):
        raise InputError(f"{metric}: an option cannot be called {name}; choose another name")
    kind = _annotation(function, parameter)
    if kind is parameter.empty or isinstance(kind, str):
        kind = type(parameter.default) if isinstance(parameter.default, _PLAIN) else Any
    try:
        TypeAdapter(kind).validate_python(parameter.default)
    except ValidationError as error:
        [problem, *_] = error.errors(include_url=False)
        raise InputError(
            f"{metric}: the default of the option {name} is not of its type: {problem['msg']}"
        ) from None
    except (PydanticSchemaGenerationError, PydanticUserError):
        raise InputError(
            f"{metric}: a configuration cannot hold the option {name}, whose type is {kind!r}; use"
            " numbers, texts, lists, mappings or a pydantic model"
        ) from None
    return Option(name, kind, parameter.default)


def _annotation(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The parameter's type; a text that names what is not there at run time stays a text."""
    annotation = parameter.annotation
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, getattr(inspect.unwrap(function), "__globals__", {}))  # noqa: S307 - the author's own code
    except Exception:  # noqa: BLE001 - whatever the name stands for, it is not there
        return annotation


def _has_default(parameter: inspect.Parameter) -> bool:
    return parameter.default is not parameter.empty
