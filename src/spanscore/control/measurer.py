"""The engine and booked costs of one run."""

import asyncio
import hashlib
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from spanscore.config import Settings
from spanscore.embed.port import Embedder
from spanscore.errors import ConfigError, FieldError, InputError, shortened
from spanscore.evaluation import Config, Engine, Overrides
from spanscore.evaluation.rubric import is_rubric
from spanscore.judge import ModelJudge
from spanscore.judge.budget import TotalBudget
from spanscore.judge.config import Budget
from spanscore.judge.port import Judge
from spanscore.metrics import Metric
from spanscore.model.score import Evaluation, ScopeKind
from spanscore.scoring import refuse_misplaced
from spanscore.specs import MeasureSpec, RunBudget, RunSpec, TargetSpec
from spanscore.store.runs import Booked

_ADDRESS = re.compile(" at 0x[0-9a-f]+")
"""What Python shows of a function differs from process to process in this."""


@dataclass(frozen=True, slots=True)
class Measurer:
    """What evaluates the traces or sessions of one run; `metrics` are those that give scores of its
    items.

    `budget` is what its judge is paid from; None where no model is asked.
    """

    engine: Engine
    overrides: Overrides
    metrics: tuple[Metric, ...]
    names_rubric: bool
    budget: TotalBudget | None = None

    @property
    def booked(self) -> Booked | None:
        """What of the budget is spent or reserved by now; None where there is none."""
        return None if self.budget is None else Booked(*self.budget.booked)


@dataclass(eq=False)
class Measurers:
    """Makes the engines of runs, which share the server's judge and embedder and stand behind what
    comes in.
    """

    settings: Settings
    judge: Judge | None
    embedder: Embedder | None
    clock_ns: Callable[[], int] = time.time_ns
    certified: Callable[[Evaluation], bool] | None = None
    """As an engine has it."""

    def __post_init__(self) -> None:
        self._requested = RequestedModels(self.settings)

    def of(
        self,
        spec: RunSpec,
        booked: Booked = Booked(),  # noqa: B008 - frozen
        book: Callable[[Callable[[], Booked]], Awaitable[None]] | None = None,
    ) -> Measurer:
        """The engine for `spec`, of whose budget so much is `booked`.

        `book` stores what is booked at the moment of its transaction; a call that a limit holds for
        waits for it. Raises InputError where it cannot be met.
        """
        measure, scope = spec.measure, spec.target.scope
        self._requested.require_all(measure)
        overrides = Overrides(
            measure.metrics or None, measure.model, None, measure.signal_weights or None
        )
        judge, budget = self._paid(spec.budget, booked, book)
        try:
            refuse_misplaced(overrides, scope, "let the scope be that of a")
            engine = Engine(
                self._changed(measure, is_all_named=bool(measure.metrics)),
                judge,
                self.embedder,
                judge_config=self.settings.judge,
                certified=self.certified,
                clock_ns=self.clock_ns,
            )
            selection = engine.selection(overrides)
        except FieldError as error:
            raise error.within("measure") from None
        except (ConfigError, ValueError) as error:
            raise FieldError("measure", str(error)) from None
        except InputError as error:
            raise FieldError("measure.metrics", str(error)) from None
        rubric = selection.rubric is not None
        run_here = tuple(x for x in selection.metrics if x.run == scope)
        if not run_here and not rubric:
            raise FieldError(
                "measure.metrics", f"none of the configured metrics runs with a {scope}; name some"
            )
        return Measurer(engine, overrides, run_here, rubric, budget)

    def limits(self, budget: RunBudget | None) -> Budget:
        """What a run may spend that asks for so much; None: as much as the judge has for one
        window.
        """
        given, most = (
            budget or self.settings.judge.budget,
            self.settings.evaluation.runs.max_budget,
        )
        return Budget(
            max_tokens=_lower(given.max_tokens, most.max_tokens),
            max_usd=_lower(given.max_usd, most.max_usd),
        )

    def refuse_above(self, budget: RunBudget | None) -> None:
        """Raise FieldError where a run asks for more than the configuration lets any run spend."""
        most = self.settings.evaluation.runs.max_budget
        for field in ("max_tokens", "max_usd"):
            bound, wanted = getattr(most, field), getattr(budget, field, None)
            if bound is not None and wanted is not None and wanted > bound:
                raise FieldError(
                    f"budget.{field}",
                    f"{wanted:g} is above {bound:g}, which evaluation.runs.max_budget sets for"
                    " each run",
                )

    def refuse_unmeasured(self, metric: str, scope: ScopeKind, spec: RunSpec | None) -> None:
        """Raise InputError where `spec` gives no scores of a metric; None: where there is no such
        metric of a scope.
        """
        # a run of sessions scores their traces by what it rests on
        if spec is None or spec.target.scope != scope:
            alone = RunSpec(target=TargetSpec(scope=scope), measure=MeasureSpec(metrics=(metric,)))
            try:
                self.of(alone)
            except FieldError as error:
                raise InputError(error.problem) from None
            return
        measured = [x.name for x in self.of(spec).metrics]
        if metric not in measured and not is_rubric(metric):
            raise InputError(
                f"{metric} is not measured by its runs, which measure {', '.join(measured)}"
            )

    def digest(self, spec: RunSpec) -> str:
        """Of all by which `spec` is measured: metrics with their options, and models.

        Raises InputError as `of`.
        """
        judge, evaluation = self.settings.judge, self.settings.evaluation
        found = self.of(spec)
        facts = (
            spec.model_dump_json(),
            [(x.name, x.version, repr(x)) for x in found.metrics],
            evaluation.rubric if found.names_rubric else None,
            (judge.models, judge.cascade_models),
            self.embedder.name if self.embedder else None,
        )
        return hashlib.sha256(
            _ADDRESS.sub("", repr(facts)).encode("utf-8", "surrogatepass")
        ).hexdigest()

    def _paid(
        self,
        wanted: RunBudget | None,
        booked: Booked,
        book: Callable[[Callable[[], Booked]], Awaitable[None]] | None,
    ) -> tuple[Judge | None, TotalBudget | None]:
        """A run's judge, and what it is paid from."""
        if not isinstance(self.judge, ModelJudge):
            return self.judge, None  # there is none, or recorded answers stand in for it
        limits = self.limits(wanted)
        budget = TotalBudget(limits, *booked)
        if book is None or (limits.max_tokens is None and limits.max_usd is None):
            return self.judge.behind(budget), budget
        booking = Booking(lambda: book(lambda: Booked(*budget.booked)))
        return self.judge.behind(budget, booking.keep), budget

    def _changed(self, measure: MeasureSpec, *, is_all_named: bool) -> Config:
        """The configuration of the evaluation with the options and thresholds of a run."""
        evaluation = self.settings.evaluation
        configured = evaluation.measured()
        options = {name: dict(x) for name, x in measure.options.items()}
        for name, threshold in measure.thresholds.items():
            if "threshold" in options.setdefault(name, {}):
                raise FieldError(
                    f"thresholds.{name}", "options give a threshold for it too; give one of them"
                )
            options[name]["threshold"] = threshold
        _refuse_unmeasured(options, measure.metrics if is_all_named else configured)
        changed = {name: {**configured.get(name, {}), **x} for name, x in options.items()}
        runs = self.settings.evaluation.runs
        metrics = {**evaluation.metrics, **changed}
        # What a run measures is what it names: no rule of the configuration takes anything out, or
        # adds to it.
        update = {
            "metrics": metrics,
            "rules": [],
            "sampling": 1.0,
            "max_concurrent": runs.max_concurrent,
        }
        return evaluation.model_copy(update=update)


def _lower(wanted: float | None, bound: float | None) -> Any:
    """The lower of two limits; None is no limit."""
    return min((x for x in (wanted, bound) if x is not None), default=None)


def _refuse_unmeasured(names: Iterable[str], measured: Iterable[str]) -> None:
    known = set(measured)
    for name in names:
        if is_rubric(name):
            raise FieldError(
                "", f"{name}: the rubric's options and thresholds are those of evaluation.rubric"
            )
        if name not in known:
            raise FieldError(
                "",
                f"{name} has options or a threshold, but the run does not measure it: add it to"
                " metrics",
            )


class Booking:
    """Writes what is booked of a budget; calls that wait at the same time share one write.

    Belongs to one event loop.
    """

    def __init__(self, write: Callable[[], Awaitable[None]]) -> None:
        """`write` stores what is booked at the moment of its transaction."""
        self._write = write
        self._booked = self._written = 0
        self._writing = asyncio.Lock()

    async def keep(self) -> None:
        """Return when all that is booked by now is stored."""
        self._booked += 1
        own = self._booked
        async with self._writing:
            if self._written >= own:
                return
            last = self._booked
            await self._write()
            self._written = last


_NAME = re.compile(r"[A-Za-z0-9@._:/+=,~*-]{1,200}")
_ADDRESS_PARTS = ("//", ":/", "..")
_SHOWN_CHARS = 80


class RequestedModels:
    """The models that requests may name: those of the configuration, and what
    `judge.allowed_models` lists.

    Where it lists nothing and the API asks for no token and knows no tenants, that is every model
    whose name contains no address.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        is_closed = settings.api.auth is not None or settings.tenancy.enabled
        self._allowed = settings.judge.allowed_models
        if self._allowed is None:
            self._allowed = () if is_closed else ("*",)

    @cached_property
    def _configured(self) -> frozenset[str]:
        return frozenset(self._settings.all_models())

    def require(self, model: str | None, field: str) -> None:
        """Raise FieldError where a request's `field` names a model that it may not name."""
        if model is None or model in self._configured:
            return
        if not _NAME.fullmatch(model) or any(x in model for x in _ADDRESS_PARTS):
            raise FieldError(
                field,
                f"{_shown(model)} is no model's name: at most 200 letters, digits and . _ - : / @ +"
                " = , ~ * without an address (://), such as openai/gpt-4o-mini",
            )
        if not any(_is_allowed(model, x) for x in self._allowed or ()):
            raise FieldError(
                field,
                f"requests may not name the model {_shown(model)} here: leave it out for the"
                " configured one, or add it to judge.allowed_models of the server's configuration",
            )

    def require_all(self, measure: MeasureSpec) -> None:
        """Raise FieldError where a run's `measure` names a model that it may not name."""
        self.require(measure.model, "measure.model")
        for name, options in measure.options.items():
            model = options.get("model")
            if isinstance(model, str):  # what else there is, the metric refuses
                self.require(model, f"measure.options.{name}.model")


def _is_allowed(model: str, allowed: str) -> bool:
    return model.startswith(allowed[:-1]) if allowed.endswith("*") else model == allowed


def _shown(model: str) -> str:
    return repr(shortened(model, _SHOWN_CHARS))
