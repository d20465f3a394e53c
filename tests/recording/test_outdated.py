"""Which recordings are behind their framework's release."""

from dataclasses import replace

import pytest
from described import frameworks
from outdated import Behind, describe, kept_old, pins

KNOWN = {x.name: x for x in frameworks()}


@pytest.mark.parametrize(
    ("recorded", "newest", "by"),
    [
        ("1.2.0", "2.0.0", "major"),
        ("1.2.0", "1.3.0", "minor"),
        ("1.2.0", "1.2.1", "patch"),
        ("2.4b0", "2.5b0", "minor"),
        ("1.2.0", "1.2.0", ""),
        ("1.3.0", "1.2.9", ""),
        ("any", "other", "major"),
    ],
)
def test_the_part_of_the_version_that_is_behind_is_named(recorded, newest, by):
    assert Behind("package", recorded, newest).by == by


def test_a_framework_that_is_behind_is_listed_with_its_command():
    framework = KNOWN["langgraph-openinference"]
    lines = list(describe(framework, {("python", "langgraph"): "99.0"}))
    assert lines[0].endswith("make record NAME=langgraph-openinference")
    assert lines[1].startswith("  major: langgraph ")


def test_a_framework_that_is_not_behind_is_not_listed():
    framework = KNOWN["mastra"]
    newest = {("node", name): version for name, version in pins(framework).items()}
    assert list(describe(framework, newest)) == []


@pytest.mark.parametrize(
    "framework", [x for x in KNOWN.values() if x.runtime != "java"], ids=lambda x: x.name
)
def test_each_framework_has_a_version_that_is_compared(framework):
    assert pins(framework)


def test_old_releases_are_kept_on_purpose():
    assert kept_old(KNOWN["mastra-version-0"])
    assert not kept_old(replace(KNOWN["mastra"], exclude_newer=""))
