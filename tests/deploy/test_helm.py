"""The Helm chart: what it renders is valid, its configuration is accepted, and wrong values are
refused by name.
"""

import base64
import re

import chart
import pytest
import yaml

from spanscore import config

pytestmark = pytest.mark.helm

POSTGRESQL = {"store": {"url": "postgresql+psycopg://${env:PG_USER}:${env:PG_PASSWORD}@db/scores"}}
ODD = "quotes \" ' `, a colon: a # hash, {{ braces }}, %s\nnext line\t\n\nünïcödé 数字 🙂 \\ end "
EVERYTHING = {
    "config": POSTGRESQL,
    "secret": {"create": {"OPENAI_API_KEY": ODD}, "existing": ["database"]},
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "hosts": ["scores.example.com"],
        "annotations": {"cert-manager.io/issuer": "letsencrypt"},
        "tls": [{"secretName": "scores", "hosts": ["scores.example.com"]}],
    },
    "autoscaling": {"enabled": True},
    "networkPolicy": {
        "enabled": True,
        "from": [{"namespaceSelector": {"matchLabels": {"team": "agents"}}}],
        "metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
    },
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "imagePullSecrets": [{"name": "registry"}],
    "service": {"annotations": {"a": ODD}},
    "serviceAccount": {"annotations": {"a": "b"}},
}
BACKLOG = {
    "type": "Pods",
    "pods": {
        "metric": {"name": "spanscore_traces_waiting"},
        "target": {"type": "AverageValue", "averageValue": "500"},
    },
}
CASES = {
    "the defaults": {},
    "everything on": EVERYTHING,
    "names of 63 characters": {
        "fullnameOverride": "f" * 63,
        "nameOverride": "n" * 63,
        "serviceAccount": {"name": "s" * 63},
    },
    "a name that is cut at a hyphen": {"fullnameOverride": "f" * 51 + "-abc"},
    "no replica": {"replicas": 0},
    "three replicas": {"replicas": 3, "config": POSTGRESQL},
    "a network of IPv6": {
        "listenAddress": "[::]",
        "service": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]},
    },
    "no volume": {"persistence": {"enabled": False}},
    "a volume of a class": {
        "persistence": {
            "storageClass": "local-path",
            "size": "2.5Ti",
            "whenDeleted": "Delete",
            "annotations": {"a": "b"},
        }
    },
    "huge numbers": {
        "config": {"store": {"retention": {"max_bytes": 2**50}}, "journal": {"max_bytes": 2**40}},
        "terminationGracePeriodSeconds": 10**6,
    },
    "ports": {"ports": {"grpc": 1, "http": 65535}, "service": {"type": "LoadBalancer"}},
    "no account": {"serviceAccount": {"create": False}},
    "autoscaled by the backlog": {
        "config": POSTGRESQL,
        "autoscaling": {"enabled": True, "metrics": [BACKLOG]},
    },
    "an image by its digest": {"image": {"repository": "r:5000/s", "digest": "sha256:" + "0" * 64}},
    "where pods run": {
        "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
        "nodeSelector": {"kubernetes.io/arch": "arm64"},
        "affinity": {"podAntiAffinity": {}},
        "priorityClassName": "high",
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ],
    },
    "more of the environment, volumes and notes": {
        "env": [
            {"name": "SPANSCORE_JUDGE_MODEL", "value": ODD},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "envFrom": [{"configMapRef": {"name": "more"}}],
        "extraVolumes": [{"name": "tls", "secret": {"secretName": "tls"}}],
        "extraVolumeMounts": [{"name": "tls", "mountPath": "/tls"}],
        "podAnnotations": {"note": ODD},
        "podLabels": {"team": "agents"},
    },
    "a share of pods may be away": {"podDisruptionBudget": {"maxUnavailable": "34%"}},
}

WRONG = {
    "replica": ({"replica": 1}, "replica"),
    "image.tagg": ({"image": {"tagg": "1"}}, "tagg"),
    "replicas, negative": ({"replicas": -1}, "replicas"),
    "replicas, no number": ({"replicas": "3"}, "replicas"),
    "replicas with SQLite": ({"replicas": 2}, "config.store.url is an SQLite file"),
    "replicas with SQLite by default": (
        {"replicas": 2, "config": {"store": {"url": "${env:URL:-sqlite:///a.db}"}}},
        "config.store.url is an SQLite file",
    ),
    "autoscaling with SQLite": ({"autoscaling": {"enabled": True}}, "autoscaling.maxReplicas is 5"),
    "minReplicas": (
        {"config": POSTGRESQL, "autoscaling": {"enabled": True, "minReplicas": 6}},
        "autoscaling.minReplicas is 6, which is above autoscaling.maxReplicas, 5",
    ),
    "ports.grpc, zero": ({"ports": {"grpc": 0}}, "/ports/grpc"),
    "ports.grpc, too high": ({"ports": {"grpc": 65536}}, "/ports/grpc"),
    "ports.http, twice": ({"ports": {"http": 4327}}, "ports.http is 4327, which ports.grpc is"),
    "listenAddress": ({"listenAddress": "localhost:1"}, "listenAddress"),
    "persistence.size": ({"persistence": {"size": "10 GB"}}, "/persistence/size"),
    "persistence.whenScaled": ({"persistence": {"whenScaled": "Keep"}}, "/persistence/whenScaled"),
    "service.type": ({"service": {"type": "ExternalName"}}, "/service/type"),
    "image.digest": ({"image": {"digest": "latest"}}, "/image/digest"),
    "secret.create": (
        {"secret": {"create": {"not-a-name": "x"}}},
        "invalid propertyName 'not-a-name'",
    ),
    "env without a name": ({"env": [{"value": "x"}]}, "/env/0"),
    "ingress.hosts": ({"ingress": {"enabled": True}}, "ingress.hosts is empty"),
    "the journal's path": (
        {"config": {"journal": {"path": "/x"}}},
        "config.journal.path is set by",
    ),
    "an endpoint": (
        {"config": {"receive": {"grpc": {"endpoint": "0.0.0.0:1"}}}},
        "config.receive.grpc.endpoint is set by the chart",
    ),
    "terminationGracePeriodSeconds": (
        {"config": {"shutdown_timeout": "2m"}},
        "terminationGracePeriodSeconds is 60, and has to be above config.shutdown_timeout, 2m",
    ),
}


def parsed(resources):
    environ = {"PG_USER": "u", "PG_PASSWORD": "p"}
    return config.parse(chart.configuration(resources), "spanscore.yaml", environ)


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_helm_finds_nothing_to_complain_about(values, tmp_path):
    done = chart.helm("lint", "--strict", chart.CHART, values=values, folder=tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_every_resource_is_valid(values, tmp_path):
    for resource in chart.render(values, tmp_path):
        chart.validate(resource)


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_spanscore_accepts_the_rendered_configuration(values, tmp_path):
    parsed(chart.render(values, tmp_path))


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_no_name_is_longer_than_kubernetes_takes(values, tmp_path):
    resources = chart.render(values, tmp_path)
    stateful_set = chart.of_kind(resources, "StatefulSet")["metadata"]["name"]
    names = [x["metadata"]["name"] for x in resources] + [stateful_set + "-" + "0" * 10]
    assert [x for x in names if not re.fullmatch("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", x)] == []


@pytest.mark.parametrize(("values", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_value_is_refused_by_its_name(values, said, tmp_path):
    assert said in chart.refusal(values, tmp_path)


def test_strings_reach_the_configuration_as_they_are(tmp_path):
    values = {"config": {"evaluation": {"criteria": {"odd": {"question": ODD}}}}}
    rendered = yaml.safe_load(chart.configuration(chart.render(values, tmp_path)))
    assert rendered["evaluation"] == values["config"]["evaluation"]


def test_numbers_reach_the_configuration_as_they_are(tmp_path):
    values = {"config": {"store": {"retention": {"max_bytes": 2**50}}}}
    assert parsed(chart.render(values, tmp_path)).store.retention.max_bytes == 2**50


def test_a_null_reaches_the_configuration(tmp_path):
    values = {"config": {"store": {"retention": {"max_age": None}}}}
    assert parsed(chart.render(values, tmp_path)).store.retention.max_age is None


def test_what_is_merged_over_the_chart_keeps_the_rest_of_a_section(tmp_path):
    settings = parsed(chart.render({"config": {"journal": {"max_bytes": "3GiB"}}}, tmp_path))
    assert settings.journal.max_bytes == 3 * 2**30
    assert str(settings.journal.path) == "/var/lib/spanscore/spanscore-journal.db"


def test_pods_are_replaced_when_the_configuration_changes(tmp_path):
    sums = {
        chart.of_kind(chart.render({"config": {"workers": n}}, tmp_path), "StatefulSet")["spec"][
            "template"
        ]["metadata"]["annotations"]["checksum/config"]
        for n in (1, 2)
    }
    assert len(sums) == 2


def test_a_secret_contains_what_was_given(tmp_path):
    secret = chart.of_kind(chart.render(EVERYTHING, tmp_path), "Secret")
    assert base64.b64decode(secret["data"]["OPENAI_API_KEY"]).decode() == ODD


def test_the_pod_may_do_nothing_that_it_does_not_need(tmp_path):
    pod = chart.pod(chart.render({}, tmp_path))
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_no_replica_loses_its_journal_by_default(tmp_path):
    stateful_set = chart.of_kind(chart.render({}, tmp_path), "StatefulSet")["spec"]
    assert set(stateful_set["persistentVolumeClaimRetentionPolicy"].values()) == {"Retain"}


def test_the_rules_are_those_of_the_repository(tmp_path):
    rule = chart.of_kind(chart.render(EVERYTHING, tmp_path), "PrometheusRule")
    alerts = (chart.ROOT / "examples/grafana/alerts.yaml").read_text()
    assert rule["spec"] == yaml.safe_load(alerts)
