"""What is made of files follows the files."""

import pytest

from spanscore.local_files import Watched


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "token"
    path.write_text("old")
    return path


def test_a_changed_file_is_read_again(file):
    watched = Watched([file], file.read_text, every_s=0)
    file.write_text("newer")
    assert watched.get() == "newer"


def test_an_unchanged_file_is_not_read_again(file):
    read = []
    watched = Watched([file], lambda: read.append(1), every_s=0)
    watched.get()
    assert len(read) == 1


def test_files_are_looked_at_no_more_often_than_said(file):
    now_s = 0.0
    watched = Watched([file], file.read_text, every_s=10, clock_s=lambda: now_s)
    file.write_text("newer")
    now_s = 9.9
    assert watched.get() == "old"
    now_s = 10.0
    assert watched.get() == "newer"


def test_a_file_that_went_away_leaves_what_it_made(file):
    watched = Watched([file], file.read_text, every_s=0)
    file.unlink()
    assert watched.get() == "old"


def test_a_file_that_cannot_be_used_is_warned_of(file, caplog):
    watched = Watched([file], lambda: int("1" if file.read_text() == "old" else "x"), every_s=0)
    file.write_text("newer")
    assert watched.get() == 1
    assert "changed and cannot be used" in caplog.text


def test_a_file_that_cannot_be_used_at_first_is_an_error(tmp_path):
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError):
        Watched([missing], missing.read_text, every_s=0)
