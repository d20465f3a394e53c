"""Custom metrics from functions."""

import asyncio
import copy
import dataclasses
import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, overload

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from spanscore.errors import InputError, shortened
from spanscore.metrics._base import Metric, Threshold
from spanscore.metrics.own.registry import (
    MIDDLE,
    Origin,
    attach,
    check_name,
    checked_facts,
    checked_scale,
    checked_threshold,
    lacking,
    lacking_in_session,
    register,
)
from spanscore.metrics.own.threads import Threads, too_long
from spanscore.model.json import dumps, loads
from spanscore.model.score import Failure, Outcome, ScopeKind, Score, Skip, reaches
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


DEFAULT_TIMEOUT_S = 30.0

Better: TypeAlias = Literal["higher", "lower"]

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_THREADS = Threads()


@dataclass(frozen=True, slots=True)
class _Call:
    """The function of a metric, and how it is called."""

    function: Callable[..., Any]
    signature: Signature
    timeout_s: float

    async def __call__(
        self, name: str, subject: Any, earlier: Sequence[AgentTrace], options: dict[str, Any]
    ) -> Any:
        """What the function returns; what is awaitable is awaited.

        Raises what it raises, or TimeoutError.
        """
        arguments = (subject, tuple(earlier)) if self.signature.takes_earlier else (subject,)

        def call() -> Any:
            return self.function(*arguments, **options)

        if inspect.iscoroutinefunction(self.function):
            return await self._awaited(call(), name)
        returned = await _THREADS.call(call, timeout_s=self.timeout_s, name=name)
        return await self._awaited(returned, name) if inspect.isawaitable(returned) else returned

    async def _awaited(self, returned: Any, name: str) -> Any:
        try:
            async with asyncio.timeout(self.timeout_s) as limit:
                return await returned
        except TimeoutError:
            if limit.expired():
                raise TimeoutError(too_long(name, self.timeout_s)) from None
            raise
        except SystemExit as error:  # which would end the event loop
            raise RuntimeError(f"{name} raised SystemExit: {error}") from error


@dataclass(frozen=True)
class FunctionMetric(Metric):
    """A metric that a function measures; `metric` makes a subclass of each function."""

    method: ClassVar[str] = "function"
    call: ClassVar[_Call]

    threshold: Threshold | None = None

    def threshold_for(self, embedding: str | None) -> float | None:
        """The threshold; None where scores get no label, or get it by `measure`, since lower is
        better.
        """
        del embedding
        return None if self.better == "lower" else self.threshold

    def unmeasurable(self, trace: AgentTrace) -> Skip | None:
        """Why `trace` cannot be measured: a fact in `needs` was not recorded, or arrived
        damaged.
        """
        return lacking(trace, self.needs)

    def unmeasurable_session(self, session: Session) -> Skip | None:
        """Why `session` cannot be measured: no turn recorded a fact in `needs` whole."""
        return lacking_in_session(session, self.needs)

    async def measure(
        self, subject: AgentTrace | Session, earlier: Sequence[AgentTrace] = ()
    ) -> Outcome:
        """Measure a trace, with the session's turns before it, or a session.

        Raises what the function raises.
        """
        options = {
            x.name: getattr(self, x.name) for x in dataclasses.fields(self) if x.name != "threshold"
        }
        try:
            returned = await self.call(self.name, subject, earlier, options)
        except Exception as error:
            if place := _place(error, self.call.function):
                error.add_note(f"({place})")
            raise
        outcome = outcome_of(returned, self.name, self.scale)
        if self.better == "lower" and self.threshold is not None and isinstance(outcome, Score):
            return _passing_up_to(self.threshold, outcome)
        return outcome


def _passing_up_to(threshold: float, score: Score) -> Score:
    """The score with its label, unless the function gave one, where lower is better."""
    label = score.label or ("pass" if reaches(threshold, score.value) else "fail")
    return Score(score.value, score.reason, {**score.metadata, "passes_up_to": threshold}, label)


def _place(error: BaseException, function: Callable[..., Any]) -> str | None:
    """The line in the function's file from which `error` comes; None where it does not come from
    there.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    frames = traceback.extract_tb((error.__cause__ or error).__traceback__)
    lines = [x.lineno for x in frames if code is not None and x.filename == code.co_filename]
    return (
        f"{Path(code.co_filename).name}, line {lines[-1]}" if code is not None and lines else None
    )


@overload
def metric(function: FunctionT, /) -> FunctionT: ...


@overload
def metric(
    *,
    name: str | None = None,
    scope: ScopeKind | None = None,
    scale: tuple[float, float] = (0.0, 1.0),
    threshold: float | None = ...,
    better: Better = "higher",
    needs: Iterable[str] | str = (),
    version: str = "1",
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> Callable[[FunctionT], FunctionT]: ...


def metric(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    scope: ScopeKind | None = None,
    scale: tuple[float, float] = (0.0, 1.0),
    threshold: float | None = MIDDLE,
    better: Better = "higher",
    needs: Iterable[str] | str = (),
    version: str = "1",
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> Any:
    """Make a metric of a function.

    The function itself stays as it is, and can be called and tested as before.

    It takes an `AgentTrace`, or a `Session` (by the parameter's annotation, its name `session`, or
    `scope`), and of a trace, where it has a parameter `earlier`, the session's turns before it,
    oldest first. Keyword-only parameters, which need defaults, are the metric's options. It may be
    async; else it is called in a thread.

    It returns a number on `scale`, True or False (the ends of the scale), None where it does not
    apply, one of these with a reason as `(value, reason)`, or a `Score`, `Skip` or `Failure`. An
    exception, or anything else, is a failed score that says what went wrong; so is what takes
    longer than `timeout_s`.

    The metric is named after the function, its docstring describes it. `needs` names the facts
    (fields of `AgentTrace`) without which it is skipped; `threshold`, from which on the label is
    `pass`, is the middle of the scale unless given, and None for no label. A changed `version` says
    that scores are not comparable with earlier ones.

    With `better="lower"`, for a count of faults for instance, the label is `pass` up to the
    threshold, and comparisons take less for the better. The score then has the threshold as
    `passes_up_to` in its metadata, and no `threshold`, which everywhere else is the least that
    passes.

    Raises InputError where no metric can be made of the function.
    """
    if better not in {"higher", "lower"}:
        raise InputError(f"better={better!r}: give 'higher' or 'lower'")
    facts = checked_facts(needs)
    settings = _Settings(
        name, scope, checked_scale(scale), threshold, better, facts, version, timeout_s
    )
    if function is not None:
        return _registered(function, settings)
    return lambda given: _registered(given, settings)


@dataclass(frozen=True, slots=True)
class _Settings:
    """What the decorator was given."""

    name: str | None
    scope: ScopeKind | None
    scale: tuple[float, float]
    threshold: float | None
    better: Better
    needs: tuple[str, ...]
    version: str
    timeout_s: float


def _registered(function: Callable[..., Any], settings: _Settings) -> Callable[..., Any]:
    """`function`, with a metric made of it under its name."""
    if not callable(function) or isinstance(function, type):
        raise InputError(
            f"{function!r} cannot be a metric: decorate a function of a trace or a session"
        )
    name = settings.name or str(getattr(function, "__name__", ""))
    check_name(name)
    signature = signature_of(function, name, settings.scope)
    if signature.takes_earlier and signature.scope == "session":
        raise InputError(
            f"{name}: a session has all of its turns; leave out the parameter `earlier`"
        )
    made = _class_of(function, name, signature, settings)
    attach(function, made)
    code = getattr(inspect.unwrap(function), "__code__", None)
    place = str(getattr(function, "__qualname__", name))
    register(made, Origin(made.__module__, code.co_filename if code else "", place))
    return function


def _class_of(
    function: Callable[..., Any], name: str, signature: Signature, settings: _Settings
) -> type[FunctionMetric]:
    description = inspect.getdoc(function) or ""
    module = getattr(function, "__module__", None) or __name__
    facts = {
        "name": name,
        "summary": " ".join(description.split("\n\n")[0].split()) or f"What does {name} give?",
        "scope": signature.scope,
        "run": signature.scope,
        "scale": settings.scale,
        "better": settings.better,
        "version": settings.version,
        "needs": settings.needs,
        "looks_back": signature.takes_earlier,
        "call": _Call(function, signature, settings.timeout_s),
        "__doc__": description or f"What the function {name} gives.",
    }
    threshold = checked_threshold(name, settings.threshold, settings.scale)
    fields = [
        ("threshold", Threshold | None, dataclasses.field(default=threshold)),
        *signature.fields(),
    ]
    made = dataclasses.make_dataclass(
        name.replace(".", "_"), fields, bases=(FunctionMetric,), namespace=facts, frozen=True
    )
    made.__module__ = module
    return made


_MAX_REASON_CHARACTERS = 10_000
_MAX_SHOWN = 80
_NO_SCORE = "InvalidScoreError"


def outcome_of(returned: object, name: str, scale: tuple[float, float]) -> Outcome:
    """The outcome that `returned` stands for; a Failure that says what to return where it stands
    for none.

    True is the upper end of `scale` and False the lower one. None, alone or with a reason, is a
    Skip: the metric does not apply. Whether a number lies on the scale is not looked at here.

    >>> outcome_of(True, "polite", (0, 5)).value
    5
    >>> outcome_of((0.5, "half of it is polite"), "polite", (0, 1)).reason
    'half of it is polite'
    >>> outcome_of("yes", "polite", (0, 1)).message[:64]
    "polite returned 'yes' (str); return a number from 0 to 1, True, "
    """
    if isinstance(returned, Score):
        return _checked(returned, name)
    if isinstance(returned, Skip | Failure):
        return returned
    value, reason = returned, None
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], str):
        value, reason = returned
    if value is None:
        return Skip(reason or f"{name} returned None: it does not apply.", "not_applicable")
    number = _number(value, scale)
    if number is None:
        return _refused(returned, name, scale)
    return Score(number, shortened(reason or f"{name} returned {value!r}.", _MAX_REASON_CHARACTERS))


def _number(value: object, scale: tuple[float, float]) -> float | None:
    """A number or truth, also one of numpy's or of a tensor with one element; None for anything
    else.
    """
    if not isinstance(value, Real) and hasattr(value, "item"):
        try:
            value = value.item()
        except Exception:  # noqa: BLE001 - an array of several, or another class's item() altogether
            return None
    if isinstance(value, bool):
        return scale[1] if value else scale[0]
    return float(value) if isinstance(value, Real) else None


def _checked(score: Score, name: str) -> Outcome:
    """A Score of a function's own making, with metadata that can be stored and sent."""
    if not isinstance(score.reason, str):
        return Failure(
            _NO_SCORE, f"{name} returned a Score whose reason is no text: {_shown(score.reason)}"
        )
    if score.label is not None and not isinstance(score.label, str):
        return Failure(
            _NO_SCORE, f"{name} returned a Score whose label is no text: {_shown(score.label)}"
        )
    try:
        metadata: Any = loads(dumps(dict(score.metadata)))
    except (ValueError, TypeError, RecursionError) as error:
        return Failure(
            _NO_SCORE, f"{name} returned a Score whose metadata cannot be written as JSON: {error}"
        )
    return Score(
        score.value, shortened(score.reason, _MAX_REASON_CHARACTERS), metadata, score.label
    )


def _refused(returned: object, name: str, scale: tuple[float, float]) -> Failure:
    low, high = scale
    return Failure(
        _NO_SCORE,
        f"{name} returned {_shown(returned)}; return a number from {low:g} to {high:g}, True,"
        " False, None, one of these with a reason as (value, reason), or a spanscore.Score or"
        " Skip",
    )


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - another's __repr__
        text = "something"
    return f"{text[:_MAX_SHOWN]} ({type(value).__name__})"
