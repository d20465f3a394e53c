"""What other tools take from agents' telemetry is read here too: each fact of each form by
itself.
"""

import agno_spans
import evaluator_spans
import framework_spans
import pytest
import tracking_spans
from accepted import each_fact, facts_of

FORMS = [*agno_spans.FORMS, *evaluator_spans.FORMS, *framework_spans.FORMS, *tracking_spans.FORMS]


@pytest.mark.parametrize(
    ("form", "fact"), [pytest.param(x, y, id=name) for name, x, y in each_fact(FORMS)]
)
def test_a_fact_that_a_form_holds_is_read(form, fact):
    assert facts_of(form.spans, form.logs)[fact] == form.facts[fact]
