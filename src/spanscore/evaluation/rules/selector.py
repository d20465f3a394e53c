"""Which traces a rule takes: conditions by plain keys, all of which hold; `any` and `not` around
others.
"""

from typing import Self

from pydantic import Field, model_validator

from spanscore.evaluation.rules.conditions import AttributeValue, Durations, Numbers, Text
from spanscore.model.options import Options


class Tokens(Options):
    """Conditions on the tokens of a trace, each model call counted once.

    What is not recorded meets none.
    """

    input: Numbers | None = None
    """Tokens that models were given."""

    output: Numbers | None = None
    """Tokens that models produced."""

    total: Numbers | None = None
    """The two together, where both are recorded."""


class Selector(Options):
    """The traces that a rule takes: those that meet all of these conditions; without any, all
    traces.

    A condition on a text is the text, a list of which one fits, or `{exists: true}` or `{exists:
    false}`; `*` stands for any characters. A condition on a number has bounds: `at_least`, `above`,
    `at_most`, `below`. What a trace does not record meets none but `{exists: false}`.
    """

    service: Text | None = None
    """`service.name` of the evaluated span's resource."""

    agent: Text | None = None
    """The agent's name."""

    environment: Text | None = None
    """Where it runs: the resource's `deployment.environment.name`, or `deployment.environment`, or
    Langfuse's `langfuse.environment`.
    """

    session: Text | None = None
    """The session's id."""

    user: Text | None = None
    """The user's id."""

    tags: Text | None = None
    """One of the tags of the spans, as OpenInference, Langfuse, LangSmith, Logfire, Traceloop,
    Laminar, Braintrust, Opik and DeepEval write them.
    """

    tool: Text | None = None
    """The name of a tool that was called."""

    error: bool | None = None
    """Whether a tool call failed, or a span of the turn has the status error."""

    duration: Durations | None = None
    """How long the turn took, such as `{at_least: 60s}`."""

    tokens: Tokens | None = None
    """The tokens that it took, such as `{total: {above: 50000}}`."""

    resource: dict[str, AttributeValue] = {}
    """Attributes of the evaluated span's resource, by name."""

    attributes: dict[str, AttributeValue] = {}
    """Attributes of the turn's spans, by name: one span that meets the condition is enough. What
    lies around the turn counts too, such as a request's span.
    """

    any_of: list["Selector"] | None = Field(default=None, alias="any")
    """One of these is met."""

    none_of: "Selector | None" = Field(default=None, alias="not")
    """This is not met."""

    @model_validator(mode="after")
    def _has_alternatives(self) -> Self:
        if self.any_of == []:
            raise ValueError(
                "any: the list is empty: nothing can be met; name at least one alternative"
            )
        return self
