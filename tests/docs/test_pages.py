"""The pages are true: what is made from the code is fresh, links lead somewhere, shown
configurations are accepted.
"""

import ast
import re
import runpy
import tomllib
from pathlib import Path

import pytest

from spanscore import config
from spanscore.dialects import all_dialects

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])

EXAMPLES = sorted([ROOT / "collector-config.yaml", *(ROOT / "examples").rglob("*.yaml")])
EXAMPLES = [x for x in EXAMPLES if "suite" not in x.parts and not x.name.startswith("alerts")]


def name(path):
    return str(path.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", ["agent-trace.md", "api.md", "configuration.md", "dialects.md", "watching.md"]
)
def test_a_page_that_is_made_is_fresh(page):
    made = runpy.run_path(str(ROOT / "docs/generate.py"))["PAGES"][page]()
    assert (ROOT / "docs" / page).read_text() == made, "run: make docs"


def test_known_limits_are_of_dialects_that_exist():
    limits = tomllib.loads((ROOT / "docs/dialect-limits.toml").read_text())
    assert limits.keys() <= {x.name for x in all_dialects()}


def test_the_page_on_agent_traces_lists_the_dialects_in_their_order():
    page = (ROOT / "docs/agent-trace.md").read_text()
    table = page.split("### Which dialect reads a span")[1].split("\n## ")[0].split("\n### ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [x.name for x in all_dialects()]


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_links_lead_to_files_that_are_there(path):
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text())
    missing = [x for x in targets if "://" not in x and not (path.parent / x).exists()]
    assert missing == []


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_shown_configurations_are_accepted(path, tmp_path):
    """A file that a page shows, as a block of Python that begins with its name, is there."""
    for file, code in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", path.read_text(), re.DOTALL):
        (tmp_path / file).write_text(code)
    for block in re.findall(r"```yaml\n(.*?)```", path.read_text(), re.DOTALL):
        config.parse(block, name(path), {}, folder=tmp_path)


def test_the_example_configuration_is_accepted():
    config.load(ROOT / "examples/spanscore.yaml", {})


def test_the_example_configuration_measures_what_is_measured_by_default():
    example = config.load(ROOT / "examples/spanscore.yaml", {})
    assert set(example.evaluation.measured()) == set(config.default().evaluation.measured())


def test_every_port_of_the_example_configuration_can_be_set_by_the_environment():
    text = (ROOT / "examples/spanscore.yaml").read_text()
    settings = config.load(
        ROOT / "examples/spanscore.yaml",
        dict.fromkeys(re.findall(r"\$\{env:(\w+ENDPOINT):-", text), "127.0.0.1:1"),
    )
    receive = settings.receive
    listening = [
        receive.grpc,
        receive.http,
        receive.health,
        settings.api,
        settings.api.http,
        *settings.export.otlp_exporters.values(),
    ]
    assert [x.endpoint for x in listening] == ["127.0.0.1:1"] * 6


@pytest.mark.parametrize("path", EXAMPLES, ids=name)
def test_no_example_has_a_port_that_only_an_edit_changes(path):
    lines = [re.sub(r"\$\{env:[^}]*\}|#.*", "", line) for line in path.read_text().splitlines()]
    assert [line for line in lines if re.search(r"[\w\]]:\d{2,5}\b|port: *\d", line)] == []


def test_each_page_is_in_the_index_by_task():
    index = (ROOT / "docs/pages.md").read_text()
    names = {x.name for x in (ROOT / "docs").glob("*.md")} - {"pages.md"}
    assert {x for x in names if f"]({x})" not in index} == set()


TABLE = re.compile(r"^\| (?:you see|the reason says) .*\n\|[-|]+\n((?:\|.*\n)+)", re.MULTILINE)
SAID = re.compile(r"`([A-Z]\w+Error|[^`]+ [^`]+)`")
OF_LITELLM = {"APIConnectionError", "InternalServerError"}


def test_each_message_that_troubleshooting_names_is_one_of_the_code():
    rows = "".join(TABLE.findall((ROOT / "docs/troubleshooting.md").read_text())).splitlines()
    named = {x for row in rows for x in SAID.findall(row.split(" | ")[0])}
    code = "\n".join(texts(x) for x in (ROOT / "src").rglob("*.py"))
    assert named > OF_LITELLM
    unknown = {x for x in named if not all(part.strip() in code for part in x.split("…"))}
    assert unknown == OF_LITELLM


def texts(path):
    """The text of a module, and each text in it as it is once its pieces are put together."""
    source = path.read_text(encoding="utf-8")
    constants = [x for x in ast.walk(ast.parse(source)) if isinstance(x, ast.Constant)]
    return "\n".join([source, *(x.value for x in constants if isinstance(x.value, str))])
