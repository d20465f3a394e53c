"""The steps of one turn, by kind."""

from collections.abc import Callable, Sequence

from spanscore.model.span import Span
from spanscore.model.step import Step
from spanscore.turns.basis.tree import Tree
from spanscore.turns.dedup import reports


class TurnSteps:
    """The steps of one turn, sorted by what they are.

    - `models`, `tools`, `agents` and `workflows` are all steps of a kind, each call once.
    - An agent or model call in a tool does not face the user, since what a tool does is its own;
      where all lie in tools, all face the user. Of the agents that do, `first_agent` is the
      outermost as a list of one or none, `other_agents` are the rest, and `outermost` are those
      with no agent above them.
    - `main` are the model calls of the agent that answers the user: the outermost one that calls a
      model itself, since agents around it may only pass on. A model call beside all agents, as one
      that finds a title, is main only where there are no others.
    - `facing` are the model calls of the main agent and of the agents to which it can hand over.
    """

    def __init__(self, steps: Sequence[Step], tree: Tree) -> None:
        self.tree = tree
        self.steps = steps
        self.models = reports.model_calls(steps, tree)
        self.tools = reports.tool_calls(steps, tree)
        self.agents = sorted([step for step in steps if step.kind == "agent"], key=self.depth)
        self.workflows = sorted([step for step in steps if step.kind == "workflow"], key=self.depth)
        agents, models = _facing_user(self.agents, self.models, tree)
        self.first_agent, self.other_agents = agents[:1], agents[1:]
        self.outermost = [agent for agent in agents if tree.place(agent).agents == 0]
        depths = [tree.place(model).agents for model in models]
        shallowest = min(filter(None, depths), default=0)
        self.facing = [
            model for model, depth in zip(models, depths, strict=True) if depth >= shallowest
        ]
        self.main = [
            model for model, depth in zip(models, depths, strict=True) if depth == shallowest
        ]

    def depth(self, step: Step) -> tuple[int, int, str]:
        """Sorts steps from the root down, those of one depth by time."""
        return self.tree.place(step).depth, step.span.start_ns, step.span.span_id

    def agent_of(self, step: Step) -> str | None:
        """The name of the agent that a model call or tool call belongs to.

        What lies in a tool, with no agent between, is not of the agent that called the tool, but of
        one that the tool records that it runs.
        """
        place = self.tree.place(step)
        if place.tool is not None:
            return step.agent_name or place.tool.runs_agent
        return step.agent_name or (None if place.agent is None else place.agent.agent_name)

    def shows_calls(self) -> bool:
        """Whether a tool call, had there been one, would show."""
        return (
            bool(self.tools)
            or any(x.output is not None for x in self.models)
            or any(x.output is not None and len(x.output) > 1 for x in self.agents)
        )

    def target(self, opening: Step | None) -> Span:
        """The span that gets the scores: the outermost agent's if there is one, else the top of the
        turn.
        """
        if opening is not None:
            return opening.span
        top = self.tree.top
        return self.outermost[0].span if len(self.outermost) == 1 or top is None else top


def _facing_user(
    agents: list[Step], models: list[Step], tree: Tree
) -> tuple[list[Step], list[Step]]:
    """The agents and model calls that lie in no tool; all, where all do."""
    in_tools = {tree.place(step).in_tool for step in (*agents, *models)}
    if len(in_tools) < 2:
        return agents, models
    outside = (
        [step for step in steps if not tree.place(step).in_tool] for steps in (agents, models)
    )
    of_agents, of_models = outside
    return of_agents, of_models


def topmost(turn: TurnSteps, records: Callable[[Step], object]) -> list[Step]:
    """The agents that record something, without those inside one that does, by time.

    What only started when the outer one had ended, as by a message that it sent, is not inside.
    """
    found, inside = list[Step](), dict[str, Step]()
    for step in (*turn.first_agent, *turn.other_agents):  # the outer ones first
        above = turn.tree.place(step).agent
        outer = None if above is None else inside.get(above.span.span_id)
        if outer is None or step.span.start_ns > outer.span.end_ns:
            outer = step if records(step) else None
            found += [step] if outer is not None else []
        if outer is not None:
            inside[step.span.span_id] = outer
    return sorted(found, key=lambda x: (x.span.start_ns, x.span.span_id))
