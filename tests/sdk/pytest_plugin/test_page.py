"""The tests that docs/pytest.md shows run as they stand there."""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PAGE = (Path(__file__).parents[3] / "docs" / "pytest.md").read_text()
BLOCKS = [x for x in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "def test_" in x]


ANOTHER = """

def by_question(question):
    return emitted(question, tools=("refund",) if question.startswith("Then") else ("find_order", \
"refund"))


emitted, agent = agent, by_question
"""


@pytest.mark.slow
def test_the_tests_of_the_page_run(judged):
    (judged.path / "agent.py").write_text((judged.path / "agent.py").read_text() + ANOTHER)
    judged.makepyfile(test_page="\n\n".join(["from agent import agent", *BLOCKS]))
    judged.runpytest_inprocess().assert_outcomes(passed=4)
