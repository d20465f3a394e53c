"""Which metrics run, and how a configuration finds those that it names."""

import sys
from types import SimpleNamespace

import pytest

import spanscore
from spanscore import config, discovery, metrics
from spanscore.errors import ConfigError
from spanscore.evaluation import Config
from spanscore.evaluation.config import FAMILY
from spanscore.metrics import available

SHORT = """\
import spanscore

@spanscore.metric
def short(trace, *, limit: int = 5):
    return len(trace.final_output) <= limit
"""
NAMES_SHORT = "evaluation: {plugins: [./mine.py], metrics: {short: {limit: 3}}}"


@pytest.fixture
def loaded(tmp_path):
    """Write `mine.py` beside a configuration, and load that."""

    def load(code=SHORT, text=NAMES_SHORT):
        (tmp_path / "mine.py").write_text(code)
        file = tmp_path / "spanscore.yaml"
        file.write_text(text)
        return config.load(file, {})

    return load


def names(settings):
    return [x.name for x in settings.evaluation.build()]


def parsed(text):
    return config.parse(f"evaluation: {text}", environ={})


def test_a_metric_that_is_named_runs_beside_the_defaults():
    assert names(parsed("{metrics: {check.answer_present: {}}}")) == [
        *FAMILY,
        "check.answer_present",
    ]


def test_naming_a_default_gives_it_options_and_keeps_the_others():
    found = {
        x.name: x for x in parsed("{metrics: {coherence: {threshold: 0.9}}}").evaluation.build()
    }
    assert (list(found), found["coherence"].threshold) == ([*FAMILY], 0.9)


def test_without_the_defaults_only_what_is_named_runs():
    assert names(parsed("{default_metrics: false, metrics: {check.answer_present: {}}}")) == [
        "check.answer_present"
    ]


def test_a_default_can_be_left_out():
    text = "{metrics: {coherence: false}}"
    assert names(parsed(text)) == [x for x in FAMILY if x != "coherence"]


@pytest.mark.parametrize("options", ["", "{}", "true", "null"])
def test_no_options_are_the_defaults_of_the_metric(options):
    text = f"default_metrics: false, metrics: {{check.answer_present: {options}}}"
    assert names(parsed(f"{{{text}}}")) == ["check.answer_present"]


def test_a_criterion_that_is_left_out_does_not_run():
    text = (
        "{default_metrics: false, criteria: {kind: {ask: 'Is it kind?'}}, metrics: {kind: false}}"
    )
    assert names(parsed(text)) == []


def test_yaml_keys_of_yes_and_no_are_anchors():
    text = (
        "{default_metrics: false, criteria: {kind: {ask: 'Is it kind?', anchors: {yes: kind, no:"
        " rude}}}}"
    )
    assert [x.criterion.is_yes_no for x in parsed(text).evaluation.build()] == [True]


def test_a_mistyped_key_of_a_criterion_is_answered_with_the_right_one():
    with pytest.raises(
        ConfigError,
        match=r"evaluation\.criteria\.kind\.treshold: unknown key; did you mean threshold",
    ):
        parsed("{criteria: {kind: {ask: 'Is it?', treshold: 1}}}")


def test_a_criterion_cannot_have_the_name_of_a_metric():
    with pytest.raises(ConfigError, match="spanscore has a metric 'coherence' of its own"):
        parsed("{criteria: {coherence: {ask: 'Is it?'}}}")


def test_a_file_beside_the_configuration_makes_metrics(loaded):
    settings = loaded()
    assert names(settings) == [*FAMILY, "short"]
    assert settings.evaluation.build()[-1].limit == 3


def test_a_file_that_is_loaded_again_makes_the_same_metrics(loaded):
    first = loaded().evaluation.build()[-1]
    assert loaded().evaluation.build()[-1] == first


def test_a_file_that_has_changed_is_run_again(loaded):
    loaded()
    settings = loaded(SHORT.replace("limit: int = 5", "limit: int = 5, least: int = 2"))
    assert settings.evaluation.build()[-1].least == 2


def test_a_file_may_hold_a_metric_as_a_class(loaded):
    settings = loaded(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from spanscore import Score\n"
        "from spanscore.metrics import Computed\n"
        "@dataclass(frozen=True)\n"
        "class Short(Computed):\n"
        "    '''Is it short?'''\n"
        "    name: ClassVar[str] = 'short'\n"
        "    summary: ClassVar[str] = 'Is it short?'\n"
        "    limit: int = 5\n"
        "    def measure(self, trace):\n"
        "        return Score(1.0, 'short')\n"
    )
    assert names(settings)[-1] == "short"


@pytest.mark.parametrize(
    ("code", "what"),
    [
        (
            "import spanscore\nspanscore.metrik\n",
            r"mine\.py, line 2: AttributeError: .*; mend it, or take it out",
        ),
        ("def f(:\n", r"mine\.py, line 1: SyntaxError"),
        ("raise SystemExit(3)\n", r"mine\.py, line 1: SystemExit: 3"),
        ("import no_such_module_at_all\n", r"mine\.py, line 1: ModuleNotFoundError"),
        ("x = 1\n", r"mine\.py: makes no metric; decorate a function"),
        (
            "import spanscore\n@spanscore.metric\ndef f(): return 1\n",
            r"mine\.py, line 2: InputError: f\(\): a metric's",
        ),
    ],
)
def test_a_file_that_is_wrong_is_told_with_its_line(loaded, code, what):
    with pytest.raises(ConfigError, match=f"spanscore.yaml: evaluation.plugins: ./{what}"):
        loaded(code)


def test_a_file_that_is_wrong_is_told_once(loaded):
    with pytest.raises(ConfigError) as caught:
        loaded("x =")
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_that_is_not_there_is_told_with_its_place(tmp_path):
    with pytest.raises(
        ConfigError, match=r"\./mine\.py: No such file or directory \(.*/mine\.py\)"
    ):
        config.parse(NAMES_SHORT, environ={}, folder=tmp_path)


def test_a_module_that_is_not_there_is_told_with_what_to_do():
    with pytest.raises(
        ConfigError, match="shop_metrics: there is no such module; install the package"
    ):
        parsed("{plugins: [shop_metrics]}")


def test_a_module_makes_metrics_also_in_its_submodules(tmp_path, monkeypatch):
    package = tmp_path / "own_package_of_metrics"
    package.mkdir()
    (package / "__init__.py").write_text("from own_package_of_metrics import inner\n")
    (package / "inner.py").write_text(SHORT)
    monkeypatch.syspath_prepend(tmp_path)
    settings = parsed("{plugins: [own_package_of_metrics], metrics: {short: {}}}")
    for name in [x for x in sys.modules if x.startswith("own_package_of_metrics")]:
        del sys.modules[name]
    assert names(settings)[-1] == "short"


def test_a_name_that_no_plugin_makes_is_answered_with_the_nearest(loaded):
    with pytest.raises(ConfigError, match="there is no metric 'shrt'; did you mean 'short'"):
        loaded(text="evaluation: {plugins: [./mine.py], metrics: {shrt: {}}}")


@pytest.fixture
def entry_point(monkeypatch):
    """Make an entry point of group `spanscore.metrics` lead to an object."""
    before = discovery.entry_points

    def lead_to(item):
        point = SimpleNamespace(name="mine", value="mine:thing", load=lambda: item)
        monkeypatch.setattr(
            discovery,
            "entry_points",
            lambda group: [point] if group == "spanscore.metrics" else before(group=group),
        )
        metrics._standing.cache_clear()

    yield lead_to
    metrics._standing.cache_clear()


def short(trace):
    return True


def test_an_entry_point_may_lead_to_a_function(entry_point):
    entry_point(spanscore.metric(short))
    assert names(parsed("{metrics: {short: {}}}"))[-1] == "short"


def test_an_entry_point_may_lead_to_a_criterion(entry_point):
    entry_point(spanscore.criterion("kind", "Is it kind?"))
    assert available()["kind"].summary == "Is it kind?"


def test_an_entry_point_may_lead_to_a_module(entry_point):
    module = type(sys)("mine")
    module.short = spanscore.metric(short)
    module.kind = spanscore.criterion("kind", "Is it kind?")
    entry_point(module)
    assert {"short", "kind"} <= set(available())


def test_an_entry_point_that_leads_to_no_metric_is_refused(entry_point):
    entry_point(short.__code__)
    with pytest.raises(
        ConfigError, match=r"entry point 'mine' of group 'spanscore\.metrics' is no metric"
    ):
        available()


def test_a_metric_of_the_name_of_an_installed_one_is_refused(entry_point):
    entry_point(spanscore.metric(short))
    available()
    metrics.own.registry._registered.clear()
    spanscore.metric(name="short")(lambda trace: True)
    with pytest.raises(ConfigError, match="two metrics are named 'short'"):
        available()


def test_the_configuration_may_name_one_of_its_own_only(monkeypatch):
    spanscore.metric(short)
    assert [x.name for x in Config(default_metrics=False, metrics={"short": {}}).build()] == [
        "short"
    ]
