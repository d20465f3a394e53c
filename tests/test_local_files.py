"""Files that hold what users said: who may read them, and what is left where they cannot be
written.
"""

import errno
import os
import sqlite3
import stat
import subprocess
import sys

import pytest

from spanscore import local_files
from spanscore.errors import InputError, OutputError

_DATABASE = ("spanscore.db", "spanscore.db-shm", "spanscore.db-wal")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def readable(tmp_path):
    """A file that was there before, which all may read."""
    path = tmp_path / "report.json"
    path.write_text("before")
    path.chmod(0o644)
    return path


@pytest.fixture
def full(monkeypatch):
    """No file takes more."""

    def refuse(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)


def test_only_the_owner_reads_a_new_file(tmp_path):
    local_files.write(tmp_path / "report.json", b"said")
    assert mode(tmp_path / "report.json") == 0o600


def test_only_the_owner_reads_a_file_that_was_there_before(readable):
    local_files.write(readable, b"said")
    assert (readable.read_bytes(), mode(readable)) == (b"said", 0o600)


def test_the_file_behind_a_link_is_written(readable, tmp_path):
    link = tmp_path / "latest"
    link.symlink_to(readable)
    local_files.write(link, b"said")
    assert (link.is_symlink(), readable.read_bytes()) == (True, b"said")


def test_a_link_that_leads_nowhere_makes_the_file_it_names(tmp_path):
    link = tmp_path / "latest"
    link.symlink_to(tmp_path / "report.json")
    local_files.write(link, b"said")
    assert (tmp_path / "report.json").read_bytes() == b"said"


@pytest.mark.usefixtures("full")
def test_a_file_that_does_not_fit_is_as_it_was(readable):
    with pytest.raises(
        OutputError, match=r"report\.json: cannot be written \(No space left on device\); make room"
    ):
        local_files.write(readable, b"said")
    assert (readable.read_text(), list(readable.parent.iterdir())) == ("before", [readable])


def test_a_device_that_is_full_is_said(full_device):
    with pytest.raises(OutputError, match="/dev/full"):
        local_files.write(full_device, b"said")


def test_a_folder_that_is_not_there_is_bad_input(tmp_path):
    with pytest.raises(InputError, match="No such file or directory"):
        local_files.write(tmp_path / "none" / "report.json", b"said")


def test_a_pipe_is_written_to(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["/bin/cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        local_files.write(pipe, b"said")
        assert reader.stdout.read() == b"said"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_standard_output_by_its_name_is_added_to_and_not_replaced(tmp_path):
    code = (
        "from pathlib import Path\nfrom spanscore import local_files\n"
        "local_files.write(Path('/dev/stdout'), b'said')\n"
    )
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True, timeout=60)
        assert os.fstat(out.fileno()).st_nlink == 1
    assert (tmp_path / "out").read_bytes() == b"said"


def test_only_the_owner_reads_a_database_and_the_files_beside_it(tmp_path):
    path = tmp_path / "store" / "spanscore.db"
    local_files.make(path)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE a (b)")
        assert {x.name: mode(x) for x in path.parent.iterdir()} == dict.fromkeys(_DATABASE, 0o600)
    db.close()


def test_a_database_that_was_there_before_is_restricted_with_the_files_beside_it(tmp_path):
    for name in _DATABASE:
        (tmp_path / name).write_bytes(b"")
        (tmp_path / name).chmod(0o644)
    local_files.make(tmp_path / "spanscore.db")
    assert [mode(tmp_path / name) for name in _DATABASE] == [0o600] * 3


def test_a_file_that_grows_can_be_left_to_its_group(readable):
    os.close(local_files.open_to_append(readable, 0o640))
    assert (readable.read_text(), mode(readable)) == ("before", 0o640)
