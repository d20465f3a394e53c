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
    from spanscore.sdk.authoring.record_score import record_score
    from spanscore.sdk.authoring.steps import ModelCall, call_id, model_call, tool
    from spanscore.sdk.authoring.turn import Turn, expect, plan, session, turn
    from spanscore.sdk.experiment import Experiment, experiment, experiment_async
    from spanscore.sdk.instrumentation import Instrumentation, instrument
    from spanscore.sdk.pytest_plugin.recorder import (
        NotReachedError,
        NotScoredError,
        NoTurnError,
        Recorder,
    )
    from spanscore.sdk.score_report import Report, evaluate, evaluate_async
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
    "Experiment": "spanscore.sdk.experiment",
    "Failure": "spanscore.model.score",
    "Instrumentation": "spanscore.sdk.instrumentation",
    "ModelCall": "spanscore.sdk.authoring.steps",
    "NoTurnError": "spanscore.sdk.pytest_plugin.recorder",
    "NotReachedError": "spanscore.sdk.pytest_plugin.recorder",
    "NotScoredError": "spanscore.sdk.pytest_plugin.recorder",
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
    "call_id": "spanscore.sdk.authoring.steps",
    "criterion": "spanscore.metrics.own",
    "evaluate": "spanscore.sdk.score_report",
    "evaluate_async": "spanscore.sdk.score_report",
    "expect": "spanscore.sdk.authoring.turn",
    "experiment": "spanscore.sdk.experiment",
    "experiment_async": "spanscore.sdk.experiment",
    "instrument": "spanscore.sdk.instrumentation",
    "load": "spanscore.otlp.files",
    "metric": "spanscore.metrics.own",
    "model_call": "spanscore.sdk.authoring.steps",
    "pass_at_k": "spanscore.stats",
    "pass_pow_k": "spanscore.stats",
    "plan": "spanscore.sdk.authoring.turn",
    "rebuild_all": "spanscore.rebuild",
    "record_score": "spanscore.sdk.authoring.record_score",
    "run_suite": "spanscore.suites",
    "run_suite_async": "spanscore.suites",
    "session": "spanscore.sdk.authoring.turn",
    "tool": "spanscore.sdk.authoring.steps",
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
