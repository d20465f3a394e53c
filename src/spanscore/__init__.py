"""Scores for AI agents, in the traces they already emit.

>>> from spanscore import load, rebuild_all
>>> telemetry = load([])
>>> rebuild_all(telemetry.spans, telemetry.logs)
[]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from spanscore.api.client import AsyncClient, Client
    from spanscore.metrics.own import criterion, metric
    from spanscore.model.score import Evaluation, Failure, Outcome, Score, Skip
    from spanscore.model.trace import AgentTrace, Session
    from spanscore.otlp.files import load
    from spanscore.rebuild import rebuild_all
    from spanscore.sdk.authoring.model_call import ModelCall, model_call
    from spanscore.sdk.authoring.record_score import record_score
    from spanscore.sdk.authoring.session import session
    from spanscore.sdk.authoring.tool import call_id, tool
    from spanscore.sdk.authoring.turn import Turn, expect, plan, turn
    from spanscore.sdk.evaluating import evaluate, evaluate_async
    from spanscore.sdk.experiment_result import Experiment
    from spanscore.sdk.experimenting import experiment, experiment_async
    from spanscore.sdk.instrumenting import Instrumentation, instrument
    from spanscore.sdk.pytest_plugin.expecting import NotReachedError, NotScoredError, NoTurnError
    from spanscore.sdk.pytest_plugin.recorder import Recorder
    from spanscore.sdk.score_report import Report
    from spanscore.sdk.scoring_exporter import ScoringExporter
    from spanscore.stats import pass_at_k, pass_pow_k
    from spanscore.suites import Suite, run_suite, run_suite_async
    from spanscore.suites.best_of import best_of, best_of_async

__all__ = [
    "AgentTrace",
    "AsyncClient",
    "Client",
    "Evaluation",
    "Experiment",
    "Failure",
    "Instrumentation",
    "ModelCall",
    "NoTurnError",
    "NotReachedError",
    "NotScoredError",
    "Outcome",
    "Recorder",
    "Report",
    "Score",
    "ScoringExporter",
    "Session",
    "Skip",
    "Suite",
    "Turn",
    "__version__",
    "best_of",
    "best_of_async",
    "call_id",
    "criterion",
    "evaluate",
    "evaluate_async",
    "expect",
    "experiment",
    "experiment_async",
    "instrument",
    "load",
    "metric",
    "model_call",
    "pass_at_k",
    "pass_pow_k",
    "plan",
    "rebuild_all",
    "record_score",
    "run_suite",
    "run_suite_async",
    "session",
    "tool",
    "turn",
]

_HOMES = {
    "AgentTrace": "spanscore.model.trace",
    "AsyncClient": "spanscore.api.client",
    "Client": "spanscore.api.client",
    "Evaluation": "spanscore.model.score",
    "Experiment": "spanscore.sdk.experiment_result",
    "Failure": "spanscore.model.score",
    "Instrumentation": "spanscore.sdk.instrumenting",
    "ModelCall": "spanscore.sdk.authoring.model_call",
    "NoTurnError": "spanscore.sdk.pytest_plugin.expecting",
    "NotReachedError": "spanscore.sdk.pytest_plugin.expecting",
    "NotScoredError": "spanscore.sdk.pytest_plugin.expecting",
    "Outcome": "spanscore.model.score",
    "Recorder": "spanscore.sdk.pytest_plugin.recorder",
    "Report": "spanscore.sdk.score_report",
    "Score": "spanscore.model.score",
    "ScoringExporter": "spanscore.sdk.scoring_exporter",
    "Session": "spanscore.model.trace",
    "Skip": "spanscore.model.score",
    "Suite": "spanscore.suites",
    "Turn": "spanscore.sdk.authoring.turn",
    "best_of": "spanscore.suites.best_of",
    "best_of_async": "spanscore.suites.best_of",
    "call_id": "spanscore.sdk.authoring.tool",
    "criterion": "spanscore.metrics.own",
    "evaluate": "spanscore.sdk.evaluating",
    "evaluate_async": "spanscore.sdk.evaluating",
    "expect": "spanscore.sdk.authoring.turn",
    "experiment": "spanscore.sdk.experimenting",
    "experiment_async": "spanscore.sdk.experimenting",
    "instrument": "spanscore.sdk.instrumenting",
    "load": "spanscore.otlp.files",
    "metric": "spanscore.metrics.own",
    "model_call": "spanscore.sdk.authoring.model_call",
    "pass_at_k": "spanscore.stats",
    "pass_pow_k": "spanscore.stats",
    "plan": "spanscore.sdk.authoring.turn",
    "rebuild_all": "spanscore.rebuild",
    "record_score": "spanscore.sdk.authoring.record_score",
    "run_suite": "spanscore.suites",
    "run_suite_async": "spanscore.suites",
    "session": "spanscore.sdk.authoring.session",
    "tool": "spanscore.sdk.authoring.tool",
    "turn": "spanscore.sdk.authoring.turn",
}


# with it in sight, a type checker takes a misspelt name for one that it gives
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used, so that nobody waits for what is not used."""
        if name == "__version__":
            return import_module("importlib.metadata").version("spanscore")
        if name not in _HOMES:
            raise AttributeError(f"module 'spanscore' has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, for editors and notebooks."""
    return __all__
