"""A journal whose files were damaged gives back what they still have, and says what it lacks."""

import errno
import logging
import os
import shutil
import sqlite3

import pytest

from spanscore.errors import ConfigError, InputError, RetryableError
from spanscore.store import journal as commits, pages, quarantine, repair
from spanscore.store.config import JournalConfig
from spanscore.store.journal import Journal
from spanscore.store.recovery import Lost

COUNT = 60


def body(number):
    """Some are longer than a page."""
    return f"request {number} ".encode() * (40 if number % 10 else 3000)


@pytest.fixture
def killed(tmp_path):
    """The files of a journal whose process died, all of it in the write-ahead log."""
    journal = Journal(JournalConfig(path=tmp_path / "live" / "journal.db"))
    for number in range(COUNT):
        journal.append("traces", body(number), 10**18 + number, (("tenant", f"{number}"),)).result()
    files = tmp_path / "killed"
    shutil.copytree(tmp_path / "live", files)
    journal.close()
    return files


@pytest.fixture
def reopen(killed):
    opened = []

    def open_it():
        opened.append(Journal(JournalConfig(path=killed / "journal.db")))
        return opened[-1]

    yield open_it
    for journal in opened:
        journal.close()


def bodies(journal):
    return [request.body for request in journal.replay()]


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_a_journal_that_was_not_damaged_lacks_nothing(reopen):
    journal = reopen()
    assert (bodies(journal), journal.lost) == ([body(n) for n in range(COUNT)], {})


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_flipped_byte_in_the_log_costs_one_request_at_most(reopen, killed, share):
    log = killed / "journal.db-wal"
    flip(log, int(log.stat().st_size * share) + 40)
    journal = reopen()
    lost = sum(x.count for x in journal.lost.values())
    assert lost <= 1
    assert len(bodies(journal)) == COUNT - lost


def test_looking_for_faults_takes_nothing_from_a_damaged_log(reopen, killed):
    flip(killed / "journal.db-wal", 10_000)
    assert repair.fault_of(killed / "journal.db") is None
    assert len(bodies(reopen())) >= COUNT - 1


def test_what_was_saved_has_its_headers(reopen, killed):
    flip(killed / "journal.db-wal", 10_000)
    assert {request.headers[0][1] for request in reopen().replay()} >= {
        f"{n}" for n in range(5, COUNT)
    }


def test_what_is_left_of_a_damaged_log_is_kept(reopen, killed):
    flip(killed / "journal.db-wal", 10_000)
    reopen()
    assert len(list(killed.glob("journal.db-wal.damaged-*"))) == 1


@pytest.mark.parametrize("left", [0.0, 0.3, 0.7])
def test_what_is_missing_in_a_log_that_was_cut_is_counted(reopen, killed, left):
    log = killed / "journal.db-wal"
    os.truncate(log, int(log.stat().st_size * left))
    journal = reopen()
    assert journal.lost["missing"].count == COUNT - len(bodies(journal)) > 0


@pytest.mark.parametrize(
    "gone", [["journal.db-wal"], ["journal.db-wal", "journal.db", "journal.db-shm"]]
)
def test_a_log_that_is_gone_is_no_silent_loss(reopen, killed, gone):
    for name in gone:
        (killed / name).unlink()
    lost = reopen().lost["missing"]
    assert (lost.count, lost.first_ns, lost.last_ns) == (COUNT, 10**18, 10**18 + COUNT - 1)


def test_a_loss_is_counted_once(reopen, killed):
    (killed / "journal.db-wal").unlink()
    reopen().close()
    assert reopen().lost == {}


def test_rows_are_not_given_again_after_a_loss(reopen, killed):
    (killed / "journal.db-wal").unlink()
    assert reopen().append("traces", b"new", 0).result() == COUNT + 1


def test_what_had_been_removed_does_not_come_back_with_an_older_database(tmp_path):
    journal = Journal(JournalConfig(path=tmp_path / "journal.db"))
    rows = [journal.append("traces", b"x", 0).result() for _ in range(3)]
    journal._commits._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = (tmp_path / "journal.db").read_bytes()
    journal.delete(rows[:2]).result()
    noted = (tmp_path / "journal.db.ledger").read_bytes()
    journal.close()
    (tmp_path / "journal.db").write_bytes(before)
    (tmp_path / "journal.db.ledger").write_bytes(noted)
    again = Journal(JournalConfig(path=tmp_path / "journal.db"))
    assert ([request.row for request in again.replay()], again.lost) == (rows[2:], {})
    again.close()


class Failing:
    """A connection for which the disk failed `times` at reading, which SQLite reports as damage."""

    def __init__(self, db, times):
        self._db = db
        self._left = times

    def __getattr__(self, name):
        return getattr(self._db, name)

    def execute(self, *statement):
        self._left -= 1
        if self._left < 0:
            return self._db.execute(*statement)
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error


def test_a_request_that_the_disk_does_not_read_now_is_not_lost(reopen, monkeypatch):
    journal = reopen()
    failed = OSError(errno.EIO, "Input/output error")
    monkeypatch.setattr(pages, "disk_error", lambda _: failed)
    journal._reader = Failing(journal._reader, 1)
    with pytest.raises(RetryableError, match="Input/output error"):
        journal.read([1])
    assert (len(journal.read([1])), journal.lost) == (1, {})


def test_a_request_that_the_disk_reads_again_is_not_lost(reopen):
    journal = reopen()
    journal._reader = Failing(journal._reader, 1)
    assert (len(journal.read([1])), journal.lost) == (1, {})


def test_a_request_is_removed_once_the_disk_reads_again(reopen, monkeypatch):
    monkeypatch.setattr(commits, "_FIRST_WAIT_S", 0.0)
    monkeypatch.setattr(commits, "_LONGEST_WAIT_S", 0.01)
    looks = iter([OSError(errno.EIO, "Input/output error")])
    monkeypatch.setattr(pages, "disk_error", lambda _: next(looks, None))
    journal = reopen()
    commit = journal._commits._do
    failures = iter(range(3))

    def fail(batch):
        if next(failures, None) is not None:
            Failing(None, 1).execute()
        return commit(batch)

    monkeypatch.setattr(journal._commits, "_do", fail)
    journal.delete([1]).result(30)
    assert journal.read([1]) == []


def test_a_file_that_the_disk_does_not_read_is_not_called_damaged(killed, monkeypatch):
    failed = OSError(errno.EIO, "Input/output error")
    monkeypatch.setattr(pages, "disk_error", lambda _: failed)
    with pytest.raises(InputError, match="see to the disk"):
        repair.fault_of(killed / "journal.db")


def test_a_request_that_was_changed_on_disk_is_put_aside_and_counted(reopen, killed, caplog):
    reopen().close()
    db = sqlite3.connect(killed / "journal.db")
    with db:
        db.execute("UPDATE requests SET body = ? WHERE row = 7", (b"changed",))
    db.close()
    journal = reopen()
    assert len(bodies(journal)) == COUNT - 1
    journal.delete([]).result()
    assert (journal.lost["damaged"].count, quarantine.listed(killed / "journal.db")[0].signal) == (
        1,
        "traces",
    )
    assert "its checksum differs" in caplog.text


def test_a_journal_from_before_there_was_a_ledger_is_taken_up_as_it_is(reopen, killed, caplog):
    (killed / "journal.db.ledger").unlink()
    journal = reopen()
    assert (len(bodies(journal)), journal.lost) == (COUNT, {})
    assert "is not there" in caplog.text
    journal.close()
    caplog.clear()
    assert len(bodies(reopen())) == COUNT
    assert not [x for x in caplog.records if x.levelno >= logging.WARNING]


def test_a_damaged_database_is_an_error_that_says_what_to_do(reopen, killed):
    (killed / "journal.db-wal").unlink()
    (killed / "journal.db").write_bytes(b"no database at all" * 10_000)
    with pytest.raises(ConfigError, match="spanscore repair"):
        reopen()


def test_losses_add_up():
    some, more = Lost(1, 10, 5, 6), Lost(2, 20, 1, 9)
    assert (some + more, Lost() + some, some + Lost()) == (Lost(3, 30, 1, 9), some, some)
