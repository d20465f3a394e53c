"""All services of the API: the one list that a new service is added to."""

from spanscore.api.analytics import AnalyticsService
from spanscore.api.annotation import AnnotationService
from spanscore.api.backend import Backend
from spanscore.api.control import ControlService
from spanscore.api.monitors import MonitorService
from spanscore.api.runs import RunService
from spanscore.api.scores import ScoreService
from spanscore.api.servicer import Servicer
from spanscore.api.traces import TraceService
from spanscore.api.views import ViewService


def services(backend: Backend) -> list[Servicer]:
    """The services of a running spanscore."""
    return [
        ControlService(backend),
        TraceService(backend),
        ScoreService(backend),
        AnnotationService(backend),
        RunService(backend),
        AnalyticsService(backend),
        ViewService(backend),
        MonitorService(backend),
    ]
