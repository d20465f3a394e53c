"""The public names of the package."""

import subprocess
import sys

import pytest

import spanscore


def test_the_public_names_are_sorted():
    assert spanscore.__all__ == sorted(spanscore.__all__)


@pytest.mark.parametrize("name", spanscore.__all__)
def test_a_public_name_can_be_had(name):
    assert getattr(spanscore, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        spanscore.nothing  # noqa: B018 # asking is the test


@pytest.mark.parametrize("heavy", ["litellm", "model2vec", "grpc", "aiohttp", "sqlalchemy", "numpy", "pydantic"])
def test_importing_the_package_imports_nothing_heavy(heavy):
    code = f"import sys, spanscore; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
