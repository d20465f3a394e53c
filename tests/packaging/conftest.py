"""The distributions as they are published, and new environments to install them into."""

import sys
import tarfile
from pathlib import Path

import pytest
from installed import ROOT, Environment, build, run

# importlib mode adds no folder to the path: what reads pages, and the model that answers
TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / x) for x in ("docs", "judge", "judged")]


@pytest.fixture(scope="session")
def sdist(tmp_path_factory):
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def wheel(sdist, tmp_path_factory):
    """The wheel, built from nothing but what is in the sdist."""
    folder = tmp_path_factory.mktemp("source")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def environment(tmp_path):
    folder = tmp_path / "environment"
    run(sys.executable, "-m", "venv", folder)
    return Environment(folder)
