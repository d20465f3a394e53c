"""Pydantic AI's spans in the forms that its recordings do not cover."""

from functools import partial

import one_span
import pytest

read = partial(one_span.read, scope="pydantic-ai")


@pytest.mark.parametrize(
    ("name", "attributes", "kind"),
    [
        ("agent run", {"agent_name": "clerk"}, "agent"),
        ("invoke_agent clerk", {"agent_name": "clerk", "gen_ai.agent.name": "clerk"}, "agent"),
        ("running tool", {"gen_ai.tool.name": "lookup"}, "tool"),
        ("execute_tool lookup", {"gen_ai.tool.name": "lookup"}, "tool"),
        ("running tools", {"tools": ["lookup"]}, "other"),
        ("running output function", {"gen_ai.tool.name": "finish"}, "other"),
    ],
)
def test_in_version_1_the_name_of_a_span_says_what_it_is(name, attributes, kind):
    assert read(attributes, name=name).kind == kind


def test_a_tool_of_version_1_that_raised_has_failed():
    assert read({"gen_ai.tool.name": "lookup"}, name="execute_tool lookup", status=2).error
