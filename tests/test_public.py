"""The public names of the package."""

import subprocess
import sys
from importlib import metadata

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


def imported_by(statement):
    """The modules that a statement imports into a new interpreter."""
    code = (
        f"import sys; before = set(sys.modules); {statement}; print(*sys.modules.keys() - before)"
    )
    return set(
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout.split()
    )


def test_importing_the_package_imports_nothing_but_the_means_to_import_the_rest():
    others = {x.partition(".")[0] for x in imported_by("import spanscore")} - set(
        sys.stdlib_module_names
    )

    assert others == {"spanscore"}


@pytest.mark.parametrize("slow", ["asyncio", "importlib.metadata", "email", "inspect"])
def test_importing_the_package_imports_no_module_of_python_that_takes_long(slow):
    assert slow not in imported_by("import spanscore")


HEAVY = {
    "aiohttp",
    "grpc",
    "litellm",
    "model2vec",
    "numpy",
    "pandas",
    "pydantic",
    "rich",
    "sqlalchemy",
    "yaml",
}


@pytest.mark.parametrize("name", ["turn", "tool", "plan", "expect", "session", "record_score"])
def test_what_an_agents_author_writes_imports_nothing_heavy(name):
    imported = {x.partition(".")[0] for x in imported_by(f"from spanscore import {name}")}

    assert imported & HEAVY == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["evaluate", "instrument"])
def test_what_scores_in_process_imports_no_server_database_or_model(name):
    imported = {x.partition(".")[0] for x in imported_by(f"from spanscore import {name}")}

    assert imported & HEAVY == {"pydantic", "yaml"}


def test_the_version_is_that_of_the_installed_package():
    assert spanscore.__version__ == metadata.version("spanscore")


def test_all_public_names_are_completed():
    assert set(spanscore.__all__) <= set(dir(spanscore))
