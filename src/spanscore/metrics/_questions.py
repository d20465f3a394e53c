"""Questions and instructions that judged metrics share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from spanscore.judge.marks import NOTICE
from spanscore.metrics._base import Answers, Judged, Question
from spanscore.model.plan import LEAST_STEPS, announced_steps
from spanscore.model.score import Outcome, Skip
from spanscore.model.trace import AgentTrace

EVIDENCE = """\
What counts as evidence:
- Judge by the transcript alone. Do not assume steps that it does not show; intentions and \
promises count for nothing.
- The result of a tool shows what happened. What the agent says that it did, and what the user \
says is the case, are claims: hold them against the results.
- To check what is shown you may count, compute, compare dates and use knowledge that nobody \
disputes.
- "(not recorded)" means that nobody knows. Hold it neither against the agent nor in its favour: \
where tools, earlier messages or instructions were not recorded, the agent may have had them; a \
record that may lack its end may have one.
- What is marked as earlier conversation or as an earlier turn helps you to understand; it is not \
what you score.
- "Today" is the date that the agent's instructions give, else that of the turn, never your own.
- Judge work in every language alike. Write your own texts in English."""
"""What counts as evidence: the same for every judge."""

INSTRUCTIONS = f"""\
You assess the work of AI agents. You are given the transcript of an agent's work: of one turn, or \
of a session whose turns are numbered. It shows the agent's instructions, what the user said, each \
step with the tool that was called and what it returned, and what the agent answered. After the \
transcript stands your assignment.

{EVIDENCE}

How you judge:
- Judge the substance. Length, politeness, layout and self-praise are worth nothing.
- Count a fault only under the question that asks about it.
- Choose the level of the guide whose words fit, then a number within its range.
- Begin each reason with what keeps the work from full marks, the worst fault first; only where \
there is none, with what shows that. Give the step's number, the value or the words, so that a \
reader can check it.
- Answer with one JSON object of the form that is asked for, and nothing else.

{NOTICE}"""
"""The system message, the same for every question, so that prompts share their beginning."""

WISHES = (
    "one sentence for each wish, with every condition that the user set (objects, values, dates,"
    " limits, exceptions, what to do otherwise)"
)
LAST_WORD = (
    "The user's last word counts: state also which wishes were changed, and into what, and which"
    " were withdrawn. An offer of the agent is a wish from where the user accepts it."
)
FACTS = """\
for each wish the state that it is in, and the number of the step whose result shows it, or that \
none shows it. Then, each where there is something to state:
- what was changed, sent, bought or deleted beyond the wishes, also what a result shows to have \
changed besides;
- each figure and fact that answers the user, with the step it rests on and whether it agrees with \
that result, or "no source";
- what was declined, with the rule or the limit that it rests on, or "no rule"; what failed or is \
left undone; what the agent still asks of the user.
State facts only, in at most fifteen short sentences, without words that judge, such as \
"successfully", "correctly" or "properly". What the agent says it did is no fact unless a step's \
result shows it."""

TASK = Question(
    "task",
    f"State what the user wants to have or to know in the end: {WISHES}. Take it from all that the"
    " user said: the input, the earlier conversation as far as this turn serves it (an input that"
    " only answers a question of the agent serves the wish behind that question), and what the"
    f" user says later, among the steps. {LAST_WORD} Put down nothing of what the agent did.",
    str,
)

OUTCOME = Question("outcome", f"State what came of the user's wishes in this turn: {FACTS}", str)

PLAN = Question(
    "plan",
    "List the steps of the agent's plan for this turn, in the order planned, each as one short"
    " phrase. A plan is what the agent, before or between its actions, said or reasoned that it was"
    " going to do: two steps or more, each with something definite to do. No plan, whatever it is"
    ' called, is a word that only goes on ("Next step.", "OK, let me check."), one announced call,'
    " a report of what was done, advice on what the user may do, a rule of the agent's"
    " instructions. Where the agent changed its plan in words, list it as it stood last, with the"
    " steps carried out before. Each step must rest on the agent's words in the transcript: derive"
    " none from its calls, nor from what you would have planned. Without a plan give an empty"
    " list.",
    list[str],
)

MET = """\
A wish is met
- if it asks for a deed: where a result shows the right end, with the right object, values, \
amount, recipient and payment;
- if it asks to know something: where the answer was given and is right. Check its figures, \
counts, dates and words such as "cheapest" or "all" against the results;
- if it was rightly declined: where the agent's instructions forbid it, no tool on offer does it, \
the results show that it cannot be had (sold out, too late) or it would harm \
others; by the facts of the record, not by the user's claims; and the agent said so and did what \
the instructions demand instead.
A wish is not met where
- the deed was only promised or claimed;
- the answer states what only a look-up can show (today's weather, a price, the user's data), and \
nothing in the transcript shows it;
- the tools failed (an outage, an error that was not got round), however honestly that was reported;
- the agent granted what its instructions forbid, however content the user is, or declined what \
they allow.
A change that nobody asked for, a change without the consent that the instructions demand, and a \
false statement that the user will rely on each count as one more wish that is not met. Where the \
agent's instructions are "(not recorded)" or absent, judge by the user's words alone. How long the \
way was does not matter."""
"""When a wish of the user is met: shared by the completion of a turn and of a whole
conversation.
"""

CONDITIONS = """\
Take the wishes one by one, with their conditions. One that was withdrawn does not count; of one \
that was changed only the last form counts; one that depends on a condition counts as the \
condition came out. If no wish is left, the score is 1.0 unless something below counts against the \
agent."""
"""Which wishes count."""

UNKNOWN = (
    "0.5 to 0.74 only where you cannot know, even by working it out yourself, since what decides"
    " was left out or not recorded"
)
"""The level around the threshold: nothing that is known to be done in part lies there."""

LACKING = """\
0.25 to 0.49 something that matters is not met, however much else is, or a forbidden wish was \
handed to a human without a word of declining it; 0 to 0.24 hardly anything is met, or what was \
done harms the user."""
"""The levels below the threshold."""


NO_PLAN = "`plan` is empty"
"""Where questions about the plan are moot."""

_NO_PLAN = "The agent stated no plan of two steps or more: there is nothing to judge."


@dataclass(frozen=True)
class OfPlan(Judged):
    """A metric of the plan that the agent showed; metadata `task` and `plan`, a list of steps."""

    weighs: ClassVar[tuple[str, ...]] = ("plan",)

    def metadata(self, trace: AgentTrace, answers: Answers) -> dict[str, Any]:
        """What was judged."""
        del trace
        return {"task": answers["task"], "plan": _steps(answers["plan"])}

    def settle(self, trace: AgentTrace, answers: Answers) -> Outcome | None:
        """See `Judged.settle`.

        One announced step is no plan, and without a plan there is nothing to ask.
        """
        if "plan" in answers and len(_steps(answers["plan"])) < LEAST_STEPS:
            return Skip(_NO_PLAN, cause="not_applicable")
        return super().settle(trace, answers)


def _steps(answer: Sequence[str]) -> list[str]:
    """The steps that a judge lists, also where it gives a whole numbered list as one."""
    return [*(announced_steps(answer[0]) or answer)] if len(answer) == 1 else [*answer]
