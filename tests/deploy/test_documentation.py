"""What docs/deploying.md shows, and the collector's values: what they are for accepts them."""

import re
import subprocess

import chart
import pytest
import yaml

PAGE = (chart.ROOT / "docs/deploying.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
VALUES, RESOURCES = (text for language, text in BLOCKS if not language)
OPERATOR = {x["kind"]: x for x in yaml.safe_load_all(RESOURCES)}
COLLECTOR = yaml.safe_load((chart.ROOT / "deploy/helm/collector-values.yaml").read_text())
ADDRESS = {"MY_POD_IP": "127.0.0.1"}


def validate(config, folder):
    """Have a real collector read a configuration."""
    build = chart.ROOT / "tests/live/collector/build/build.sh"
    binary = subprocess.check_output([build], text=True).strip()
    path = folder / "collector.yaml"
    path.write_text(yaml.safe_dump(config))
    subprocess.run([binary, "validate", f"--config={path}"], check=True, env=ADDRESS, cwd=folder)


@pytest.mark.helm
def test_the_shown_values_are_accepted(tmp_path):
    resources = chart.render(yaml.safe_load(VALUES), tmp_path, name="spanscore")
    for resource in resources:
        chart.validate(resource)


@pytest.mark.helm
def test_the_shown_names_are_those_of_the_chart(tmp_path):
    resources = chart.render(yaml.safe_load(VALUES), tmp_path, name="spanscore")
    services = {x["metadata"]["name"] for x in resources if x["kind"] == "Service"}
    assert services == {"spanscore", "spanscore-headless"}
    assert chart.of_kind(resources, "StatefulSet")["metadata"]["name"] == "spanscore"


def test_every_value_of_the_table_is_one():
    table = PAGE.split("| value | default | |")[1].split("\n\n")[0]
    values = yaml.safe_load((chart.CHART / "values.yaml").read_text())
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")]
    named = {x for cell in cells for x in re.findall(r"`(\w+)", cell)}
    assert named - values.keys() == set()


def test_an_instrumented_agent_sends_to_the_shown_collector():
    agent, collector = OPERATOR["Instrumentation"], OPERATOR["OpenTelemetryCollector"]
    name = f"{collector['metadata']['name']}-collector.{collector['metadata']['namespace']}"
    port = collector["spec"]["config"]["receivers"]["otlp"]["protocols"]["http"]["endpoint"][-4:]
    assert agent["spec"]["exporter"]["endpoint"] == f"http://{name}.svc:{port}"


def test_an_instrumented_agent_records_content():
    variables = {
        x["name"]: x["value"] for x in OPERATOR["Instrumentation"]["spec"]["python"]["env"]
    }
    assert variables["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] == "true"


def test_the_load_balancer_sends_to_replicas_of_the_chart():
    exporter = COLLECTOR["alternateConfig"]["exporters"]["loadbalancing/spanscore"]
    hosts = exporter["resolver"]["static"]["hostnames"]
    domain = "spanscore-headless.agents.svc.cluster.local:4327"
    assert hosts == [f"spanscore-{n}.{domain}" for n in range(len(hosts))]


@pytest.mark.collector
def test_a_collector_accepts_the_shown_configuration(tmp_path):
    validate(OPERATOR["OpenTelemetryCollector"]["spec"]["config"], tmp_path)


@pytest.mark.collector
def test_a_collector_accepts_the_values_for_its_chart(tmp_path):
    """The load balancer is not in the collector of the tests: what it sends by stands in for it."""
    config = COLLECTOR["alternateConfig"]
    balanced = config["exporters"].pop("loadbalancing/spanscore")
    (host, *_) = balanced["resolver"]["static"]["hostnames"]
    config["exporters"]["otlp_grpc/spanscore"] = {"endpoint": host} | balanced["protocol"]["otlp"]
    config["extensions"]["file_storage/queues"]["directory"] = str(tmp_path)
    text = yaml.safe_dump(config).replace("loadbalancing/spanscore", "otlp_grpc/spanscore")
    validate(yaml.safe_load(text), tmp_path)
