"""Find the steps of a plan that an agent wrote down, without a model."""

import re

from spanscore.model.trace import AgentTrace

MAX_STEPS = 20
_MAX_PLAN_CHARS = 8_000
_MAX_STEP_CHARS = 300
_LISTED = re.compile(
    r"^[ \t]*(?:\d{1,2}[.):]|[-*\u2022]|step[ \t]+\d{1,2}[.:)]?)[ \t]+(\S[^\n]*)$", re.MULTILINE | re.IGNORECASE
)
_INTENTIONS = (
    *("i'll ", "i will ", "i'm going to ", "i am going to ", "i need to ", "i should ", "i plan to ", "let me "),
    *("let's ", "we need to ", "we should ", "my plan", "the plan", "first, ", "firstly, "),
)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_CLAUSE = re.compile(r",?\s+(?:and\s+)?(?:then|after that|afterwards|finally|lastly)[\s,]+|,\s+and\s+", re.IGNORECASE)


def plan_steps(trace: AgentTrace) -> list[str]:
    """The steps of the plan in `trace`, at most 20; empty where there is none.

    Looked for in the plan that the trace states, else in what the models wrote before the first tool call: the items
    of a list, else the clauses of the sentences that announce what the agent is about to do.
    """
    if trace.plan is not None:
        return steps_in(trace.plan)
    for call in trace.model_calls:
        for text in (call.reasoning, call.text):
            if text and text != trace.final_output and (steps := _announced(text)):
                return steps
        if call.tool_calls:
            break
    return []


def steps_in(text: str) -> list[str]:
    r"""The steps in a text that is known to be a plan.

    >>> steps_in("I'll search flights, then book the cheapest one.")
    ["I'll search flights", 'book the cheapest one']
    >>> steps_in("Plan:\n1. Search flights\n2. Book")
    ['Search flights', 'Book']
    """
    return _listed(text) or _announced(text) or _clauses(text[:_MAX_PLAN_CHARS])


def _listed(text: str) -> list[str]:
    items = [item.strip()[:_MAX_STEP_CHARS] for item in _LISTED.findall(text[:_MAX_PLAN_CHARS])]
    return items[:MAX_STEPS] if len(items) > 1 else []


def _announced(text: str) -> list[str]:
    text = text[:_MAX_PLAN_CHARS]
    if not _intends(text):
        return []
    listed = _listed(text)
    if listed:
        return listed
    sentences = [x for x in _SENTENCE.split(text) if _intends(x)]
    return [step for sentence in sentences for step in _clauses(sentence)][:MAX_STEPS]


def _intends(text: str) -> bool:
    lowered = text.lower().replace("\u2019", "'")
    return any(map(lowered.__contains__, _INTENTIONS))


def _clauses(text: str) -> list[str]:
    clauses = (x.strip(" .;:!\n\t")[:_MAX_STEP_CHARS] for x in _CLAUSE.split(text))
    return [x for x in clauses if x][:MAX_STEPS]
