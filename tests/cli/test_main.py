"""The entry point: exit codes, one-line errors, and what it imports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import spanscore
from spanscore.cli import main as entry
from spanscore.errors import InputError, SpanscoreError

_RECORDING = Path(__file__).parents[2] / "examples" / "recordings" / "pydantic-ai"


@pytest.fixture
def command(monkeypatch):
    """Put a function in the place of a command's `run`, since what happens around it is the
    subject.
    """

    def put(run):
        monkeypatch.setattr("spanscore.cli.metrics.run", run)
        return lambda *options: entry.main([*options, "metrics"])

    return put


def _raising(error):
    def run(args):
        raise error

    return run


def _spanscore(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "spanscore.cli.main", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def test_the_exit_code_is_the_commands(command):
    assert command(lambda args: 1)() == 1


def test_bad_input_is_one_line_and_exit_code_2(command, capsys):
    assert command(_raising(InputError("x.pb: no such file; give another")))() == 2
    assert capsys.readouterr().err == "spanscore: error: x.pb: no such file; give another\n"


def test_each_thing_that_is_wrong_has_a_line_of_its_own(command, capsys):
    command(_raising(InputError("a: wrong\nb: wrong")))()
    assert capsys.readouterr().err.splitlines() == [
        "spanscore: error: a: wrong",
        "spanscore: error: b: wrong",
    ]


def test_another_error_of_ours_is_exit_code_1(command):
    assert command(_raising(SpanscoreError("the server did not start")))() == 1


def test_an_unforeseen_error_says_that_it_is_a_bug(command, capsys):
    assert command(_raising(KeyError("x")))() == 1
    assert (
        capsys.readouterr().err
        == "spanscore: error: KeyError: 'x' (this is a bug; --debug shows where)\n"
    )


def test_without_the_extra_a_server_says_what_to_install(command, capsys):
    missing = ModuleNotFoundError("No module named 'grpc_health'", name="grpc_health")
    assert command(_raising(missing))() == 2
    assert capsys.readouterr().err == (
        "spanscore: error: this takes what a server needs: pip install 'spanscore[server]'\n"
    )


def test_debug_shows_the_traceback(command, capsys):
    command(_raising(InputError("wrong")))("--debug")
    assert "Traceback" in capsys.readouterr().err


def test_an_error_cannot_speak_to_the_terminal(command, capsys):
    command(_raising(InputError("\x1b[2J")))()
    assert "\x1b" not in capsys.readouterr().err


def test_an_interrupt_is_exit_code_130_without_a_word(command, capsys):
    assert command(_raising(KeyboardInterrupt()))() == 130
    assert capsys.readouterr().err == ""


def test_the_version_is_the_packages():
    assert _spanscore("--version").stdout == f"spanscore {spanscore.__version__}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "the following arguments are required: COMMAND; see spanscore --help"),
        (("serve", "--bogus"), "unrecognized arguments: --bogus; see spanscore serve --help"),
        (
            ("runs", "create", "--bad"),
            "unrecognized arguments: --bad; see spanscore runs create --help",
        ),
        (
            ("eval",),
            (
                "give PATH, or name a store by --store or a running server by --server;"
                " see spanscore eval --help"
            ),
        ),
        (
            ("eval", "x", "--threshold", "y"),
            "argument --threshold: invalid float value: 'y'; see spanscore eval --help",
        ),
    ],
)
def test_wrong_arguments_are_one_line_that_says_where_to_look(words, message, capsys):
    assert entry.main(words) == 2
    assert capsys.readouterr().err == f"spanscore: error: {message}\n"


def test_an_unknown_command_is_bad_input_that_lists_those_there_are(capsys):
    assert entry.main(["nonsense"]) == 2
    assert "there are serve, run, eval, " in capsys.readouterr().err


@pytest.mark.slow
def test_a_closed_pipe_ends_it_without_a_complaint():
    with subprocess.Popen(
        [sys.executable, "-m", "spanscore.cli.main", "config", "schema"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        child.stdout.close()
        assert (child.wait(60), child.stderr.read()) == (141, b"")


@pytest.mark.parametrize("words", [("--help",), ("--version",)])
def test_help_and_version_import_nothing_heavy(words):
    code = (
        f"import sys\nfrom spanscore.cli.main import main\ntry:\n    main({list(words)})\nexcept"
        " SystemExit:\n    pass\nprint([x for x in ('rich', 'pydantic', 'grpc', 'numpy', 'yaml',"
        " 'asyncio') if x in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_a_command_imports_no_other_commands_module():
    code = (
        "import sys\nfrom spanscore.cli.main import main\nmain(['metrics'])\n"
        "print(sorted(x for x in sys.modules if x.startswith('spanscore.cli.')), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr.strip() == str(
        [f"spanscore.cli.{x}" for x in ("main", "metrics", "options", "terminal")]
    )


@pytest.mark.slow
def test_a_terminal_that_is_not_utf8_gets_escapes_in_place_of_an_error():
    done = _spanscore("inspect", str(_RECORDING), PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0


def test_a_mistyped_command_is_answered_with_the_nearest(capsys):
    assert entry.main(["srve", "-c", "spanscore.yaml"]) == 2
    assert (
        "there is no command 'srve'; did you mean 'serve'?; see spanscore --help"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("metrics", "--server", "x"), "--server: spanscore metrics asks no server; leave it out"),
        (
            ("runs", "list", "--store", "x"),
            "--store: spanscore runs list reads no store; name a server by --server",
        ),
        (("serve", "--json"), "--json: spanscore serve prints no JSON; leave it out"),
        (("--store", "x", "--server", "y", "scores"), "--store and --server: give one of them"),
        (("scores", "--token-file", "x"), "--token-file and --ca-file: go with --server"),
    ],
)
def test_options_of_the_whole_line_are_refused_where_they_mean_nothing(
    words, message, capsys, monkeypatch
):
    monkeypatch.delenv("SPANSCORE_SERVER", raising=False)
    assert entry.main(words) == 2
    assert capsys.readouterr().err == f"spanscore: error: {message}\n"


@pytest.mark.parametrize(
    "words",
    [
        ("--server", "127.0.0.1:1", "runs", "list"),
        ("--server=127.0.0.1:1", "runs", "list"),
        ("runs", "--server", "127.0.0.1:1", "list"),
        ("runs", "list", "--server", "127.0.0.1:1"),
        ("--server", "127.0.0.1:1", "--json", "scores"),
        ("scores", "--server", "127.0.0.1:1", "delete", "abc"),
    ],
    ids=" ".join,
)
def test_the_server_may_be_named_anywhere_on_the_line(words, capsys):
    assert entry.main(words) == 1
    assert "spanscore: error: 127.0.0.1:1: UNAVAILABLE" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [("runs", "list"), ("scores",), ("report",), ("compare", "runs/a", "runs/b")]
)
def test_the_environment_names_the_server_where_the_line_names_no_place(words, capsys, monkeypatch):
    monkeypatch.setenv("SPANSCORE_SERVER", "127.0.0.1:1")
    assert entry.main(words) == 1
    assert "spanscore: error: 127.0.0.1:1: UNAVAILABLE" in capsys.readouterr().err


def test_files_and_a_store_go_before_the_server_of_the_environment(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SPANSCORE_SERVER", "127.0.0.1:1")
    for words in (
        ("eval", str(tmp_path / "none.jsonl")),
        ("test", str(tmp_path / "none.jsonl")),
        ("scores", "--store", str(tmp_path / "none.db")),
    ):
        assert entry.main(words) in {1, 2}
        assert "none." in capsys.readouterr().err


def test_the_token_of_the_environment_is_read(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SPANSCORE_TOKEN_FILE", str(tmp_path / "token"))
    assert entry.main(["runs", "list", "--server", "127.0.0.1:1"]) == 2
    assert f"--token-file {tmp_path}/token: cannot be read" in capsys.readouterr().err


def test_a_command_names_the_options_of_the_whole_line_that_it_takes(capsys):
    entry.main(["runs", "list", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "--server, --token-file" in said
    assert "--store" not in said
