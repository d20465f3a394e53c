"""Scores that people, programs and other evaluators gave, out of any OTLP that holds some."""

from collections.abc import Iterable, Iterator, Sequence

from spanscore.model.score import Evaluation
from spanscore.model.session_scope import DEFAULT_SCOPE
from spanscore.model.span import LogRecord, Span
from spanscore.otlp.prefilter import Prefilter
from spanscore.received_scores import _openinference, _platforms, _semconv
from spanscore.received_scores._given import Given
from spanscore.received_scores.own import is_own

_PREFILTER = Prefilter(
    (
        b"evaluation",
        b"evaluator",
        b"EVALUATOR",
        b"guardrail",
        b"annotation",
        b"logfire.feedback",
        b"eval_root",
    )
)


def may_hold(body: bytes) -> bool:
    """Whether a raw OTLP request may hold a score that somebody gave.

    It may say yes wrongly, never no.

    >>> may_hold(b"...gen_ai.request.model..."), may_hold(b"...gen_ai.evaluation.name...")
    (False, True)
    """
    return _PREFILTER.passes(body)


def read(
    spans: Iterable[Span],
    logs: Iterable[LogRecord] = (),
    *,
    session_scope: Sequence[str] = DEFAULT_SCOPE,
) -> list[Evaluation]:
    """The scores in these spans and log records, each once, in the order in which they were given.

    What spanscore exported, this or another one, is none of them. Values are as they were given, on
    no scale that is not recorded. `session_scope` is that of the configuration.
    """
    given = [
        *(x for span in spans for x in _of_span(span)),
        *(x for log in logs for x in _of_log(log)),
    ]
    once = {x.uid: x for x in (found.evaluation(session_scope) for found in given)}
    return sorted(once.values(), key=lambda x: (x.evaluated_at_ns, x.uid))


def _of_span(span: Span) -> Iterator[Given]:
    if not is_own(span):
        yield from _semconv.of_span(span)
        yield from _openinference.of_span(span)
        yield from _platforms.of_span(span)


def _of_log(log: LogRecord) -> Iterator[Given]:
    if not is_own(log):
        yield from _semconv.of_log(log)
