"""Tool correctness: were the right tools chosen?"""

from dataclasses import dataclass
from typing import Any, ClassVar

from spanscore.metrics._base import Answers, Judged, Judgement, Question
from spanscore.metrics.check._check import Evidence
from spanscore.model.score import Outcome, Skip
from spanscore.model.trace import AgentTrace

_QUESTION = Question(
    "tool_correctness",
    """\
Were the right tools chosen for what the user asked? Judge which tools were called and when: not \
their arguments, not the answer. A fault is
1. over-selection: a needless call, whose answer was there already and had not changed, or that \
nothing in the task asked for. Not needless is a look-up or check that the agent's instructions \
demand, a further page, another object, asking again for a state that changes, a second try after \
an error that may pass;
2. under-selection: a tool on offer that the task or the agent's instructions needed was not \
called, above all where the agent answered from memory what a tool would have shown, claimed a \
deed without the call that does it, or left it at the failure of one tool though another would \
have served;
3. mis-selection: a tool was called that does something else than was needed, that changes or \
deletes where the user only wanted to see, or that is not on offer.
That a tool failed is no fault of its choice. Where nothing had to be looked up or done, or the \
user had first to be asked for something, no call is right. Where the tools on offer were not \
recorded, leave out what only they can answer.
Guide: 1.0 the tools that were needed and no others; 0.75 to 0.99 also a needless call or two that \
changed nothing; 0.5 to 0.74 what the task cannot do without was called, but several calls were \
needless or a tool that would have helped was not called; 0.25 to 0.49 a tool that the task needed \
was not called, or a wrong one was, and the result suffers; 0 to 0.24 the calls do not serve the \
task, none was made though it cannot be done without, or one changed what it must not.""",
    Judgement,
)


@dataclass(frozen=True)
class ToolCorrectness(Judged):
    """Whether the tools that were called were the right ones: fitting, enough, none needless and
    none wrong.

    Arguments do not count here (see argument_correctness). Where no tool was on offer, and none was
    called, there is no score: it does not apply. Metadata: `user_input`, `tools_called` [{`name`,
    `parameters`}] and `available_tools` [{`name`, `description`}], null where the trace did not say
    what was on offer.

    >>> ToolCorrectness(threshold=0.8).name
    'tool_correctness'
    """

    name: ClassVar[str] = "tool_correctness"
    summary: ClassVar[str] = "Were the right tools chosen?"
    needs: ClassVar[tuple[str, ...]] = ("user_input", "tool_calls")
    stages: ClassVar[tuple[tuple[Question, ...], ...]] = ((_QUESTION,),)

    def settle(self, trace: AgentTrace, answers: Answers) -> Outcome | None:
        """See `Judged.settle`. Without a tool there was nothing to choose from."""
        if trace.available_tools == () and not trace.tool_calls:
            return Skip("No tool was on offer, and none was called.", cause="not_applicable")
        return super().settle(trace, answers)

    def metadata(self, trace: AgentTrace, answers: Answers) -> dict[str, Any]:
        """The facts that were judged, from the trace."""
        del answers
        offered = Evidence(trace).offered
        return {
            "user_input": trace.user_input,
            "tools_called": [
                {"name": x.name, "parameters": x.arguments} for x in trace.tool_calls or ()
            ],
            "available_tools": (
                offered
                if offered is None
                else [{"name": x.name, "description": x.description} for x in offered]
            ),
        }
