"""All services of the API: the one list that a new service is added to.

They are imported when the first of them is called: most servers are only sent telemetry.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from spanscore.api.servicer import Servicer

if TYPE_CHECKING:
    from spanscore.api.backend import Backend

_MODULES: Final = {
    "spanscore.v1.TraceService": "spanscore.api.traces",
    "spanscore.v1.ScoreService": "spanscore.api.scores",
    "spanscore.v1.AnnotationService": "spanscore.api.annotation",
    "spanscore.v1.RunService": "spanscore.api.runs",
    "spanscore.v1.AnalyticsService": "spanscore.api.analytics",
    "spanscore.v1.ViewService": "spanscore.api.views",
    "spanscore.v1.MonitorService": "spanscore.api.monitors",
}
"""The module of each service, by its full name; the class has the service's name."""

NAMES: Final = tuple(_MODULES)
"""The full names of all services."""


def services(backend: "Backend") -> list[Servicer]:
    """The services of a running spanscore."""
    return [
        getattr(import_module(module), name.rpartition(".")[2])(backend)
        for name, module in _MODULES.items()
    ]
