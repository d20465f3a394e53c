"""Whichever tool's attributes carry them, messages of every accepted outline give the same
facts.
"""

import json

import framework_messages
import openai_messages
import plain_messages
import provider_messages
import pytest
from accepted import facts_of, span

FORMS = [
    *plain_messages.FORMS,
    *openai_messages.FORMS,
    *provider_messages.FORMS,
    *framework_messages.FORMS,
]


def written(value):
    return value if isinstance(value, str) else json.dumps(value)


def carried(keys, kind, form):
    """A model call's span that has the form's input and output under `keys`; one that is null is
    not recorded.
    """
    sides = zip(keys, (form.given, form.answered), strict=True)
    return [span({**kind, **{key: written(value) for key, value in sides if value is not None}})]


LANGFUSE = (
    ("langfuse.observation.input", "langfuse.observation.output"),
    {"langfuse.observation.type": "generation"},
)
OPENINFERENCE = ("input.value", "output.value"), {"openinference.span.kind": "LLM"}
LANGWATCH = ("langwatch.input", "langwatch.output"), {"langwatch.span.type": "llm"}
CARRIERS = {"langfuse": LANGFUSE, "langwatch": LANGWATCH, "openinference": OPENINFERENCE}
NOT_OF_OPENINFERENCE = ("tools as messages of tools",)


@pytest.mark.parametrize("form", FORMS, ids=lambda x: x.name)
def test_messages_of_any_accepted_outline_give_the_facts_that_they_hold(form):
    carriers = CARRIERS.keys()
    if form.name.startswith(NOT_OF_OPENINFERENCE):
        carriers -= {"openinference"}
    read = {x: facts_of(carried(*CARRIERS[x], form), names=form.facts) for x in carriers}
    assert read == dict.fromkeys(carriers, form.facts)
