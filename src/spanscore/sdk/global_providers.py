"""The global providers of the OpenTelemetry API, and how one is set that the application may still
replace.
"""

import logging
from types import ModuleType

_log = logging.getLogger(__name__)


def is_stand_in(provider: object) -> bool:
    """Whether this is what the API gives while no provider is set."""
    return type(provider).__name__.startswith("Proxy") and type(provider).__module__.startswith(
        "opentelemetry."
    )


def set_replaceable(module: ModuleType, name: str, provider: object) -> None:
    """Set a global provider so that the application may still set its own.

    `set_tracer_provider` could be called once only, and the application's call would be refused.
    """
    if hasattr(module, name):
        setattr(module, name, provider)
    else:
        _log.warning(
            "%s has no %s: call set_tracer_provider yourself, before", module.__name__, name
        )
