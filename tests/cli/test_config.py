"""A configuration file checked, and the schema of one."""

import json

import jsonschema
import pytest

from spanscore.cli.config import example
from spanscore.cli.main import main


@pytest.fixture
def checked(tmp_path, capsys):
    def check(text):
        file = tmp_path / "spanscore.yaml"
        file.write_text(text)
        code = main(["config", "check", str(file)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err.replace(str(file), "FILE")

    return check


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_init_writes_a_file_that_can_be_used(folder, capsys):
    assert main(["config", "init"]) == 0
    assert main(["config", "check", "spanscore.yaml"]) == 0


def test_init_writes_where_it_is_asked_to(folder, capsys):
    assert main(["config", "init", "other.yaml"]) == 0
    assert (folder / "other.yaml").read_text() == example().read_text()


def test_init_replaces_no_file(folder, capsys):
    (folder / "spanscore.yaml").write_text("mode: inline")

    assert main(["config", "init"]) == 2
    assert (folder / "spanscore.yaml").read_text() == "mode: inline"
    assert (
        capsys.readouterr().err
        == "spanscore: error: spanscore.yaml: is there already; name another file, or delete it\n"
    )


def test_init_prints_to_standard_output(capsys):
    assert main(["config", "init", "-"]) == 0
    assert capsys.readouterr().out == example().read_text()


def test_a_file_that_can_be_used_is_said_to_be(checked):
    code, out, err = checked("judge: {model: openai/gpt-4o-mini}")
    assert (code, out.endswith(": can be used\n"), err) == (0, True, "")


def test_an_unknown_key_is_named_with_the_nearest_right_one(checked):
    code, _, err = checked("juge: {model: x}")
    assert (code, err) == (2, "spanscore: error: FILE: juge: unknown key; did you mean judge?\n")


def test_everything_that_is_wrong_is_said_at_once(checked):
    _, _, err = checked("juge: {}\nassemble: {complete_after: 10}")
    assert [line.split(":")[3].strip() for line in err.splitlines()] == [
        "assemble.complete_after",
        "juge",
    ]


@pytest.mark.slow
def test_the_schema_is_valid_and_accepts_a_configuration(capsys):
    assert main(["config", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate({"assemble": {"complete_after": "5s"}}, schema)


@pytest.mark.parametrize(
    "text", ["rubric: {model: gpt-4o}", "metrics: {confidence: {model: gpt-4o}}"]
)
def test_a_model_without_a_judge_is_told(tmp_path, capsys, text):
    (tmp_path / "c.yaml").write_text(f"evaluation: {{{text}}}\n")
    assert main(["config", "check", str(tmp_path / "c.yaml")]) == 2
    assert (
        "c.yaml: evaluation: a metric's model is 'gpt-4o', but judge.model names none"
        in capsys.readouterr().err
    )
