"""Scores as attributes of the evaluated span itself, for inline mode, where it has not been delivered yet."""

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
    """Write scores into `span`: `spanscore.METRIC.score`, `.label`, `.reason`, and OpenInference's indexed form.

    How all metrics came out is `spanscore.summary` and `spanscore.verdict`.
    A failed evaluation writes `spanscore.METRIC.error` with the error's type, a skipped one nothing. Evaluations that
    the span carries already, from another evaluator, keep their places. Nothing marks the span as emitted by spanscore:
    it is the user's.
    """
    place = 1 + max((int(found[1]) for x in span.attributes if (found := _INDEXED.match(x.key))), default=-1)
    for evaluation in evaluations:
        outcome = evaluation.outcome
        if evaluation.tally is not None:
            told = wording.tally_summary(evaluation.tally)
            summed: dict[str, Value] = {"spanscore.summary": told, "spanscore.verdict": evaluation.tally.label}
            encode.fill(span.attributes, {key: value for key, value in summed.items() if value is not None})
        if isinstance(outcome, Score):
            reason = wording.cut(outcome.reason, max_text_length)
            value = wording.rounded(outcome.value, evaluation.threshold)
            own, indexed = f"spanscore.{evaluation.metric}", f"evaluations.{place}.evaluation"
            written: dict[str, Value] = {
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
            encode.fill(span.attributes, {key: value for key, value in written.items() if value not in (None, "")})
            place += 1
        elif isinstance(outcome, Failure):
            encode.fill(span.attributes, {f"spanscore.{evaluation.metric}.error": outcome.type})
