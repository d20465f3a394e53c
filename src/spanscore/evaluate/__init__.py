"""Which metrics run on what, in which order, and what becomes of their errors.

Called, this package is the public function `spanscore.evaluate`, whose name it has: once anything has imported a
subpackage, Python has it under its name in the package above.
"""

import sys
from importlib import import_module
from inspect import Signature, signature
from types import ModuleType
from typing import Any

from spanscore.evaluate.config import Config, Overrides
from spanscore.evaluate.engine import Engine
from spanscore.evaluate.measuring import MAX_EARLIER_TURNS
from spanscore.evaluate.planning import PlannedCall

__all__ = ["MAX_EARLIER_TURNS", "Config", "Engine", "Overrides", "PlannedCall"]


class _Callable(ModuleType):
    """This package, which can be called."""

    @property
    def __signature__(self) -> Signature:
        return signature(_public_function())

    def __call__(self, *args: Any, **options: Any) -> Any:
        return _public_function()(*args, **options)


def _public_function() -> Any:
    return import_module("spanscore.sdk.evaluating").evaluate


sys.modules[__name__].__class__ = _Callable
