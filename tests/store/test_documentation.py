"""docs/store.md says what is so: its example loads, every table is named."""

import re
from pathlib import Path

import pytest
import yaml

from spanscore.store.config import Config
from spanscore.store.schema import tables

TEXT = (Path(__file__).parents[2] / "docs" / "store.md").read_text(encoding="utf-8")
SHOWN = set(re.findall(r"^\| `([^`]+)` \|", TEXT, re.MULTILINE))


def test_the_example_is_a_configuration_that_loads():
    (block,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert Config.model_validate(yaml.safe_load(block)["store"]) != Config()


@pytest.mark.parametrize("table", sorted(tables.tables))
def test_a_table_is_documented(table):
    assert table in SHOWN
