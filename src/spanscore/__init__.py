"""Scores for AI agents, in the traces they already emit.

>>> from spanscore import load, rebuild_all
>>> telemetry = load([])
>>> rebuild_all(telemetry.spans, telemetry.logs)
[]
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spanscore.model.score import Evaluation, Failure, Outcome, Score, Skip
    from spanscore.model.trace import AgentTrace, Session
    from spanscore.otlp.files import load
    from spanscore.rebuild import rebuild_all
    from spanscore.sdk.evaluating import evaluate, evaluate_async
    from spanscore.sdk.score_report import Report
    from spanscore.stats import pass_at_k, pass_pow_k
    from spanscore.suites import Suite, run_suite
    from spanscore.suites.best_of import best_of

__all__ = [
    "AgentTrace",
    "Evaluation",
    "Failure",
    "Outcome",
    "Report",
    "Score",
    "Session",
    "Skip",
    "Suite",
    "__version__",
    "best_of",
    "evaluate",
    "evaluate_async",
    "load",
    "pass_at_k",
    "pass_pow_k",
    "rebuild_all",
    "run_suite",
]

__version__ = version("spanscore")

_HOMES = {
    "AgentTrace": "spanscore.model.trace",
    "Evaluation": "spanscore.model.score",
    "Failure": "spanscore.model.score",
    "Outcome": "spanscore.model.score",
    "Report": "spanscore.sdk.score_report",
    "Score": "spanscore.model.score",
    "Session": "spanscore.model.trace",
    "Skip": "spanscore.model.score",
    "Suite": "spanscore.suites",
    "best_of": "spanscore.suites.best_of",
    "evaluate": "spanscore.sdk.evaluating",
    "evaluate_async": "spanscore.sdk.evaluating",
    "load": "spanscore.otlp.files",
    "pass_at_k": "spanscore.stats",
    "pass_pow_k": "spanscore.stats",
    "rebuild_all": "spanscore.rebuild",
    "run_suite": "spanscore.suites",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `spanscore --help` waits for none of them."""
    if name not in _HOMES:
        raise AttributeError(f"module 'spanscore' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
