"""Merge the steps of one turn into an AgentTrace; every fact has its sources in order, the first that speaks wins."""

from collections.abc import Iterable, Sequence

from spanscore.model.span import Span
from spanscore.model.step import Message, Step, StepFact
from spanscore.model.trace import AgentTrace, Completeness, ModelCall, PastMessage, Retrieval, Target, Tool, Usage
from spanscore.turns import _conversation, _double, _tool_calls
from spanscore.turns._conversation import Opening
from spanscore.turns._tree import Tree

_FACTS_OF: dict[StepFact, tuple[str, ...]] = {
    "input": ("user_input", "history"),
    "output": ("final_output", "model_calls"),
    "system": ("system_instructions",),
    "tools": ("available_tools",),
    "arguments": ("tool_calls",),
    "result": ("tool_calls",),
}


class Turn:
    """The steps of one turn, sorted by what they are; `main` are the model calls of the agent that answers the user.

    That agent is the outermost one that calls a model itself: around it may lie agents that only pass on. A model call
    beside all agents (one that finds a title, say) is not main, unless there are no others.
    """

    def __init__(self, steps: Sequence[Step], tree: Tree) -> None:
        self.tree = tree
        self.steps = steps
        self.models = _double.model_calls(steps, tree)
        self.tools = _double.tool_calls(steps, tree)
        self.agents = sorted((x for x in steps if x.kind == "agent"), key=self._depth)
        self.workflows = sorted((x for x in steps if x.kind == "workflow"), key=self._depth)
        self.outermost = [x for x in self.agents if tree.place(x).agents == 0]
        nesting = [tree.place(x).agents for x in self.models]
        shallowest = min(filter(None, nesting), default=0)
        self.main = [x for x, agents in zip(self.models, nesting, strict=True) if agents == shallowest]
        self.opening = self._opening()

    def _depth(self, step: Step) -> tuple[int, int, str]:
        return self.tree.place(step).depth, step.span.start_ns, step.span.span_id

    def _opening(self) -> Opening:
        """The outermost agent's own messages, else its first model call's, else a workflow's."""
        for step in (*self.agents[:1], *self.main[:1], *self.agents[1:], *self.workflows):
            if step.input:
                start = _conversation.opening(step.input)
                if start.text is not None:
                    return start
        return Opening((), -1)

    def user_input(self) -> str | None:
        """What the user said. A function's plain argument wins over a prompt that is built around it."""
        said = self.opening.text
        called_with = next((x.input_text for x in (*self.agents, *self.workflows) if x.input_text), None)
        if said is None or (called_with and " " in called_with and called_with in said):
            return called_with or said
        return said

    def final_output(self) -> str | None:
        """The outermost agent's answer, else the last one of the model, else what the function returned."""
        for agent in self.outermost[-1:]:
            told = _conversation.final_text(agent.output) if agent.output else None
            if told is not None or agent.output_text is not None:
                return agent.output_text if told is None else told
        for model in reversed(self.main):
            told = _conversation.final_text(model.output) if model.output else None
            if told is not None:
                return told
            if model.output is not None:
                break  # it ends in a tool call: no answer was seen
        for step in (*self.agents, *self.workflows):
            told = _conversation.final_text(step.output) if step.output else None
            if told is not None or step.output_text is not None:
                return step.output_text if told is None else told
        return None

    def history(self) -> tuple[PastMessage, ...]:
        """What came before the question: as its first model call saw it, if the agent itself was given less."""
        for model in self.main[:1]:
            if model.input is not None and len(model.input) > len(self.opening.messages):
                start = _conversation.opening(model.input)
                if start.text == self.opening.text:
                    return _conversation.history(start)
        return _conversation.history(self.opening)

    def system_instructions(self) -> str | None:
        """The agent's, else those of its first model call, as an attribute or as messages."""
        for step in (*self.agents[:1], *self.main, *self.agents[1:]):
            told = step.system or _conversation.system_text(step.input or ())
            if told is not None:
                return told
        return None

    def available_tools(self) -> tuple[Tool, ...] | None:
        """All tools that were on offer in the turn, by name, the main agent's first."""
        offering = (*self.agents[:1], *self.main, *self.agents[1:], *self.models)
        lists = {id(x.tools): x.tools for x in offering if x.tools is not None}
        if not lists:
            return None
        if len(lists) == 1:
            return self._described(next(iter(lists.values())))
        found: dict[str, Tool] = {}
        for tools in lists.values():
            for tool in tools:
                found.setdefault(tool.name, tool)
        return self._described(tuple(found.values()))

    def _described(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """The tools; one of which only the name was listed, as its own spans describe it."""
        if all(x.description is not None or x.parameters is not None for x in tools):
            return tools
        told = {tool.name: tool for step in self.tools for tool in step.tools or ()}
        bare = {x.name for x in tools if x.description is None and x.parameters is None}
        return tuple(told.get(x.name, x) if x.name in bare else x for x in tools)

    def tool_sources(self) -> _tool_calls.Sources:
        """Where this turn's tool calls show."""
        sources = _tool_calls.Sources(spans=[(x, self._agent_of(x)) for x in self.tools])
        openings: dict[str, Opening] = {}
        for model in self.models:
            agent = self.tree.place(model).agent
            agent_name = self._agent_of(model)
            if model.output:
                sources.requests.append((model, agent_name, model.output))
            if model.input:
                whose = "" if agent is None else agent.span.span_id
                start = openings.get(whose) or openings.setdefault(whose, _conversation.opening(model.input))
                sources.tails.append(_tool_calls.Tail(model, _conversation.tail(model.input, start.text), agent_name))
        for agent in self.agents if not self.models else ():
            if agent.output:
                sources.requests.append((agent, agent.agent_name, agent.output))
                sources.tails.append(_tool_calls.Tail(agent, agent.output, agent.agent_name))
        return sources

    def shows_calls(self) -> bool:
        """Whether a tool call, had there been one, would show."""
        return (
            bool(self.tools)
            or any(x.output is not None for x in self.models)
            or any(x.output is not None and len(x.output) > 1 for x in self.agents)
        )

    def _agent_of(self, step: Step) -> str | None:
        agent = self.tree.place(step).agent
        return step.agent_name or (None if agent is None else agent.agent_name)

    def plan(self) -> str | None:
        """The text beside the first tool calls, else the last text before them."""
        before: str | None = None
        for model in self.main:
            texts = [x.text for x in model.output or () if x.text and x.text.strip()]
            if any(x.calls for x in model.output or ()):
                return "\n".join(texts) if texts else before
            before = "\n".join(texts) if texts else before
        return None

    def usage(self) -> Usage:
        """The sum over the model calls; the outermost agents' own count only where no model call has any."""
        counted: Iterable[Step] = self.models
        if all(x.input_tokens is None and x.output_tokens is None for x in self.models):
            counted = self.outermost
        given = [x.input_tokens for x in counted if x.input_tokens is not None]
        produced = [x.output_tokens for x in counted if x.output_tokens is not None]
        return Usage(sum(given) if given else None, sum(produced) if produced else None)

    def damaged(self) -> tuple[str, ...]:
        """The fields of an AgentTrace that rest on facts which arrived cut or redacted."""
        names = {name for x in self.steps for fact in x.damaged for name in _FACTS_OF[fact]}
        return tuple(sorted(names))

    def session_and_user(self) -> tuple[str | None, str | None]:
        """The ids of the span nearest the root that has one, else of the resource."""
        by_depth = sorted(self.steps, key=self._depth)
        resource = self.steps[0].span.resource.attributes
        session = next((x.session_id for x in by_depth if x.session_id), resource.get("session.id"))
        user = next((x.user_id for x in by_depth if x.user_id), resource.get("user.id"))
        return session if isinstance(session, str) else None, user if isinstance(user, str) else None

    def agent_name(self) -> str | None:
        """The outermost agent's that has one, else a workflow's, else what a model call says of its agent."""
        named = (*self.agents, *self.workflows, *self.models)
        return next((x.agent_name for x in named if x.agent_name), None)

    def target(self, opening: Step | None) -> Span:
        """The span that gets the scores: the outermost agent's if there is one, else the top of the turn."""
        if opening is not None:
            return opening.span
        top = self.tree.top
        return self.outermost[0].span if len(self.outermost) == 1 or top is None else top


def build(
    steps: Sequence[Step], opening: Step | None, opening_id: str, tree: Tree, unread: int, completeness: Completeness
) -> AgentTrace:
    """The AgentTrace of one turn; `opening` is the step it starts with where the trace holds several turns."""
    turn = Turn(steps, tree)
    tools = turn.available_tools()
    target = turn.target(opening)
    calls = _tool_calls.rebuild(turn.tool_sources(), tools or ())
    session, user = turn.session_and_user()
    around = [x.span for x in steps] if opening is not None else [x.span for x in steps] + [target]
    started = [x.start_ns for x in around if x.start_ns]
    return AgentTrace(
        trace_ids=(target.trace_id,),
        root_span_id=None if tree.root is None else tree.root.span_id,
        target=_target(target, turn),
        opening_span_id=opening_id,
        started_ns=min(started, default=0),
        ended_ns=max(max(x.end_ns, x.start_ns) for x in around),
        completeness=completeness,
        session_id=session,
        user_id=user,
        agent_name=turn.agent_name(),
        service_name=target.resource.service_name,
        user_input=turn.user_input(),
        final_output=turn.final_output(),
        system_instructions=turn.system_instructions(),
        available_tools=tools,
        tool_calls=calls if calls or turn.shows_calls() else None,
        model_calls=tuple(_model_call(x) for x in turn.models),
        history=turn.history(),
        retrieved=tuple(Retrieval(x.span.span_id, x.query, x.documents) for x in steps if x.kind == "retrieval"),
        plan=turn.plan(),
        damaged=turn.damaged(),
        usage=turn.usage(),
        dialects=tuple(sorted({x.dialect for x in steps if x.dialect})),
        unread_spans=unread,
    )


def _target(span: Span, turn: Turn) -> Target:
    model = next((x for x in turn.models if x.span is span), None)
    return Target(
        span.trace_id,
        span.span_id,
        span.start_ns,
        span.end_ns,
        span.resource.attributes,
        None if model is None else model.response_id,
    )


def _model_call(step: Step) -> ModelCall:
    output: Sequence[Message] = step.output or ()
    texts = [x.text for x in output if x.text is not None]
    thoughts = [x.reasoning for x in output if x.reasoning]
    return ModelCall(
        step.span.span_id,
        step.model,
        "\n".join(texts) if texts else None,
        "\n".join(thoughts) if thoughts else None,
        tuple(call for x in output for call in x.calls),
        step.input_tokens,
        step.output_tokens,
    )
