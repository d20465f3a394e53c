"""The ledger says which requests the journal must contain, whatever becomes of its own last
bytes.
"""

import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from spanscore.store import ledger
from spanscore.store.ledger import Entry, Ledger, checksum, read


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.db.ledger"


@pytest.fixture
def opened(path):
    made = Ledger(path, {}, 0, sync=False)
    yield made
    made.close()


def test_what_was_kept_and_not_removed_is_there(opened, path):
    opened.keep({1: Entry(5, 100, 7), 2: Entry(6, 200, 8)})
    opened.remove([1])
    found = read(path)
    assert (found.entries, found.removed, found.highest) == ({2: Entry(6, 200, 8)}, {1}, 2)


def test_no_ledger_is_not_the_same_as_an_empty_one(path, tmp_path):
    assert not read(path).is_there
    Ledger(path, {}, 0, sync=False).close()
    assert read(path).is_there


def test_a_ledger_begun_anew_has_what_is_there_and_the_highest_row(path):
    Ledger(path, {3: Entry(1, 2, None)}, 9, sync=True).close()
    found = read(path)
    assert (found.entries, found.highest) == ({3: Entry(1, 2, None)}, 9)


def test_a_record_that_was_being_written_is_left_out(opened, path):
    opened.keep({1: Entry(5, 100, 7), 2: Entry(6, 200, 8)})
    os.truncate(path, path.stat().st_size - 1)
    assert read(path).entries.keys() == {1}


def test_a_damaged_record_is_counted_and_costs_no_other(opened, path):
    opened.keep({1: Entry(5, 100, 7), 2: Entry(6, 200, 8)})
    content = bytearray(path.read_bytes())
    content[4] ^= 1
    path.write_bytes(content)
    found = read(path)
    assert (found.entries.keys(), found.damaged) == ({2}, 1)


def test_what_a_full_disk_did_not_take_is_written_with_what_comes_next(opened, path, monkeypatch):
    with monkeypatch.context() as full:
        full.setattr(ledger.os, "pwrite", lambda _file, content, _at: len(content) - 1)
        opened.keep({1: Entry(5, 100, 7)})
    opened.keep({2: Entry(6, 200, 8)})
    assert read(path).entries.keys() == {1, 2}


def test_a_removal_that_a_full_disk_did_not_take_is_none(opened, monkeypatch):
    opened.keep({1: Entry(5, 100, 7)})
    monkeypatch.setattr(ledger.os, "pwrite", lambda _file, content, _at: len(content) - 1)
    with pytest.raises(OSError, match="No space left"):
        opened.remove([1])


def test_a_ledger_that_is_mostly_about_what_was_removed_is_shortened(opened, path, monkeypatch):
    monkeypatch.setattr(ledger, "_SPARE_RECORDS", 10)
    for row in range(1, 20):
        opened.keep({row: Entry(1, 1, 1)})
        opened.remove([row])
    assert opened.is_long
    opened.shorten()
    opened.keep({20: Entry(1, 1, 1)})
    assert (read(path).entries.keys(), read(path).highest, path.stat().st_size) == ({20}, 20, 64)


def test_a_checksum_is_of_the_body_and_the_headers():
    assert len({checksum(b"a"), checksum(b"b"), checksum(b"a", "[]")}) == 3


@pytest.mark.slow
@given(st.binary(max_size=200))
def test_any_bytes_are_read_as_a_ledger(tmp_path_factory, content):
    path: Path = tmp_path_factory.mktemp("ledger") / "ledger"
    path.write_bytes(content)
    assert read(path).damaged <= len(content) // 32
