"""The Helm chart, rendered by a real helm and held against the schemas of Kubernetes."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import jsonschema
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/spanscore"
KUBERNETES = "1.35"


@cache
def built():
    """The folder of what `build.sh` builds."""
    return Path(subprocess.check_output([Path(__file__).with_name("build.sh")], text=True).strip())


def helm(*words, values=None, folder=None):
    """A finished helm; `values` are those of a user."""
    options = []
    if values is not None:
        path = folder / "values.yaml"
        path.write_text(yaml.safe_dump(values, allow_unicode=True))
        options = ["--values", str(path)]
    home = {"HELM_CACHE_HOME": "/nonexistent", "HELM_CONFIG_HOME": "/nonexistent"}
    return subprocess.run(
        [built() / "helm", *words, *options],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | home,
    )


def render(values, folder, name="s"):
    """The resources that a release has."""
    done = helm("template", name, CHART, "--namespace", "agents", values=values, folder=folder)
    assert done.returncode == 0, done.stderr
    return [x for x in yaml.safe_load_all(done.stdout) if x]


def refusal(values, folder):
    """What helm says to values that it refuses."""
    done = helm("template", "s", CHART, values=values, folder=folder)
    assert done.returncode == 1
    return done.stderr


def of_kind(resources, kind):
    (found,) = (x for x in resources if x["kind"] == kind)
    return found


def pod(resources):
    return of_kind(resources, "StatefulSet")["spec"]["template"]["spec"]


def configuration(resources):
    """The text of spanscore.yaml in a release."""
    return of_kind(resources, "ConfigMap")["data"]["spanscore.yaml"]


def validate(resource):
    """Hold a resource against its schema, which knows every field."""
    if resource["apiVersion"].startswith("monitoring.coreos.com/"):
        jsonschema.validate(resource, _definition(resource["kind"]))
        return
    _kubernetes_validate().validate(resource, KUBERNETES, strict=True)


@cache
def _definition(kind):
    path = built() / f"definitions/monitoring.coreos.com_{kind.lower()}s.yaml"
    (version,) = yaml.safe_load(path.read_text())["spec"]["versions"]
    return _closed(version["schema"]["openAPIV3Schema"] | {"required": ["metadata", "spec"]})


def _closed(schema):
    """The schema, refusing what it does not name, as Kubernetes' API does when asked to."""
    if isinstance(schema, list):
        return [_closed(x) for x in schema]
    if not isinstance(schema, dict):
        return schema
    go_pattern = {"pattern"} if "(?i)" in str(schema.get("pattern")) else set()
    closed = {k: _closed(v) for k, v in schema.items() if k not in go_pattern}
    if isinstance(closed.get("properties"), dict) and "metadata" not in closed["properties"]:
        closed.setdefault("additionalProperties", False)
    return closed


@cache
def _kubernetes_validate():
    from harness import installed

    sys.path.append(str(installed.packages("kubernetes-validate")))
    import kubernetes_validate

    return kubernetes_validate
