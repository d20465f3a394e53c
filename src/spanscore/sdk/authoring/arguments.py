"""What a function was called with, by the names of its parameters."""

import inspect
from collections.abc import Callable
from typing import Any

from spanscore.sdk.authoring.definitions import own_parameters
from spanscore.sdk.authoring.guarding import guarded


class Arguments:
    """Names what a function is called with; defaults that a call leaves out stay out, as a model
    leaves them out.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._signature = _signature(function)
        own = {} if self._signature is None else own_parameters(self._signature)
        self._keywords = next((x.name for x in own.values() if x.kind is x.VAR_KEYWORD), None)
        self._is_method = self._signature is not None and len(own) < len(self._signature.parameters)

    @guarded
    def named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name.

        Those of a call that the function would refuse are named as far as they can be.
        """
        given = self._bound(args, kwargs)
        if self._is_method:
            given = dict(list(given.items())[1:])
        if self._keywords in given:
            given |= given.pop(self._keywords)
        return given

    @guarded
    def first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The first argument, without the object that a method is called on; None where there is
        none.
        """
        return next(iter((self.named(args, kwargs) or {}).values()), None)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        names = [] if self._signature is None else list(self._signature.parameters)
        if self._signature is not None:
            try:
                return dict(self._signature.bind(*args, **kwargs).arguments)
            except TypeError:  # the function itself is about to say so
                pass
        found = dict(zip(names, args, strict=False))
        left = args[len(names) :]
        return {**found, **({"args": list(left)} if left else {}), **kwargs}


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """The signature; None of what Python has none for, such as some functions in C."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None
