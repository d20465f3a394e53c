"""A judge of the rubric that gives the scores it is made with."""

from spanscore.judge.port import Answer
from spanscore.model.score import JudgeUsage


class RubricJudge:
    """Gives each criterion the score in `scores`, else 4; keeps what it was asked.

    A score is a number, "not_applicable", or all that is said of the criterion.
    """

    def __init__(self, error=None, outcomes=(), **scores):
        self.scores = scores
        self.error = error
        self.outcomes = outcomes
        self.asked = []

    async def ask(self, prompt, schema, *, models=()):
        self.asked.append((prompt, schema, tuple(models)))
        if self.error:
            raise self.error
        names = [x.alias for x in schema.model_fields.values()]
        said = {name: self._said(name) for name in names if name != "expected_outcomes"}
        if "expected_outcomes" in names:
            said["expected_outcomes"] = [
                {"justification": "see [turn 0]", "passed": x} for x in self.outcomes
            ]
        return Answer(
            schema.model_validate(said),
            models[0] if models else "scripted",
            JudgeUsage(1, 1001, 101, 0.9),
        )

    def _said(self, name):
        given = self.scores.get(name, 4)
        if isinstance(given, dict):
            return given
        if given == "not_applicable":
            return {
                "justification": f"{name} had no occasion",
                "turns": [],
                "failure_code": None,
                "score": given,
            }
        code = None if given >= 3 else "wrong_tool_selected"
        said = {
            "justification": f"{name}, see [turn 0]",
            "turns": [0] if given < 5 else [],
            "failure_code": code,
        }
        return said | ({"passed": given == 5} if name == "task_completion" else {"score": given})
