"""The journal keeps what it acknowledged, within its bounds."""

import errno
import os
import sqlite3

import pytest

from spanscore.errors import ConfigError, RetryableError
from spanscore.store import journal as commits, ledger, quarantine
from spanscore.store.config import JournalConfig
from spanscore.store.departures import Leaving
from spanscore.store.journal import Journal


@pytest.fixture
def config(tmp_path):
    return JournalConfig(path=tmp_path / "journal.db")


@pytest.fixture
def journal(config):
    opened = Journal(config)
    yield opened
    opened.close()


def test_what_was_appended_is_read_back(journal):
    row = journal.append("traces", b"body", 5).result()
    (request,) = journal.read([row])
    assert (request.signal, request.received_ns, request.body) == ("traces", 5, b"body")


def test_an_acknowledged_request_is_there_after_the_process_died(config):
    journal = Journal(config)
    row = journal.append("logs", b"body", 5).result()
    journal._lock.close()  # as the kernel does for a process that died
    assert [request.row for request in Journal(config).replay()] == [row]


def test_rows_go_on_after_a_restart(config):
    first = Journal(config)
    row = first.append("traces", b"a", 0).result()
    first.close()
    second = Journal(config)
    assert second.append("traces", b"b", 0).result() > row
    second.close()


def test_deleted_requests_are_gone_and_their_bytes_free(journal):
    row = journal.append("traces", b"12345", 0).result()
    journal.delete([row]).result()
    assert (journal.read([row]), journal.size_bytes) == ([], 0)


def test_a_full_journal_tells_the_sender_to_come_back(tmp_path):
    journal = Journal(JournalConfig(path=tmp_path / "journal.db", max_bytes=10))
    journal.append("traces", b"1234567890", 0).result()
    with pytest.raises(RetryableError, match=r"journal\.max_bytes"):
        journal.append("traces", b"1", 0)
    journal.close()


def test_an_empty_journal_takes_a_request_larger_than_itself(tmp_path):
    """Refused, it would be sent again for ever."""
    journal = Journal(JournalConfig(path=tmp_path / "journal.db", max_bytes=10))
    assert journal.append("traces", b"12345678901", 0).result()
    assert journal.trouble is None
    journal.close()


def test_a_journal_that_has_been_emptied_takes_requests_again(tmp_path):
    journal = Journal(JournalConfig(path=tmp_path / "journal.db", max_bytes=10))
    row = journal.append("traces", b"1234567890", 0).result()
    journal.delete([row]).result()
    assert journal.append("traces", b"1234567890", 0).result() > row
    journal.close()


def test_a_write_error_is_passed_on_as_retryable(journal):
    journal._commits._db.execute("DROP TABLE requests")
    with pytest.raises(RetryableError, match="cannot be written"):
        journal.append("traces", b"x", 0).result()


def test_a_refused_request_takes_no_room(journal):
    journal._commits._db.execute("DROP TABLE requests")
    journal.append("traces", b"x", 0).exception()
    journal.close()
    assert journal.size_bytes == 0


def test_a_caller_that_goes_away_does_not_stop_the_journal(journal):
    gone = journal.append("traces", b"a", 0)
    assert not gone.cancel()
    assert journal.append("traces", b"b", 0).result() > gone.result()


def test_a_second_server_on_the_same_journal_is_refused(journal, config):
    with pytest.raises(ConfigError, match="in use by another spanscore"):
        Journal(config)


def test_a_closed_journal_refuses(journal):
    journal.close()
    with pytest.raises(RetryableError):
        journal.append("traces", b"x", 0).result()


def test_closing_twice_does_nothing(journal):
    journal.close()
    journal.close()


def test_closed_traces_are_remembered_until_forgotten(journal):
    journal.close_traces([(b"a", 3, 100), (b"b", 4, 200)]).result()
    assert journal.closed_traces() == {b"a": (3, 100), b"b": (4, 200)}
    journal.forget_closed(1).result()
    assert journal.closed_traces() == {b"b": (4, 200)}


def test_parts_of_turns_are_remembered_as_long_as_that_they_were_closed(journal):
    journal.close_traces([(b"a", 3, 100), (b"b", 4, 200)], [b"a", b"b"]).result()
    assert journal.parts() == {b"a", b"b"}
    journal.forget_closed(1).result()
    assert journal.parts() == {b"b"}


def test_a_request_whose_rest_has_left_says_so_and_what_stayed_behind(journal):
    row = journal.append("traces", b"body", 0).result()
    assert journal.leaving(row) == Leaving()
    journal.mark_rest_left(row, [b"span"]).result()
    assert journal.leaving(row) == Leaving(rest_left=True, held=frozenset([b"span"]))


@pytest.mark.parametrize("is_first", [True, False])
def test_a_span_that_was_held_back_leaves_before_or_after_the_rest(journal, is_first):
    row = journal.append("traces", b"body", 0).result()
    marks = [
        lambda: journal.mark_span_left(row, b"span"),
        lambda: journal.mark_rest_left(row, [b"span"]),
    ]
    for mark in marks if is_first else reversed(marks):
        mark().result()
    assert journal.leaving(row) == Leaving(rest_left=True, left=frozenset([b"span"]))


def test_headers_are_kept_with_their_request(journal):
    row = journal.append(
        "traces", b"body", 0, (("x-scope-orgid", "a"), ("x-scope-orgid", "b"))
    ).result()
    assert journal.read([row])[0].headers == (("x-scope-orgid", "a"), ("x-scope-orgid", "b"))


def test_nothing_is_known_of_a_deleted_request(journal):
    row = journal.append("traces", b"body", 0, (("name", "value"),)).result()
    journal.mark_rest_left(row, [b"span"]).result()
    journal.delete([row]).result()
    assert journal.leaving(row) == Leaving()


def test_what_was_put_aside_is_listed_while_the_journal_is_open(journal, config):
    journal.quarantine("traces", b"\xff\xff", "not protobuf", 7).result()
    (entry,) = quarantine.listed(config.path)
    assert (entry.signal, entry.reason, entry.size_bytes, entry.received_ns) == (
        "traces",
        "not protobuf",
        2,
        7,
    )


def test_what_was_put_aside_can_be_had_as_it_came(journal, config):
    journal.quarantine("traces", b"\xff\xff", "not protobuf", 7).result()
    (entry,) = quarantine.listed(config.path)
    assert quarantine.body(config.path, entry.id) == b"\xff\xff"


def test_the_oldest_of_too_many_put_aside_is_dropped(tmp_path):
    journal = Journal(JournalConfig(path=tmp_path / "journal.db", max_quarantined=2))
    for number in range(3):
        journal.quarantine("traces", b"x", f"reason {number}", number).result()
    journal.close()
    assert [entry.reason for entry in quarantine.listed(journal._config.path)] == [
        "reason 1",
        "reason 2",
    ]


def test_a_path_that_cannot_be_opened_names_the_setting(tmp_path):
    with pytest.raises(ConfigError, match=r"journal\.path"):
        Journal(JournalConfig(path=tmp_path))


def test_a_journal_of_another_version_is_refused(config):
    Journal(config).close()
    db = sqlite3.connect(config.path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(ConfigError, match="another spanscore"):
        Journal(config)


def test_listing_without_a_journal_says_so(config):
    with pytest.raises(ConfigError, match="no journal there"):
        quarantine.listed(config.path)


def test_only_the_owner_reads_the_journal(config, journal):
    journal.quarantine("traces", b"x", "not protobuf", 0).result()
    modes = {
        x.name: x.stat().st_mode & 0o777 for x in config.path.parent.glob(f"{config.path.name}*")
    }
    assert "journal.db.lock" in modes
    assert set(modes.values()) == {0o600}


class Refusing:
    """A disk that refuses every commit while it `refuses`: a connection of the writing thread."""

    def __init__(self, db):
        self._db = db
        self.refuses = self.refuses_to_empty = False

    def execute(self, statement, *values):
        if self.refuses_to_empty and "TRUNCATE" in statement:
            raise sqlite3.OperationalError("database or disk is full")
        return self._db.execute(statement, *values)

    def __getattr__(self, name):
        return getattr(self._db, name)

    def __enter__(self):
        if self.refuses:
            raise sqlite3.OperationalError("database or disk is full")
        return self._db.__enter__()

    def __exit__(self, *raised):
        return self._db.__exit__(*raised)


@pytest.fixture
def disk(journal, monkeypatch):
    monkeypatch.setattr(commits, "_FIRST_WAIT_S", 0.0)
    monkeypatch.setattr(commits, "_LONGEST_WAIT_S", 0.01)
    journal._commits._db = Refusing(journal._commits._db)
    return journal._commits._db


def test_requests_that_a_full_disk_kept_are_removed_once_it_has_room(journal, disk):
    row = journal.append("traces", b"12345", 0).result()
    disk.refuses = True
    removed = journal.delete([row])
    assert journal.append("traces", b"x", 0).exception() is not None
    assert (removed.done(), journal.size_bytes) == (False, 5)
    disk.refuses = False
    removed.result(30)
    assert (journal.size_bytes, journal.read([row])) == (0, [])


def test_a_journal_that_could_not_be_written_finds_out_by_itself_that_it_can_be_again(
    journal, disk
):
    disk.refuses = True
    assert journal.append("traces", b"x", 0).exception() is not None
    assert "disk is full" in journal.trouble
    owed = journal.close_traces([(b"a", 1, 1)])
    disk.refuses = False
    owed.result(30)
    assert journal.trouble is None


def test_what_is_owed_is_written_in_its_order(journal, disk):
    row = journal.append("traces", b"body", 0).result()
    disk.refuses = True
    journal.put_aside([row], "cannot be scored", 7)
    removed = journal.delete([row])
    disk.refuses = False
    removed.result(30)
    assert [x.reason for x in quarantine.listed(journal._config.path)] == ["cannot be scored"]


def test_a_change_that_fails_whatever_the_disk_does_holds_up_no_other(journal, disk):
    disk.refuses = True
    hopeless = journal.close_traces([(b"a", "no", "such", "columns")])
    removed = journal.delete([1])
    disk.refuses = False
    removed.result(30)
    assert hopeless.exception(30) is not None


def test_requests_are_removed_once_a_full_disk_takes_the_ledgers_records(
    journal, disk, monkeypatch
):
    rows = [journal.append("traces", b"12345", 0).result() for _ in range(3)]
    refusals = [errno.ENOSPC] * 6

    def write_all(*args):
        if refusals:
            raise OSError(refusals.pop(), "No space left on device")
        return written(*args)

    written = ledger._write_all
    monkeypatch.setattr(ledger, "_write_all", write_all)
    for removed in [journal.delete([row]) for row in rows]:
        removed.result(30)
    assert (journal.size_bytes, journal.trouble, journal.read(rows)) == (0, None, [])


def test_a_journal_whose_log_cannot_be_emptied_goes_on(journal, disk, monkeypatch):
    monkeypatch.setattr(ledger.Ledger, "is_long", True)
    disk.refuses_to_empty = True
    assert [journal.append("traces", b"x", 0).result(30) for _ in range(2)] == [1, 2]


def test_the_server_that_has_the_journal_is_named_with_its_process(journal, config):
    with pytest.raises(ConfigError, match=f"process {os.getpid()} on .*journal.path"):
        Journal(config)


def test_a_link_to_the_journal_is_the_same_journal(journal, config, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(config.path)
    with pytest.raises(ConfigError, match="in use by another spanscore"):
        Journal(JournalConfig(path=link))


def test_a_lock_file_that_a_dead_process_left_stops_nobody(config):
    """Whatever process has its id now: the kernel's lock counts."""
    config.path.with_name("journal.db.lock").write_text(f"process {os.getpid()} on elsewhere\n")
    Journal(config).close()
