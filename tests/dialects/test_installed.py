"""The dialect that docs/add-a-dialect.md builds, installed as another distribution would bring
it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from spanscore import discovery
from spanscore.dialects import registry
from spanscore.dialects.reading import Dialect, Quirk
from spanscore.errors import ConfigError

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/add-a-dialect.md").read_text(encoding="utf-8")


def shown(language):
    return re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL).group(1)


INSTALLED = Path(__file__).parent / "installed"


def rebuilt(recorded, folder):
    """What `spanscore inspect` rebuilds of a file, with the distributions in a folder installed."""
    command = [sys.executable, "-m", "spanscore.cli.main", "inspect", "--jsonl", str(recorded)]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [json.loads(x) for x in found.stdout.splitlines()]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """What is rebuilt of the page's spans, with the page's dialect installed."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "parley_spanscore.py").write_text(shown("python"), encoding="utf-8")
    (folder / "spans.json").write_text(shown("json"), encoding="utf-8")
    (folder / "parley-1.dist-info").mkdir()
    (folder / "parley-1.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: parley\nVersion: 1\n"
    )
    group, line = shown("toml").replace('"', "").removeprefix("[project.entry-points.").split("]\n")
    (folder / "parley-1.dist-info/entry_points.txt").write_text(f"[{group}]\n{line}")
    (found,) = rebuilt(folder / "spans.json", folder)
    return found


@pytest.mark.slow
def test_an_installed_dialect_has_turns_in_log_records():
    traces = rebuilt(INSTALLED / "logs.json", INSTALLED)
    assert [
        (x["dialects"], x["user_input"], x["final_output"], x["session_id"]) for x in traces
    ] == [
        (["barley"], "Is 00042 in stock?", "No, there are none.", "floor-7"),
        (["barley"], "And 00043?", "Yes, two.", "floor-7"),
    ]
    [call] = traces[0]["tool_calls"]
    assert (call["name"], call["arguments"], call["result"]) == ("stock_level", {"sku": "00042"}, 0)


@pytest.mark.slow
def test_an_installed_quirk_corrects_the_spans_of_a_convention():
    (found,) = rebuilt(INSTALLED / "spans.json", INSTALLED)
    assert (found["dialects"], found["agent_name"]) == (["openinference"], "helper")
    assert [x["result"] for x in found["tool_calls"]] == [0]


def test_the_installed_dialect_is_the_pages():
    _parley, barley = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert barley == (INSTALLED / "barley_spanscore/__init__.py").read_text(encoding="utf-8")
    _spans, records = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert records == (INSTALLED / "logs.json").read_text(encoding="utf-8")


FACTS = {
    "dialects": ["parley"],
    "user_input": "Is 00042 in stock?",
    "final_output": "No, there are none.",
    "agent_name": "helper",
    "session_id": "floor-7",
    "unread_spans": 0,
    "usage": {"input_tokens": 20, "output_tokens": None},
}


@pytest.mark.slow
@pytest.mark.parametrize("fact", FACTS)
def test_the_pages_dialect_is_found_and_reads(trace, fact):
    assert trace[fact] == FACTS[fact]


@pytest.mark.slow
def test_the_pages_dialect_opens_its_framework_s_envelope(trace):
    (call,) = trace["tool_calls"]
    assert (call["name"], call["arguments"], call["result"]) == ("stock_level", {"sku": "00042"}, 0)


@pytest.mark.slow
def test_the_pages_files_keep_to_the_project_s_rules_where_it_has_them_put(tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    folder = tmp_path / "src/spanscore/dialects/frameworks"
    names = ["parley.py", "barley.py"]
    for name, text in zip(names, re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL), strict=True):
        (folder / name).write_text(text, encoding="utf-8")
    files = [folder / x for x in names]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    for command in (
        ["lint-imports"],
        ["ruff", "check", *files],
        ["ruff", "format", "--check", *files],
    ):
        program = Path(sys.executable).with_name(command[0])
        done = subprocess.run(
            [program, *command[1:]],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


def dialect(name):
    return Dialect(name, lambda _span, _context: {"kind": "other"}, prefilters=())


def test_dialects_come_by_entry_point(monkeypatch):
    parley = dialect("parley")
    monkeypatch.setattr(discovery, "registered", lambda _group: iter([("parley", parley)]))
    assert registry.installed([dialect("semconv")]) == ((parley,), ())


def test_quirks_come_by_entry_point(monkeypatch):
    parley = Quirk(name="parley", under="semconv", scopes=("parley",))
    monkeypatch.setattr(discovery, "registered", lambda _group: iter([("parley", parley)]))
    assert registry.installed([dialect("semconv")]) == ((), (parley,))


def test_a_quirk_under_a_dialect_that_is_not_there_is_refused(monkeypatch):
    parley = Quirk(name="parley", under="semcon")
    monkeypatch.setattr(discovery, "registered", lambda _group: iter([("parley", parley)]))
    with pytest.raises(ConfigError, match=r"no dialect 'semcon' .* there are semconv"):
        registry.installed([dialect("semconv")])


@pytest.mark.slow
def test_a_distribution_may_import_this_package_before_it_has_made_its_dialect(tmp_path):
    (tmp_path / "parley_spanscore.py").write_text(shown("python"), encoding="utf-8")
    (tmp_path / "parley-1.dist-info").mkdir()
    (tmp_path / "parley-1.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: parley\nVersion: 1\n"
    )
    (tmp_path / "parley-1.dist-info/entry_points.txt").write_text(
        "[spanscore.dialects]\np = parley_spanscore:DIALECT\n"
    )
    code = "import parley_spanscore, spanscore.dialects as d; print(d.all_dialects()[0].name)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout == "parley\n"


@pytest.mark.parametrize(
    "item", [dialect("semconv"), "no dialect"], ids=["a taken name", "no dialect"]
)
def test_an_entry_point_that_brings_none_of_its_own_is_refused(monkeypatch, item):
    monkeypatch.setattr(discovery, "registered", lambda _group: iter([("x", item)]))
    with pytest.raises(ConfigError, match="entry point 'x'"):
        registry.installed([dialect("semconv")])


def test_an_entry_point_that_cannot_be_loaded_is_named(monkeypatch):
    broken = EntryPoint("parley", "nobody_has_this_module:DIALECT", registry.GROUP)
    monkeypatch.setattr(discovery, "entry_points", lambda **_: [broken])
    with pytest.raises(
        ConfigError, match=r"'parley' of group 'spanscore\.dialects' cannot be loaded .*nobody_has"
    ):
        list(discovery.registered(registry.GROUP))
