"""spanscore installed as a user does: beside an agent's packages, none of which it changes, and by
itself.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from installed import ROOT, UV, run

RECORDING = ROOT / "examples/recordings/pydantic-ai"
EVENTS = ROOT / "tests/golden/semconv/openai-v2-events"
"""A recording whose facts are in log records that have their name in `event_name`."""

FRAMEWORKS = ["openai", "langgraph", "openai-agents", "pydantic-ai"]
OLDER = {
    "opentelemetry 1.34, protobuf 5": ["opentelemetry-exporter-otlp~=1.34.0", "protobuf<6"],
    "protobuf 6, pydantic 2.11": [
        "opentelemetry-exporter-otlp-proto-http",
        "protobuf<7",
        "pydantic<2.12",
        "grpcio<1.76",
    ],
    "openai 1, numpy 1": ["openai<2", "numpy<2", "sqlalchemy<2.1", "aiohttp<3.12"],
}

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]


def seen(program):
    """What this checkout's own environment, or another, rebuilds of the recordings."""
    return [run(program, "inspect", x, "--explain") for x in (RECORDING, EVENTS)]


@pytest.fixture(scope="module")
def expected():
    return seen(Path(sys.executable).with_name("spanscore"))


def changed(before, after):
    return {
        name: (version, after.get(name))
        for name, version in before.items()
        if after.get(name) != version
    }


def test_the_newest_frameworks_keep_their_versions(environment, wheel, expected):
    environment.install_first("pip", *FRAMEWORKS)
    before = environment.packages()
    environment.pip_install(wheel)
    after = environment.packages()

    assert changed(before, after) == {}
    assert "litellm" not in after
    environment.python("-m", "pip", "check")
    assert seen(environment.folder / "bin/spanscore") == expected


@pytest.mark.parametrize("versions", OLDER.values(), ids=OLDER)
def test_older_versions_stay_and_the_same_is_rebuilt(environment, wheel, expected, versions):
    environment.install_first("pip", *versions)
    before = environment.packages()
    environment.pip_install(wheel)

    assert changed(before, environment.packages()) == {}
    environment.python("-m", "pip", "check")
    assert seen(environment.folder / "bin/spanscore") == expected


@pytest.mark.parametrize("version", ["protobuf<6", "protobuf<7", "protobuf"])
def test_a_server_answers_clients_with_each_version_of_protobuf(environment, wheel, version):
    environment.install_first("pip", version)
    before = environment.packages()["protobuf"]
    environment.pip_install(wheel)
    environment.python(ROOT / "tests/packaging/api_calls.py", sys.executable)

    assert environment.packages()["protobuf"] == before


def test_the_lowest_versions_rebuild_and_score_the_same(environment, wheel, expected, tmp_path):
    lowest = tmp_path / "lowest.txt"
    run(
        UV,
        "pip",
        "compile",
        "-q",
        "--resolution",
        "lowest-direct",
        ROOT / "pyproject.toml",
        "-o",
        lowest,
    )
    environment.install_first("-r", lowest, "--no-deps", wheel)

    assert seen(environment.folder / "bin/spanscore") == expected
    assert "check.errors_recovered" in environment.spanscore("eval", RECORDING)


def test_by_itself_it_is_light_and_names_the_extra_that_a_model_needs(environment, wheel):
    environment.pip_install(wheel)
    found = environment.packages()

    assert len(found) <= 35, sorted(found)
    assert environment.megabytes() <= 220  # of which 75 are numpy's
    assert "check.errors_recovered" in environment.spanscore("eval", RECORDING)
    refused = subprocess.run(
        [environment.folder / "bin/spanscore", "eval", RECORDING, "--model", "gpt-4o-mini"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (refused.returncode, "pip install 'spanscore[judge]'" in refused.stderr) == (2, True)


def test_a_server_starts_with_its_extra_and_names_it_without(environment, wheel):
    environment.pip_install(wheel)
    refused = subprocess.run(
        [environment.folder / "bin/spanscore", "serve"],
        capture_output=True,
        text=True,
        check=False,
        cwd=environment.folder,
    )
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "pip install 'spanscore[server]'" in refused.stderr

    environment.pip_install(f"{wheel}[server]")
    environment.python(ROOT / "tests/packaging/api_calls.py", environment.folder / "bin/python")


def test_the_installed_package_has_types(environment, wheel):
    environment.install_first("mypy", wheel)
    program = environment.folder / "program.py"
    program.write_text(
        "import spanscore\n\nreveal_type(spanscore.load)\nreveal_type(spanscore.turn)\n"
    )

    told = environment.python("-m", "mypy", "--strict", program.name)
    assert "Telemetry" in told
