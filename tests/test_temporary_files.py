"""What is said where temporary files have no room."""

import errno
import os
import resource
import stat
import tempfile

import cramjam
import pytest

from spanscore.errors import OutputError
from spanscore.offline.sessions import SessionTurns
from spanscore.otlp import documents
from spanscore.temporary_files import TemporaryTables, temporary_folder, temporary_space

_SAID = (
    r"the folder for temporary files \(TMPDIR\): cannot be written \({}\); make room, or set TMPDIR"
    " to another folder"
)
_TOO_LARGE = _SAID.format(os.strerror(errno.EFBIG))


@pytest.fixture
def no_room():
    """No file takes more than 4 KiB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_tables_have_the_rows_that_were_inserted():
    tables = TemporaryTables("CREATE TABLE score (value REAL)")
    tables.insert("INSERT INTO score VALUES (?)", [(0.25,), (0.75,)])
    assert list(tables.rows("SELECT value FROM score")) == [(0.25,), (0.75,)]
    assert tables.row("SELECT SUM(value) FROM score WHERE value > ?", (0.5,)) == (0.75,)


def test_tables_on_a_full_disk_are_told_by_the_folder():
    tables = TemporaryTables("PRAGMA max_page_count = 2; CREATE TABLE score (reason TEXT)")
    with pytest.raises(OutputError, match=_SAID.format(os.strerror(errno.ENOSPC))):
        tables.insert("INSERT INTO score VALUES (?)", [("x" * 10_000,)])


def test_tables_that_outgrow_memory_and_find_no_room_are_told_by_the_folder(no_room):
    tables = TemporaryTables("CREATE TABLE score (reason TEXT)")
    with pytest.raises(OutputError, match=_SAID.format("disk I/O error")):
        tables.insert("INSERT INTO score VALUES (?)", [("x" * 10_000,)] * 1000)


def test_turns_that_outgrow_memory_and_find_no_room_are_told_by_the_folder(no_room, make_trace):
    turns = SessionTurns()
    with pytest.raises(OutputError, match=_SAID.format("disk I/O error")):
        turns.add(make_trace(1, session_id="one", user_input="x" * 10_000_000))
    turns.close()


def test_a_compressed_file_that_finds_no_room_is_told_by_the_folder(tmp_path, no_room):
    path = tmp_path / "traces.jsonl.zst"
    path.write_bytes(bytes(cramjam.zstd.compress(b'{"resourceSpans": []}\n' * 10_000)))
    with pytest.raises(OutputError, match=_TOO_LARGE):
        list(documents.contents(path))


def test_a_folder_is_its_owners_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = temporary_folder("spanscore-test-")
    assert (found.parent, stat.S_IMODE(found.stat().st_mode)) == (tmp_path, 0o700)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.ENOENT])
def test_a_folder_that_cannot_be_made_is_told_by_where_it_was_to_be(monkeypatch, code):
    def refuse(path, mode=0o777):
        raise OSError(code, os.strerror(code), path)

    monkeypatch.setattr(tempfile._os, "mkdir", refuse)
    with pytest.raises(OutputError, match=_SAID.format(os.strerror(code))):
        temporary_folder("spanscore-test-")


def test_that_no_folder_takes_temporary_files_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "none")])
    with pytest.raises(OutputError, match="No usable temporary directory"), temporary_space():
        tempfile.mkstemp()
    with pytest.raises(OutputError, match="No usable temporary directory"):
        temporary_folder("spanscore-test-")


def test_other_errors_stay_what_they_are():
    with pytest.raises(PermissionError), temporary_space():
        raise PermissionError(errno.EACCES, "Permission denied")
