"""Spans as other tools take them from their users give the facts that those tools find in them."""

import agno_spans
import braintrust_spans
import evaluator_spans
import foreign_spans
import framework_spans
import langfuse_lone_spans
import langfuse_spans
import langwatch_spans
import posthog_spans
import pytest
import remapped_spans
import stated_results
import tool_spans
import tracking_spans
from accepted import facts_of

FORMS = [
    *agno_spans.FORMS,
    *braintrust_spans.FORMS,
    *evaluator_spans.FORMS,
    *framework_spans.FORMS,
    *langfuse_spans.FORMS,
    *langfuse_lone_spans.FORMS,
    *posthog_spans.FORMS,
    *foreign_spans.FORMS,
    *tool_spans.FORMS,
    *langwatch_spans.FORMS,
    *remapped_spans.FORMS,
    *stated_results.FORMS,
    *tracking_spans.FORMS,
]


@pytest.mark.parametrize("form", FORMS, ids=lambda x: x.name)
def test_spans_of_any_accepted_form_give_the_facts_that_they_hold(form):
    assert facts_of(form.spans, form.logs, names=form.facts) == form.facts
