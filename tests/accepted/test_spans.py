"""Spans as other tools take them from their users give the facts that those tools find in them."""

import braintrust_spans
import foreign_spans
import langfuse_lone_spans
import langfuse_spans
import langwatch_spans
import posthog_spans
import pytest
import remapped_spans
import stated_results
import tool_spans
from accepted import each_fact, facts_of

FORMS = [
    *braintrust_spans.FORMS,
    *langfuse_spans.FORMS,
    *langfuse_lone_spans.FORMS,
    *posthog_spans.FORMS,
    *foreign_spans.FORMS,
    *tool_spans.FORMS,
    *langwatch_spans.FORMS,
    *remapped_spans.FORMS,
    *stated_results.FORMS,
]
CASES = [pytest.param(form, fact, id=name) for name, form, fact in each_fact(FORMS)]


@pytest.mark.parametrize(("form", "fact"), CASES)
def test_a_fact_is_read_from_spans_of_any_accepted_form(form, fact):
    assert facts_of(form.spans, form.logs).get(fact) == form.facts[fact]
