"""Separate the calls of Spring AI's tool loop: in version 1 the model calls itself, and each call
counts the last.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from spanscore.model.step import Message, Step

_ADVISOR = "spring.ai.advisor.name"
_GOES_ON = ("tool_calls",)
_VERSION_1_TOOLS = "tool_call "  # how the names of its tools' spans begin


def separated(steps: Sequence[Step]) -> list[Step]:
    """The steps of a trace, those of the dialect each with the facts of its own call alone.

    A call's tokens count those of the calls before it in the loop. A streamed call contains the
    calls after it besides, since its observation ends with the last of them: its text, its tokens
    and its response are theirs as well.
    """
    if not any(x.kind == "model" for x in steps):
        return list(steps)
    known = {x.span.span_id: x for x in steps}
    _unfold(_streamed(steps), known)
    for calls in _loops(steps, known):
        _subtract(calls, known)
    return list(known.values())


def _streamed(steps: Sequence[Step]) -> list[list[Step]]:
    """Model calls that lie in one another, each chain from the outermost in."""
    models = {x.span.span_id: x for x in steps if x.kind == "model"}
    inner: defaultdict[str, list[Step]] = defaultdict(list)
    for step in models.values():
        if step.span.parent_span_id in models:
            inner[step.span.parent_span_id].append(step)
    chains: list[list[Step]] = []
    for step in models.values():
        if step.span.parent_span_id in models or step.span.span_id not in inner:
            continue
        chain = [step]
        while len(below := inner.get(chain[-1].span.span_id, [])) == 1 and len(chain) < len(models):
            chain += below
        if not below:  # where several calls lie in one, the loop has not made them
            chains.append(chain)
    return chains


def _unfold(chains: Sequence[Sequence[Step]], known: dict[str, Step]) -> None:
    """Put the calls of a chain beside each other, and the tools between them; the last records all
    tokens.
    """
    above: dict[str, str] = {}
    last_outputs: dict[str, tuple[Message, ...] | None] = {}
    for chain in chains:
        above.update((x.span.span_id, chain[0].span.parent_span_id) for x in chain)
        last_outputs[_text(chain[0].output)] = chain[-1].output
        for step, inside in pairwise(chain):
            known[step.span.span_id] = replace(
                step,
                output=_without(step.output, inside.output),
                input_tokens=None,
                output_tokens=None,
                response_id=None,
                finish_reasons=_GOES_ON,
            )
    for span_id, step in known.items() if chains else ():
        if step.span.parent_span_id in above:
            parent_id = above[step.span.parent_span_id]
            known[span_id] = replace(step, span=replace(step.span, parent_span_id=parent_id))
        elif step.kind == "agent" and step.output and _text(step.output) in last_outputs:
            known[span_id] = replace(step, output=last_outputs[_text(step.output)])


def _without(
    output: tuple[Message, ...] | None, inner: tuple[Message, ...] | None
) -> tuple[Message, ...] | None:
    """The text of a call before those that it contains; None where that cannot be separated."""
    if output is None or inner is None or not _text(output).endswith(_text(inner)):
        return None
    text = _text(output).removesuffix(_text(inner))
    return (Message("assistant", text),) if text else ()


def _text(output: tuple[Message, ...] | None) -> str:
    return "".join(x.text or "" for x in output or ())


def _loops(steps: Sequence[Step], known: dict[str, Step]) -> list[list[Step]]:
    """Model calls of one loop, in order of time: those that one advisor made, or a loop that looks
    like one.

    An advisor calls the model once. Without one, an application may have made the loop itself:
    there no call counts another, and the prompts, which only grow, distinguish the two.
    """
    found: defaultdict[str, list[Step]] = defaultdict(list)
    for step in steps:
        if (
            step.kind == "model"
            and step.input_tokens is not None
            and step.output_tokens is not None
        ):
            found[step.span.parent_span_id].append(step)
    ran = {
        x.span.parent_span_id
        for x in steps
        if x.kind == "tool" and x.span.name.startswith(_VERSION_1_TOOLS)
    }
    loops = list[list[Step]]()
    for parent, calls in found.items():
        above = known.get(parent)
        is_advised = above is not None and _ADVISOR in above.span.attributes
        ordered = sorted(calls, key=lambda x: (x.span.start_ns, x.span.span_id))
        if len(ordered) > 1 and parent in ran and _rises(ordered, at_least_doubled=not is_advised):
            loops.append(ordered)
    return loops


def _rises(calls: Sequence[Step], *, at_least_doubled: bool) -> bool:
    counts = [(x.input_tokens or 0, x.output_tokens or 0) for x in calls]
    if any(one[0] > other[0] or one[1] > other[1] for one, other in pairwise(counts)):
        return False
    return not at_least_doubled or all(
        other[0] - one[0] >= counts[0][0] for one, other in pairwise(counts)
    )


def _subtract(calls: Sequence[Step], known: dict[str, Step]) -> None:
    for before, step in pairwise(calls):
        known[step.span.span_id] = replace(
            known[step.span.span_id],
            input_tokens=(step.input_tokens or 0) - (before.input_tokens or 0),
            output_tokens=(step.output_tokens or 0) - (before.output_tokens or 0),
        )
