"""docs/judge.md says what is so: its configurations load, every key and kind is named, every
default is right.
"""

import re
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from spanscore.judge.config import Config
from spanscore.judge.redaction import RULES

TEXT = (Path(__file__).parents[2] / "docs" / "judge.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
SHOWN = {
    name: row[1].strip()
    for row in (line.strip("|").split("|") for line in TEXT.splitlines() if line.startswith("| `"))
    for name in re.findall(r"`([^`]+)`", row[0])
}


def keys(model, prefix=""):
    for name, field in model.model_fields.items():
        if isinstance(field.default, BaseModel):
            yield from keys(type(field.default), f"{prefix}{name}.")
        else:
            yield prefix + name, field.default


@pytest.mark.parametrize("block", BLOCKS)
def test_an_example_is_a_configuration_that_loads(block):
    assert Config.model_validate(yaml.safe_load(block)["judge"])


@pytest.mark.parametrize("key", [key for key, _ in keys(Config)])
def test_every_key_is_documented(key):
    assert key in SHOWN


@pytest.mark.parametrize(
    ("key", "default"), [x for x in keys(Config) if isinstance(x[1], str | bool)]
)
def test_a_default_is_what_the_docs_say(key, default):
    assert SHOWN[key].strip("`") == (str(default).lower() if isinstance(default, bool) else default)


@pytest.mark.parametrize("kind", sorted({rule.kind for rule in RULES}))
def test_every_kind_that_is_redacted_is_documented(kind):
    assert kind in SHOWN
