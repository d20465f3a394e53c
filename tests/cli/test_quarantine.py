"""The requests that a server put aside."""

import json

import pytest

from spanscore.cli.main import main
from spanscore.store.config import JournalConfig
from spanscore.store.journal import Journal

_RECEIVED_NS = 1_700_000_000 * 10**9


@pytest.fixture
def listed(tmp_path, capsys, monkeypatch):
    """Run `quarantine` over a journal that holds these (signal, body, reason)."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(*requests, options=()):
        path = tmp_path / "journal.db"
        journal = Journal(JournalConfig(path=path))
        for signal, body, reason in requests:
            journal.quarantine(signal, body, reason, _RECEIVED_NS).result()
        journal.close()
        file = tmp_path / "spanscore.yaml"
        file.write_text(f"journal: {{path: '{path}'}}")
        assert main(["quarantine", "-c", str(file), *options]) == 0
        return capsys.readouterr().out

    return run


def test_a_request_is_listed_with_time_signal_size_and_reason(listed):
    row = listed(("traces", b"x" * 1234, "not protobuf")).splitlines()[1]
    assert row.split() == ["2023-11-14", "22:13:20", "traces", "1,234", "not", "protobuf"]


def test_json_lines_hold_the_same(listed):
    request = json.loads(listed(("logs", b"x", "not protobuf"), options=["--jsonl"]))
    assert (request["signal"], request["size_bytes"], request["reason"]) == (
        "logs",
        1,
        "not protobuf",
    )


def test_an_empty_quarantine_is_said_to_be_empty(listed):
    assert listed() == "nothing was put aside\n"


def test_a_reason_cannot_speak_to_the_terminal(listed):
    assert "\x1b" not in listed(("traces", b"", "\x1b[2J"))


def test_without_a_journal_it_is_bad_input(tmp_path, capsys):
    file = tmp_path / "spanscore.yaml"
    file.write_text(f"journal: {{path: '{tmp_path / 'none.db'}'}}")
    assert main(["quarantine", "-c", str(file)]) == 2
    assert "no journal there" in capsys.readouterr().err


def test_only_the_owner_reads_the_requests_that_are_written_out(listed, tmp_path):
    listed(("logs", b"x", "not protobuf"), options=["--out", str(tmp_path / "out")])
    assert (tmp_path / "out" / "logs-1.bin").stat().st_mode & 0o777 == 0o600
