"""The criteria of the rubric, and its overall score from 0 to 100."""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._base import Threshold
from spanscore.metrics.rubric._criteria import Criterial, Criterion, RubricMetric


@dataclass(frozen=True)
class ParameterExtraction(Criterial):
    """Whether the arguments of the tool calls were taken correctly from what the user said and the
    tools returned.

    >>> ParameterExtraction.criterion.tier
    'execution'
    """

    name: ClassVar[str] = "rubric.parameter_extraction"
    summary: ClassVar[str] = "Were the values given to tools taken correctly from the conversation?"
    criterion: ClassVar[Criterion] = Criterion(
        id="parameter_extraction",
        display_name="Parameter extraction",
        description=(
            "Were the values that tools were given taken correctly from the conversation? A value"
            " may come from the user, from the agent's rules or from what a tool had returned, or"
            " follow from these by computing, converting or rewording; it must mean what was meant"
            " there, by the user's last word. A critical value is one that changes what the call"
            " does or returns. An optional value that nobody asked about, such as a limit, needs no"
            " source."
        ),
        tier="execution",
        weight=0.15,
        levels=(
            "No value has a source in the conversation.",
            "Most values were made up, or most of those needed are missing.",
            (
                "Several critical values are wrong or missing, or a wrong one changed what it must"
                " not."
            ),
            "One critical value is wrong or missing, and the outcome shows it.",
            (
                "All critical values are right; a minor one slipped, or a wrong one was put right"
                " before it had an effect."
            ),
            "Every value is right and has its source.",
        ),
        no_occasion="no tool was called, or only tools that take no values",
        nothing_without=("tool_calls",),
        needs=("user_input", "tool_calls"),
        in_defaults=True,
    )


@dataclass(frozen=True)
class ResultInterpretation(Criterial):
    """Whether the agent told the user what its tools had returned, accurately and whole, errors
    included.

    >>> "tool_calls" in ResultInterpretation.criterion.needs
    True
    """

    name: ClassVar[str] = "rubric.result_interpretation"
    summary: ClassVar[str] = "Does what the agent says reflect what its tools returned?"
    criterion: ClassVar[Criterion] = Criterion(
        id="result_interpretation",
        display_name="Result interpretation",
        description=(
            "Does what the agent says reflect what its tools returned? Hold each statement and each"
            " figure that rests on a tool against the result, and recompute what was counted or"
            " computed from results. An error that a tool returned must be dealt with or told, not"
            " passed over. What the user did not ask about need not be told."
        ),
        tier="execution",
        weight=0.15,
        levels=(
            "What the agent says has no relation to what the tools returned.",
            "The results were largely ignored, or the agent says the opposite of them.",
            (
                "What the user mainly wanted to know is wrong, several statements are, or a failure"
                " was told as a success."
            ),
            (
                "One statement is inaccurate in a way that means something to the user; the main"
                " thing is right."
            ),
            "Something minor was left out or blurred, and nobody is misled by it.",
            "Everything told is accurate and complete, and errors were dealt with.",
        ),
        no_occasion=(
            "no tool was called, or nothing that the agent had to tell the user rests on a result"
        ),
        nothing_without=("tool_calls",),
        needs=("final_output", "tool_calls"),
        in_defaults=True,
    )


@dataclass(frozen=True)
class TaskCompletion(Criterial):
    """Whether the main task of the conversation was done: pass, which counts as 5, or fail, which
    counts as 0.

    The main task is that of the expected outcomes where there are any, else what the user came for.
    It is not among the defaults, and it has no default weight: whoever selects it gives one.
    Without a model it is skipped.

    >>> TaskCompletion.criterion.kind
    'binary'
    """

    name: ClassVar[str] = "rubric.task_completion"
    summary: ClassVar[str] = "Was the main task done?"
    criterion: ClassVar[Criterion] = Criterion(
        id="task_completion",
        display_name="Task completion",
        description=(
            "Was the main task done by the end of the session? It is the main task of the expected"
            " outcomes where some are given below, else what the user came for, by the user's last"
            " word. A deed is done where a tool's result shows its right end, not where the agent"
            " says so; a question is answered where the answer is right: hold its figures against"
            " the results. What the agent's instructions forbid, or the results show to be"
            " impossible, is done when the agent declined it in words and did what the instructions"
            " demand instead; to grant it is a fail, and so is a change that nobody asked for, or"
            " that lacks a consent which the instructions demand."
        ),
        tier="execution",
        weight=0.0,
        levels=(
            "Nothing of the main task was done.",
            "The main task was begun, and next to nothing of it was done.",
            (
                "Parts of the main task were done; something that matters to the user is missing or"
                " wrong."
            ),
            "The main task was done; something beside it is missing.",
            "The main task was done, with one minor lack that changes nothing for the user.",
            "The main task was done in full, as the record shows.",
        ),
        no_occasion="the user wanted nothing: neither a deed nor an answer",
        kind="binary",
    )


@dataclass(frozen=True)
class ToolRouting(Criterial):
    """Whether the agent called the tools that the conversation needed, in an order that works, and
    no others.

    >>> ToolRouting.criterion.weight
    0.15
    """

    name: ClassVar[str] = "rubric.tool_routing"
    summary: ClassVar[str] = "Were the right tools called, in the right order?"
    criterion: ClassVar[Criterion] = Criterion(
        id="tool_routing",
        display_name="Tool routing",
        description=(
            "Were the right tools called, in the right order? Look at which tools were called and"
            " when, not at their arguments. A call is needless when its answer was there already"
            " and had not changed, or when it served nothing that was asked; it is not for being a"
            " check that the instructions demand, a further page, a look at a state that changes,"
            " or another try after an error. That a tool failed is no fault of its choice."
        ),
        tier="execution",
        weight=0.15,
        levels=(
            (
                "Tools were needed and none was called, or only tools that have nothing to do with"
                " the request."
            ),
            "Most of the calls that were needed are missing, or most calls were wrong.",
            (
                "Several calls were wrong, missing or out of order, or one changed what it must"
                " not; part of the flow worked."
            ),
            (
                "One tool that was needed was not called, or one wrong tool was; the user got the"
                " main thing all the same."
            ),
            (
                "Every call that was needed was made; one came out of order, or one too many was"
                " made that changed nothing."
            ),
            "Every call that was needed was made, in an order that works, and none was needless.",
        ),
        no_occasion="no tool was called, and none was needed",
        needs=("user_input", "tool_calls"),
        in_defaults=True,
    )


@dataclass(frozen=True)
class GroundingFidelity(Criterial):
    """Whether every claim of the agent can be traced to the conversation, to a tool's result or to
    its rules.

    >>> GroundingFidelity.criterion.weight
    0.125
    """

    name: ClassVar[str] = "rubric.grounding_fidelity"
    summary: ClassVar[str] = "Can every claim of the agent be traced to something it was told?"
    criterion: ClassVar[Criterion] = Criterion(
        id="grounding_fidelity",
        display_name="Grounding fidelity",
        description=(
            "Can every specific claim of the agent be traced to what the user said, to what a tool"
            " or a document gave, or to the agent's own rules? A deed that the agent claims needs a"
            " call that did it. What follows from the sources by counting, computing or rewording"
            " is grounded, and general knowledge that nobody would dispute needs no source. Whether"
            " a source was read rightly does not count here."
        ),
        tier="knowledge",
        weight=0.125,
        levels=(
            "All that was claimed was made up.",
            "Most of what was claimed was made up.",
            "Several claims that matter have no source, or a deed was claimed that was not done.",
            "One claim that matters has no source and could mislead.",
            "One minor statement cannot be verified.",
            "Every specific claim has its source, and what is uncertain is told as uncertain.",
        ),
        no_occasion="the agent made no specific claim: it only greeted or asked",
        needs=("user_input", "final_output", "tool_calls"),
        in_defaults=True,
    )


@dataclass(frozen=True)
class InformationGathering(Criterial):
    """Whether the agent collected what it needed before it acted, and did not ask for what it had
    been told.

    >>> InformationGathering.criterion.display_name
    'Information gathering'
    """

    name: ClassVar[str] = "rubric.information_gathering"
    summary: ClassVar[str] = "Was what is needed collected before acting, and used again once told?"
    criterion: ClassVar[Criterion] = Criterion(
        id="information_gathering",
        display_name="Information gathering",
        description=(
            "Was what is needed collected before the agent acted, and was what the user had said"
            " used again? A question is redundant when its answer had been given or could be looked"
            " up with the tools on offer; it is not when the instructions demand it, as they may"
            " demand a confirmation."
        ),
        tier="process",
        weight=0.10,
        levels=(
            "Nothing of what was needed was collected before the agent acted.",
            "Most of what was needed was not collected.",
            (
                "There are several gaps: facts that were missing when the agent acted, or that were"
                " told and forgotten."
            ),
            (
                "One fact that was required was missing when the agent acted, or one that was told"
                " was forgotten."
            ),
            "There is one redundant question, or one minor miss without consequence.",
            "All that was needed was there before the agent acted, and nothing was asked twice.",
        ),
        no_occasion=(
            "nothing had to be asked or looked up, and nothing said before had to be used again"
        ),
        in_defaults=True,
    )


@dataclass(frozen=True)
class InstructionCompliance(Criterial):
    """Whether the agent kept the rules, the role and the scope that its system prompt gives it.

    Without a model it is skipped, and so is a session in which no turn recorded the system prompt.

    >>> InstructionCompliance.criterion.needs_once
    ('system_instructions',)
    """

    name: ClassVar[str] = "rubric.instruction_compliance"
    summary: ClassVar[str] = "Were the rules of the agent's system prompt followed?"
    criterion: ClassVar[Criterion] = Criterion(
        id="instruction_compliance",
        display_name="Instruction compliance",
        description=(
            "Were the explicit rules of the agent's system prompt followed? Take those one by one"
            " that the session gave occasion for, with the role and the scope that the prompt sets,"
            " and judge by the facts of the record: neither what the user claims nor what the user"
            " wants changes a rule. What the prompt does not say is no rule."
        ),
        tier="knowledge",
        weight=0.125,
        levels=(
            "The instructions were disregarded entirely.",
            "Most instructions were ignored.",
            (
                "Several rules that matter were broken, or one whose breach cannot be undone; role"
                " or scope were left in part."
            ),
            "One rule that matters was broken; the core of the role is intact.",
            "There is one minor deviation, without consequence.",
            "All rules were kept, and so were role and scope.",
        ),
        no_occasion="the system prompt sets neither a rule nor a role nor a scope",
        needs=("user_input", "final_output"),
        needs_once=("system_instructions",),
        in_defaults=True,
    )


@dataclass(frozen=True)
class ConversationManagement(Criterial):
    """Whether the agent cleared up what was ambiguous, recovered from errors and brought the
    conversation to an end.

    Without a model it is skipped.

    >>> ConversationManagement.criterion.tier
    'process'
    """

    name: ClassVar[str] = "rubric.conversation_management"
    summary: ClassVar[str] = (
        "Were ambiguity, errors and the closing of the conversation dealt with well?"
    )
    criterion: ClassVar[Criterion] = Criterion(
        id="conversation_management",
        display_name="Conversation management",
        description=(
            "Were ambiguity, errors and the end of the conversation dealt with well? What can be"
            " meant in two ways that lead to different ends is asked about before acting on it. An"
            " error, of the agent or of a tool, is owned to and put right or led to a next step."
            " The end says where the matter stands; where the user breaks off, none is owed."
        ),
        tier="process",
        weight=0.10,
        levels=(
            "There was no management: the agent froze or was incoherent.",
            "It was poor throughout.",
            "There are several failures, and the conversation is disjointed.",
            (
                "There is one failure that matters: one reading was acted on without asking, an"
                " error was passed over, or the user had to say a thing again."
            ),
            "One chance was missed, such as to confirm what was done or to say what comes next.",
            (
                "What was ambiguous was cleared up, errors were owned to and put right, and the end"
                " says where the matter stands."
            ),
        ),
        no_occasion=(
            "in a single exchange nothing was ambiguous, nothing went wrong and nothing was left"
            " open"
        ),
        in_defaults=True,
    )


@dataclass(frozen=True)
class ResponseDelivery(Criterial):
    """Whether the agent's answers are concise, natural, fit to be spoken, and do not repeat
    themselves.

    Without a model it is skipped.

    >>> ResponseDelivery.criterion.tier
    'delivery'
    """

    name: ClassVar[str] = "rubric.response_delivery"
    summary: ClassVar[str] = (
        "Is what the agent says concise, natural, speakable and not repetitive?"
    )
    criterion: ClassVar[Criterion] = Criterion(
        id="response_delivery",
        display_name="Response delivery",
        description=(
            "Is what the agent says concise, natural, in the user's language, fit to be spoken and"
            " not repetitive? Unspeakable are, for instance, tables, markup, raw identifiers and"
            " long lists, unless the user asked for one. The substance does not count here."
        ),
        tier="delivery",
        weight=0.10,
        levels=(
            (
                "The answers are unsuitable for a conversation: empty, raw data, or in a language"
                " the user does not use."
            ),
            "Problems are everywhere.",
            (
                "There are several problems; the agent sounds robotic, goes on too long or repeats"
                " itself."
            ),
            (
                "There is one problem that matters, such as two questions in one turn or an answer"
                " buried in words."
            ),
            "There is one minor problem.",
            "All answers are concise and natural, and nothing in them cannot be spoken.",
        ),
        needs=("final_output",),
        in_defaults=True,
    )


@dataclass(frozen=True)
class Overall(RubricMetric):
    """All selected criteria as one number: 100 x the sum of weight x score / 5, the weights brought
    to a sum of 1.

    The criteria that do not apply to the session, and those that were skipped, are left out and the
    weights of the others brought to a sum of 1 again; `coverage` in the metadata is the share of
    the weight of those that apply that was scored, and below one half there is no overall score. A
    criterion that failed fails the overall score. The label is `pass` from
    `evaluation.rubric.pass_threshold` on; where a test case states expected outcomes, it is `pass`
    when all of them hold. Metadata: `criteria` {id: {`score`, `label`, `weight`}}, `coverage`,
    `skipped` and `not_applicable` {id: reason}, `passed`, `decided_by`, `expected_outcomes`
    [{`statement`, `passed`, `justification`}].

    >>> Overall().threshold
    75.0
    """

    name: ClassVar[str] = "rubric.overall"
    summary: ClassVar[str] = "How good is the whole, by the weighted criteria of the rubric?"
    scale: ClassVar[tuple[float, float]] = (0.0, 100.0)

    threshold: Threshold = 75.0
