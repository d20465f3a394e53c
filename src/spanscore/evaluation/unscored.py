"""Why a stored trace has no score."""

from collections.abc import Sequence

from spanscore.evaluation.config import Config
from spanscore.evaluation.rules import Decision, Rules
from spanscore.model.score import Evaluation, Skip
from spanscore.model.trace import AgentTrace

_MAX_REASONS = 3
_NO_CONTENT = "its spans record no questions, answers or arguments; "
_OF_SESSION = (
    "it waits for its session: only sessions are measured, each once it has been quiet for"
    " assemble.session_idle_after"
)
_OF_NO_SESSION = "only sessions are measured, and it belongs to none"


class Unscored:
    """Says by a configuration why a stored trace has no score."""

    def __init__(self, config: Config) -> None:
        self._rules = Rules(config.rules, config.sampling)
        configs: dict[str | None, Config] = {None: config.without_rules()}
        configs |= {x.name: config.under(x) for x in config.rules if x.measures}
        self._of_sessions = {
            name: all(metric.run == "session" for metric in x.build())
            for name, x in configs.items()
        }

    def why(self, trace: AgentTrace, scores: Sequence[Evaluation]) -> str:
        """The cause, or "" where it has a score or a measurement of it failed.

        `scores` are the newest of the trace.
        """
        if any(x.status != "skipped" for x in scores):
            return ""
        if scores:
            return (_NO_CONTENT if not trace.has_content else "") + _skipped(scores)
        decision = self._rules.decide(trace)
        if not decision.takes_in(trace.session_id or trace.id):
            return _left_out(decision)
        if self._of_sessions[decision.rule]:
            return _OF_SESSION if trace.session_key else _OF_NO_SESSION
        return "nothing was measured when it was stored, as where traces are imported"


def _skipped(scores: Sequence[Evaluation]) -> str:
    names: dict[str, list[str]] = {}
    for score in scores:
        if isinstance(score.outcome, Skip):
            reason = score.outcome.reason.replace(f" judges {score.metric}:", " judges them:")
            names.setdefault(reason, []).append(score.metric)
    parts = [f"{', '.join(metrics)} skipped: {reason}" for reason, metrics in names.items()]
    more = len(parts) - _MAX_REASONS
    return "; ".join(parts[:_MAX_REASONS]) + (f"; and {more} more reasons" if more > 0 else "")


def _left_out(decision: Decision) -> str:
    if not decision.measures:
        return f"the rule {decision.rule} has nothing measured (metrics: none)"
    by = "evaluation.sampling" if decision.rule is None else f"the rule {decision.rule}"
    return f"left out of the sample: {by} has {decision.share:.4g} of the traces evaluated"
