"""What is in the wheel and in the sdist: all that is needed, and nothing of the development."""

import tarfile
import zipfile
from email.parser import Parser

import pytest


@pytest.fixture(scope="module")
def files(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (x for x in archive.namelist() if x.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "spanscore/py.typed",
        "spanscore/api/v1/score_service_pb2.pyi",
        "spanscore/cli/spanscore.yaml",
        "spanscore/cli/recordings/pydantic-ai/traces-000001.pb",
    ],
)
def test_the_wheel_contains_what_the_program_reads(files, name):
    assert name in files


@pytest.mark.slow
def test_the_wheel_contains_one_package(files):
    assert {x.partition("/")[0].removesuffix(".dist-info").partition("-")[0] for x in files} == {
        "spanscore"
    }


@pytest.mark.slow
def test_the_wheel_has_the_licence(files):
    assert any(x.endswith("/licenses/LICENSE") for x in files)


def test_litellm_is_only_in_the_extra(metadata):
    needed = [x for x in metadata.get_all("Requires-Dist") if x.startswith("litellm")]

    assert needed
    assert all("extra == 'judge'" in x for x in needed)


def test_no_dependency_of_the_core_has_an_upper_bound(metadata):
    core = [x for x in metadata.get_all("Requires-Dist") if "extra ==" not in x]

    assert [x for x in core if "<" in x or "==" in x or "~=" in x] == []


@pytest.mark.slow
def test_the_sdist_has_the_tests_and_the_docs(sdist):
    with tarfile.open(sdist) as archive:
        tops = {x.partition("/")[2].partition("/")[0] for x in archive.getnames()}

    assert {"README.md", "docs", "examples", "pyproject.toml", "src", "tests"} <= tops
