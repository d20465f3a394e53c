"""docs/judge.md says what is so: its configurations load, every kind is named."""

import re
from pathlib import Path

import pytest
import yaml

from spanscore.judge.config import Config
from spanscore.judge.redaction import RULES

TEXT = (Path(__file__).parents[2] / "docs" / "judge.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
SHOWN = {
    name
    for line in TEXT.splitlines()
    if line.startswith("| `")
    for name in re.findall(r"`([^`]+)`", line.split("|")[1])
}


@pytest.mark.parametrize("block", BLOCKS)
def test_an_example_is_a_configuration_that_loads(block):
    assert Config.model_validate(yaml.safe_load(block)["judge"])


@pytest.mark.parametrize("kind", sorted({rule.kind for rule in RULES}))
def test_every_kind_that_is_redacted_is_documented(kind):
    assert kind in SHOWN
