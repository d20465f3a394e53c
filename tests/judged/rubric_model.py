"""A model that answers whatever the rubric asks."""

from obliging_model import schema_of
from scripted_server import answer


def said(request, **given):
    """A valid answer to a request, 4 on every criterion, with `given` in place of what a criterion
    would have.
    """
    fields = schema_of(request)["properties"]
    fine = {"justification": "as [turn 0] shows", "turns": [], "failure_code": None}
    found = {name: fine | {"score": 4} for name in fields}
    if "task_completion" in fields:
        found["task_completion"] = fine | {"passed": True}
    if "expected_outcomes" in fields:
        found["expected_outcomes"] = [{"justification": "[turn 0]", "passed": True}]
    return answer(found | given)
