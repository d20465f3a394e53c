"""The words that every form of a score shares: its summary, its reason and its metadata, within bounds."""

from collections.abc import Mapping, Sequence
from typing import Any

from spanscore.model.json import dumps
from spanscore.model.score import Evaluation, Failure, Skip
from spanscore.model.span import Value

_CUT = " [cut]"
_SHORT_CHARS = 200
_FEW_ITEMS = 20
_MAX_DEPTH = 8


def is_told(evaluation: Evaluation) -> bool:
    """Whether it is exported and filed with tools: of all but skips, and of a session metric that rests on no signal.

    Such a session was evaluated, and would else look as if it had not been.
    """
    return not isinstance(evaluation.outcome, Skip) or evaluation.outcome.cause == "no_signals"


def summary(evaluation: Evaluation) -> str:
    """One line that says it all: `task_completion = 0.83 (pass)`."""
    if isinstance(evaluation.outcome, Failure):
        return f"{evaluation.metric} failed: {evaluation.outcome.type}"
    if isinstance(evaluation.outcome, Skip):
        return f"{evaluation.metric} skipped: {evaluation.outcome.cause}"
    label = evaluation.label
    return f"{evaluation.metric} = {evaluation.value:.2f}" + (f" ({label})" if label else "")


def session(evaluation: Evaluation) -> str | None:
    """The session that a score itself has to name: its own, or that of a trace where no span does."""
    if evaluation.scope == "session":
        return evaluation.session_id or evaluation.subject_id
    return None if evaluation.target.span_id else evaluation.session_id


def trial(evaluation: Evaluation) -> dict[str, Value]:
    """The test that the evaluated turn was recorded for, as OpenTelemetry names its facts."""
    if evaluation.trial is None:
        return {}
    named = {
        "test.suite.name": evaluation.trial.suite,
        "test.suite.run.id": evaluation.trial.run,
        "test.case.id": evaluation.trial.case,
        "test.case.result.status": evaluation.trial.status,
    }
    return {key: value for key, value in named.items() if value is not None}


def cut(text: str, max_chars: int) -> str:
    """`text`, at most `max_chars` long; where something is missing it ends in `[cut]`."""
    return text if len(text) <= max_chars else text[: max_chars - len(_CUT)] + _CUT


def metadata(facts: Mapping[str, Any], max_chars: int) -> str | None:
    """`facts` as JSON of at most `max_chars`; None where there are none.

    Where they are too long, long texts and lists in them are cut; where that does not do, only their names are left.
    """
    if not facts:
        return None
    try:
        text = dumps(facts)
    except RecursionError:  # a tool's arguments can be nested as deep as their sender likes
        text = ""
    if not text or len(text) > max_chars:
        text = dumps(_shortened(facts, 0))
    if len(text) > max_chars:
        text = dumps({"cut": [str(key)[:_SHORT_CHARS] for key in facts][:_FEW_ITEMS]})
    return text if len(text) <= max_chars else None


def _shortened(item: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return _CUT
    if isinstance(item, str):
        return cut(item, _SHORT_CHARS)
    if isinstance(item, Mapping):
        return {key: _shortened(x, depth + 1) for key, x in list(item.items())[:_FEW_ITEMS]}
    if isinstance(item, Sequence):
        return [_shortened(x, depth + 1) for x in item[:_FEW_ITEMS]]
    return item
