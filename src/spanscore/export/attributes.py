"""Scores as attributes of the evaluated span itself, for inline mode, where it has not been
delivered yet.
"""

import re
from collections.abc import Iterable

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from spanscore.export import wording
from spanscore.model.score import Evaluation, Failure, Score
from spanscore.model.span import Value
from spanscore.otlp import encode

_INDEXED = re.compile(r"evaluations\.(\d{1,9})\.")
_IDENTIFIER = "spanscore"


def annotate(span: Span, evaluations: Iterable[Evaluation], *, max_text_length: int = 8192) -> None:
    """Write scores into `span`, as `scored` has them, behind the attributes that it has.

    Nothing shows the span as emitted by spanscore: it is the user's.
    """
    keys = (x.key for x in span.attributes)
    encode.fill(span.attributes, scored(evaluations, keys, max_text_length=max_text_length))


def scored(
    evaluations: Iterable[Evaluation], keys: Iterable[str] = (), *, max_text_length: int = 8192
) -> dict[str, Value]:
    """Scores as attributes: `spanscore.METRIC.score`, `.label`, `.reason`, and OpenInference's
    indexed form.

    How all metrics came out is `spanscore.summary` and `spanscore.verdict`. A failed evaluation
    gives `spanscore.METRIC.error` with the error's type, a skipped one nothing. `keys` are those
    that the span has: evaluations that it carries already, from another evaluator, keep their
    places.
    """
    place = 1 + max((int(found[1]) for key in keys if (found := _INDEXED.match(key))), default=-1)
    written: dict[str, Value] = {}
    for evaluation in evaluations:
        outcome = evaluation.outcome
        if evaluation.tally is not None:
            written["spanscore.summary"] = wording.tally_summary(evaluation.tally)
            written["spanscore.verdict"] = evaluation.tally.label
        if isinstance(outcome, Score):
            written |= _of_score(evaluation, outcome, place, max_text_length)
            place += 1
        elif isinstance(outcome, Failure):
            written[f"spanscore.{evaluation.metric}.error"] = outcome.type
    return {key: value for key, value in written.items() if value not in (None, "")}


def _of_score(
    evaluation: Evaluation, outcome: Score, place: int, max_text_length: int
) -> dict[str, Value]:
    reason = wording.cut(outcome.reason, max_text_length)
    value = wording.rounded(outcome.value, evaluation.threshold)
    own, indexed = f"spanscore.{evaluation.metric}", f"evaluations.{place}.evaluation"
    return {
        f"{own}.score": value,
        f"{own}.label": evaluation.label,
        f"{own}.reason": reason,
        f"{indexed}.name": evaluation.metric,
        f"{indexed}.score": value,
        f"{indexed}.label": evaluation.label,
        f"{indexed}.explanation": reason,
        f"{indexed}.annotator_kind": evaluation.evaluator.kind,
        f"{indexed}.identifier": _IDENTIFIER,
    }
