"""What every judge is told, and the questions that several metrics share."""

from spanscore.judge.fence import NOTICE
from spanscore.metrics._base import Question

INSTRUCTIONS = f"""\
You assess the work of AI agents. You are given the transcript of one turn of an agent: what it was told, what the \
user asked, each step it took with the tools it called and what they returned, and its final output. After the \
transcript stands your assignment.

How you work:
- Judge by the transcript alone. Do not assume what it does not show, and do not credit intentions.
- "(not recorded)" means that nobody knows; hold it neither against the agent nor in its favour.
- Judge the substance. Length, politeness and self-praise of the output are worth nothing.
- Name the steps, values or words that decide your judgement, so that a reader can check it.
- Use the whole scale. Between two marks of a guide, choose a number between them.
- Answer with one JSON object of the form that is asked for, and nothing else.

{NOTICE}"""
"""The system message, the same for every question, so that prompts share their beginning."""

TASK = Question(
    "task",
    "State the user's task in this turn: what the user wants to have or to know in the end, with every condition the "
    "user set. Write one or two sentences. Take it from the user's input, and from the earlier conversation where the "
    "input refers to it; not from what the agent did.",
    str,
)

OUTCOME = Question(
    "outcome",
    "State what the agent did in this turn and what came of it: actions, what tools returned, what the final output "
    "gives the user, and what is left undone or went wrong. Report facts only, in at most five sentences, without "
    'words that judge, such as "successfully", "correctly" or "properly", and without taking the agent\'s own claims '
    "for facts: what the agent says it did counts only where a step shows it.",
    str,
)

PLAN = Question(
    "plan",
    "List the steps of the agent's plan for this turn, in the order planned. A plan is what the agent declared before "
    "acting, or what its reasoning or words while acting imply that it meant to do. Each step must rest on words of "
    "the agent in the transcript; do not derive steps from the calls it made, nor from what you would have planned. "
    "Write each step as one short phrase. If the agent showed no plan, give an empty list.",
    list[str],
)
