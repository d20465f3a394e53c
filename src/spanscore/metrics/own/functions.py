"""`@spanscore.metric`: a metric made from a function of a trace or a session."""

import asyncio
import dataclasses
import inspect
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, overload

from spanscore.errors import InputError
from spanscore.metrics._base import Metric, Threshold
from spanscore.metrics.own.facts import checked_facts, lacking, lacking_in_session
from spanscore.metrics.own.registry import Origin, attach, check_name, register
from spanscore.metrics.own.returned import outcome_of
from spanscore.metrics.own.scales import MIDDLE, checked_scale, checked_threshold
from spanscore.metrics.own.signature import Signature, signature_of
from spanscore.metrics.own.threads import Threads, too_long
from spanscore.model.score import Outcome, ScopeKind, Score, Skip, reaches
from spanscore.model.trace import AgentTrace, Session

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
