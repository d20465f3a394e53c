"""What planned calls of a judge take at most: with nothing sent, by the same prompts that would
be.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from spanscore.evaluation.planning import PlannedCall
from spanscore.judge import Config, Estimate, Prompt, estimate
from spanscore.judge.redact import redacted
from spanscore.judge.transcript import BYTES_PER_TOKEN


@dataclass(frozen=True, slots=True)
class CostedCall:
    """A planned call with the model that would get it, its prompt as it is sent, and an upper bound
    of its size.
    """

    planned: PlannedCall
    model: str
    prompt: Prompt
    estimate: Estimate


def costed(calls: Sequence[PlannedCall], config: Config) -> Iterator[CostedCall]:
    """The calls for one subject; with a cache those that are the same are one, and without a model
    there are none.
    """
    for planned in _distinct(calls) if config.cache.enabled else calls:
        models = planned.models or config.models
        if not models:
            continue
        prompt = redacted(planned.prompt, config.redact.rules)  # as the judge sends it
        yield CostedCall(planned, models[0], prompt, _bound(planned, prompt, models[0], config))


def _distinct(planned: Sequence[PlannedCall]) -> list[PlannedCall]:
    """The calls, with those that are the same put into one for all of their metrics: the cache
    answers the others.
    """
    found: dict[object, PlannedCall] = {}
    for place, call in enumerate(planned):
        same = place if call.placeholders else (call.models, call.prompt, call.schema)
        found[same] = (
            replace(call, metrics=(*found[same].metrics, *call.metrics)) if same in found else call
        )
    return list(found.values())


def _bound(planned: PlannedCall, prompt: Prompt, model: str, config: Config) -> Estimate:
    """The call's size, with room for the longest answers there can be, as often as they are
    quoted.
    """
    quoted = (planned.stage - 1) * planned.placeholders
    room = "x" * (quoted * config.max_output_tokens * BYTES_PER_TOKEN)
    return estimate(replace(prompt, question=prompt.question + room), planned.schema, model, config)
