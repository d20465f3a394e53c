"""The dashboard and the alerts ask only for metrics and labels that there are, in expressions that
Prometheus reads.
"""

import json
import re
from pathlib import Path

import promql_parser
import pytest
import yaml
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from spanscore.export import events
from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.model.trace import Target
from spanscore.telemetry import Meter, declared, formats

FOLDER = Path(__file__).parents[2] / "examples" / "grafana"
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [(panel["title"], target) for panel in PANELS for target in panel["targets"]]
VARIABLES = {
    x["name"]: x["query"]["query"] for x in DASHBOARD["templating"]["list"] if x["type"] == "query"
}
WATCHING = (Path(__file__).parents[2] / "docs" / "watching.md").read_text()

OF_A_SCRAPE = {"job", "instance"}
"""Labels that Prometheus gives to all that it scrapes."""


def known():
    """The labels of every series that may be asked for, by name, as the page and the collector have
    them.
    """
    found = {"up": OF_A_SCRAPE}
    for metric in declared.METRICS:
        labels = {*metric.labels, *OF_A_SCRAPE}
        name = formats.name(metric)
        of_histogram = {
            f"{name}_bucket": {*labels, "le"},
            f"{name}_sum": labels,
            f"{name}_count": labels,
        }
        found |= of_histogram if metric.kind == "histogram" else {name: labels}
    return found | of_scores()


def of_scores():
    """The histogram of scores after the collector's Prometheus exporter: dots become
    underscores.
    """
    target = Target("0a" * 16, "0b" * 8, 0, 1)
    facts = {
        "threshold": 0.5,
        "scale": (0.0, 1.0),
        "session_id": None,
        "agent_name": "a",
        "service_name": "s",
    }
    evaluator = Evaluator("CODE", "rules", "1")
    score = Evaluation(
        scope="trace",
        subject_id="1",
        metric="m",
        outcome=Score(1.0, ""),
        evaluator=evaluator,
        target=target,
        **facts,
    )
    message = ExportMetricsServiceRequest.FromString(
        events.histogram_request([score], 1, 2)
    ).resource_metrics[0]
    (metric,) = message.scope_metrics[0].metrics
    point = metric.histogram.data_points[0]
    labels = {
        x.key.replace(".", "_") for x in (*point.attributes, *message.resource.attributes)
    } | OF_A_SCRAPE
    name = metric.name.replace(".", "_")
    return {f"{name}_bucket": {*labels, "le"}, f"{name}_sum": labels, f"{name}_count": labels}


def plain(expression):
    """A dashboard's expression with its variables filled in."""
    return re.sub(r"\$(__rate_interval|__range)", "5m", expression).replace("$", "")


def walk(node):
    yield node
    for name in ("lhs", "rhs", "expr", "vector_selector"):
        if getattr(node, name, None) is not None:
            yield from walk(getattr(node, name))
    for argument in getattr(node, "args", ()):
        yield from walk(argument)


def wrong(expression):
    """What an expression asks for that is not there."""
    tree, series, faults = promql_parser.parse(plain(expression)), known(), []
    nodes = list(walk(tree))
    selectors = [x for x in nodes if isinstance(x, promql_parser.VectorSelector)]
    assert selectors
    labels_of_all = set()
    for selector in selectors:
        if selector.name not in series:
            faults.append(selector.name)
            continue
        labels_of_all |= series[selector.name]
        faults += [
            x.name for x in selector.matchers.matchers if x.name not in series[selector.name]
        ]
    for node in nodes:
        if isinstance(node, promql_parser.AggregateExpr):
            inner = [x for x in walk(node.expr) if isinstance(x, promql_parser.VectorSelector)]
            names = node.modifier.labels if node.modifier else []
            faults += [x for x in names for one in inner if x not in series.get(one.name, ())]
    return faults


@pytest.mark.parametrize(
    ("title", "target"), QUERIES, ids=[f"{title}-{x['refId']}" for title, x in QUERIES]
)
def test_the_dashboard_asks_for_what_there_is(title, target):
    assert wrong(target["expr"]) == []


@pytest.mark.parametrize(
    ("title", "target"), QUERIES, ids=[f"{title}-{x['refId']}" for title, x in QUERIES]
)
def test_a_legend_names_labels_that_are_left(title, target):
    tree = promql_parser.parse(plain(target["expr"]))
    outer = next((x for x in walk(tree) if isinstance(x, promql_parser.AggregateExpr)), None)
    selectors = [x for x in walk(tree) if isinstance(x, promql_parser.VectorSelector)]
    left = (
        set(known()[selectors[0].name])
        if outer is None
        else set(outer.modifier.labels if outer.modifier else ())
    )
    assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= left


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_is_read_from_a_label_that_there_is(name):
    series, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", VARIABLES[name]).groups()
    assert label in known()[series]


@pytest.mark.parametrize("rule", RULES, ids=lambda x: x["alert"])
def test_an_alert_asks_for_what_there_is(rule):
    assert wrong(rule["expr"]) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda x: x["alert"])
def test_an_alert_speaks_of_labels_that_are_left(rule):
    tree = promql_parser.parse(rule["expr"])
    outer = next((x for x in walk(tree) if isinstance(x, promql_parser.AggregateExpr)), None)
    selectors = [x for x in walk(tree) if isinstance(x, promql_parser.VectorSelector)]
    left = set(known()[selectors[0].name]) if outer is None else set(outer.modifier.labels)
    assert set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) <= left


@pytest.mark.parametrize("rule", RULES, ids=lambda x: x["alert"])
def test_an_alert_is_whole(rule):
    assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["annotations"].keys() == {"summary", "description"}
    assert re.fullmatch(r"\d+[smhd]", rule.get("for", "0s"))


@pytest.mark.parametrize("rule", RULES, ids=lambda x: x["alert"])
def test_an_alert_has_a_test_of_its_own(rule):
    assert re.search(rf"\b{rule['alert']}\b", (FOLDER / "alerts.test.yaml").read_text())


@pytest.mark.parametrize("rule", RULES, ids=lambda x: x["alert"])
def test_the_docs_say_what_to_do_at_an_alert(rule):
    assert f"| `{rule['alert']}` |" in WATCHING


def test_no_two_panels_lie_on_one_another():
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_panel_has_its_own_id_and_says_what_it_shows():
    assert len({x["id"] for x in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert [x["title"] for x in PANELS if not x["description"]] == []


def test_every_metric_that_may_be_asked_for_is_on_a_real_page():
    page = formats.page(Meter().collect(), {})
    own = {name for name in known() if name.startswith("spanscore_")}
    families = set(re.findall(r"^# TYPE (\w+)", page, re.MULTILINE))
    assert {re.sub(r"_(bucket|sum|count)$", "", x) for x in own} == {
        x for x in families if x != "target_info"
    }


def test_labels_that_values_are_written_for_have_those_values():
    code = "\n".join(x.read_text() for x in (FOLDER.parents[1] / "src/spanscore").rglob("*.py"))
    texts = [x["expr"] for _, x in QUERIES] + [x["expr"] for x in RULES]
    values = {v for t in texts for v in re.findall(r'(?:reason|outcome|completeness)!?="(\w+)"', t)}
    assert [x for x in values if f'"{x}"' not in code] == []


def test_what_is_laid_over_the_drop_in_names_what_is_there():
    drop_in = yaml.safe_load((FOLDER.parents[1] / "collector-config.yaml").read_text())
    laid_over = yaml.safe_load((FOLDER / "collector.yaml").read_text())
    assert laid_over["service"]["pipelines"].keys() <= drop_in["service"]["pipelines"].keys()
    assert {
        x for p in laid_over["service"]["pipelines"].values() for x in p["exporters"]
    } == laid_over["exporters"].keys()
