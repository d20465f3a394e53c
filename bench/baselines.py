"""Two other ways to ask a judge whether a task was done, as other tools ask it: what spanscore's
own is compared with.

Both dump the conversation as JSON, with the agent's system prompt and the tools on offer where the
run has them, have the model extract a task and an outcome, and then compare the two. The wording is
this project's; the design is theirs:

- `extract and compare` is the kind of DeepEval's TaskCompletionMetric
  (https://github.com/confident-ai/deepeval): the task from the input, a factual outcome from output
  and tool calls, then a number from 0 to 1 without bands;
- `extract and grade` is the kind of PandaProbe's (https://github.com/chirpz-ai/pandaprobe): the
  same, with bands in which partly done reaches the default threshold of 0.5.
"""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field

from spanscore.judge import Judge, Prompt
from spanscore.model.json import dumps
from spanscore.model.trace import AgentTrace, Session

_INSTRUCTIONS = "You evaluate AI agents. Answer in JSON."


class Extracted(BaseModel):
    """What the first call gives."""

    task: str
    outcome: str


class Graded(BaseModel):
    """What the second call gives."""

    reason: str
    score: Annotated[float, Field(ge=0, le=1)]


class Baseline(NamedTuple):
    """The two questions of one kind of prompt."""

    name: str
    extract: str
    compare: str


BASELINES = (
    Baseline(
        "extract and compare",
        "Above is the record of an AI agent's work as JSON, with its system prompt and the tools it"
        " could call. Extract two things. task: what the user"
        " wanted to get done, in one sentence, taken from the user's messages. outcome: what came"
        " of it, in one or two sentences, taken from the agent's answers and the tools that it"
        " called, strictly factual.",
        "A task and an actual outcome are given. Decide how far the outcome accomplishes the task."
        " score: a number from 0 to 1, where 1 is fully accomplished and 0 not at all. reason: one"
        " sentence.\n\ntask: {task}\n\noutcome: {outcome}",
    ),
    Baseline(
        "extract and grade",
        "Above is the record of an AI agent's work as JSON, with its system prompt and the tools it"
        " could call. State the task: the goal of the user."
        " State the outcome: what the agent did, factually, without words such as 'successfully'.",
        "Compare the outcome with the task. score: 1.0 fully done; 0.75 to 0.99 mostly done, minor"
        " aspects are missing; 0.5 to 0.74 partly done; 0.25 to 0.49 significant gaps; 0 to 0.24"
        " the task was not meaningfully addressed. reason: why.\n\ntask: {task}\n\noutcome:"
        " {outcome}",
    ),
)


async def score(baseline: Baseline, session: Session, judge: Judge) -> float:
    """The score, from 0 to 1, of a whole conversation. Raises JudgeError."""
    record = dumps(_record(session))
    extracted = await judge.ask(Prompt(_INSTRUCTIONS, record, baseline.extract), Extracted)
    question = baseline.compare.format(
        task=_flat(extracted.value.task), outcome=_flat(extracted.value.outcome)
    )
    return (await judge.ask(Prompt(_INSTRUCTIONS, "", question), Graded)).value.score


def _record(session: Session) -> Mapping[str, Any]:
    """What an original sees of a run."""
    last = session.traces[-1]
    tools = [{"name": x.name, "description": x.description} for x in last.available_tools or ()]
    return {
        "system_prompt": last.system_instructions,
        "available_tools": tools or "not recorded",
        "turns": [_dumped(trace) for trace in session.traces],
    }


def _dumped(trace: AgentTrace) -> Mapping[str, Any]:
    calls = [
        {"name": call.name, "input": call.arguments, "output": call.result, "error": call.error}
        for call in trace.tool_calls or ()
    ]
    return {"input": trace.user_input, "tools_called": calls, "output": trace.final_output}


def _flat(text: str) -> str:
    return " ".join(text.split())
