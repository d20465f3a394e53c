"""The compose file: its parser takes it, and what it mounts is there and accepted."""

import json
import re
import subprocess

import chart
import pytest
import yaml

from spanscore import config

FOLDER = chart.ROOT / "deploy"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
NO_SHELL = {"collector", "jaeger"}
"""Services whose images contain nothing that could ask whether they are well."""


def mounts():
    """Each file of the repository that is mounted, and where."""
    volumes = [x for service in SERVICES.values() for x in service.get("volumes", ())]
    return [x.split(":")[:2] for x in volumes if x.startswith(".")]


@pytest.mark.compose
def test_the_reference_parser_takes_it():
    parser = chart.built() / "compose"
    words = [parser, "-format", "json", "-no-interpolation", "compose.yaml"]
    parsed = json.loads(subprocess.check_output(words, cwd=FOLDER))
    assert parsed["services"].keys() == SERVICES.keys()


def test_what_it_mounts_is_there():
    assert [x for x, _ in mounts() if not (FOLDER / x).is_file()] == []


def test_each_volume_is_declared():
    used = {x.split(":")[0] for service in SERVICES.values() for x in service.get("volumes", ())}
    assert {x for x in used if not x.startswith(".")} == COMPOSE["volumes"].keys()


@pytest.mark.parametrize("name", SERVICES)
def test_no_image_changes_by_itself(name):
    assert re.fullmatch(r"[\w/-]+:v?\d+(\.\d+)+", SERVICES[name]["image"])


@pytest.mark.parametrize("name", sorted(SERVICES.keys() - NO_SHELL))
def test_a_service_says_whether_it_is_well(name):
    assert SERVICES[name]["healthcheck"]["test"]


def test_every_port_is_on_loopback():
    ports = [x for service in SERVICES.values() for x in service.get("ports", ())]
    assert [x for x in ports if not x.startswith("127.0.0.1:")] == []


def test_passwords_come_from_the_environment_alone():
    given = {k: v for x in SERVICES.values() for k, v in x.get("environment", {}).items()}
    secrets = {k: v for k, v in given.items() if k.endswith(("PASSWORD", "KEY"))}
    assert secrets
    assert [k for k, v in secrets.items() if not v.startswith("${")] == []


def test_spanscore_accepts_its_configuration():
    settings = config.load(FOLDER / "compose/spanscore.yaml", {})
    assert settings.store.url.endswith("@postgres/spanscore")


def test_spanscore_has_the_paths_and_ports_that_the_rest_asks_for():
    settings = config.load(FOLDER / "compose/spanscore.yaml", {})
    collector = SERVICES["collector"]["environment"]
    targets = (FOLDER / "compose/prometheus.yaml").read_text()
    port = settings.receive.grpc.endpoint.rpartition(":")[2]
    assert collector["SPANSCORE_ENDPOINT"] == f"spanscore:{port}"
    assert f"spanscore:{settings.receive.health.endpoint.rpartition(':')[2]}" in targets


@pytest.mark.collector
def test_the_collector_accepts_its_configuration(tmp_path):
    build = chart.ROOT / "tests/live/collector/build/build.sh"
    binary = subprocess.check_output([build], text=True).strip()
    # the exporter of the scores' histogram is not in the collector of the tests
    drop_in = chart.ROOT / "collector-config.yaml"
    environ = SERVICES["collector"]["environment"] | {"QUEUE_DIRECTORY": str(tmp_path)}
    subprocess.run([binary, "validate", f"--config={drop_in}"], check=True, env=environ)
