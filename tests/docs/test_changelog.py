"""The changelog has the groups of https://keepachangelog.com, and each change is in one."""

import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()
VERSIONS = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]
GROUPS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


@pytest.mark.parametrize("version", VERSIONS, ids=lambda x: x.split()[0])
def test_groups_stand_in_their_order_and_each_once(version):
    groups = re.findall(r"^### (.*)$", version, re.MULTILINE)
    assert groups == [x for x in GROUPS if x in groups]


def test_no_change_stands_twice():
    changes = re.findall(r"^- (.*)$", TEXT, re.MULTILINE)
    assert [x for x in changes if changes.count(x) > 1] == []
