"""Which models a request may name: litellm reads addresses from names, and every call is paid by
the server's owner.
"""

import re
from functools import cached_property
from itertools import chain

from spanscore.config import Settings
from spanscore.errors import FieldError
from spanscore.specs.target import MeasureSpec

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
        judges = chain.from_iterable((*x.models, *x.cascade_models) for x in self._settings.judges)
        return frozenset((*judges, *chain.from_iterable(self._settings.models().values())))

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
    return repr(model if len(model) <= _SHOWN_CHARS else f"{model[:_SHOWN_CHARS]}…")
