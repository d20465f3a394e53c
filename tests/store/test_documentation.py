"""docs/store.md says what is so: its example loads, every key has its default, every table is
named.
"""

import re
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from spanscore.store.config import Config
from spanscore.store.schema import tables

TEXT = (Path(__file__).parents[2] / "docs" / "store.md").read_text(encoding="utf-8")
SHOWN = {
    found[1]: found[2].strip("`")
    for found in re.finditer(r"^\| `([^`]+)` \| ([^|]*) \|", TEXT, re.MULTILINE)
}


def keys(model, path=""):
    """The keys of a model and of the models in it, as they are written, each with its default as it
    is written.
    """
    for name, default in model.model_dump(mode="json").items():
        nested = getattr(model, name)
        if isinstance(nested, BaseModel):
            yield from keys(nested, f"{path}{name}.")
        else:
            yield path + name, default


def test_the_example_is_a_configuration_that_loads():
    (block,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert Config.model_validate(yaml.safe_load(block)["store"]) != Config()


@pytest.mark.parametrize(("key", "default"), list(keys(Config())))
def test_a_setting_is_documented_with_its_default(key, default):
    assert SHOWN.get(key) == default


@pytest.mark.parametrize("table", sorted(set(tables.tables) - {"spanscore_schema"}))
def test_a_table_is_documented(table):
    assert table in SHOWN
