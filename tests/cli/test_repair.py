"""`spanscore repair` says what it saved, and leaves alone what is sound or in use."""

import sqlite3
from contextlib import closing

import pytest
import yaml

from spanscore.cli.main import main
from spanscore.store.config import Config, JournalConfig
from spanscore.store.journal import Journal
from spanscore.store.store import Store


@pytest.fixture
def configured(tmp_path):
    """The path of a configuration whose journal and store are there and hold a request."""
    journal = Journal(JournalConfig(path=tmp_path / "journal.db"))
    journal.append("traces", b"body", 0).result()
    journal.close()
    Store.open(Config(url=f"sqlite:///{tmp_path}/store.db")).close()
    paths = {
        "journal": {"path": f"{tmp_path}/journal.db"},
        "store": {"url": f"sqlite:///{tmp_path}/store.db"},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(paths))
    return tmp_path / "config.yaml"


def test_what_is_sound_is_left_as_it_is(configured, tmp_path, capsys):
    before = (tmp_path / "journal.db").read_bytes()
    assert main(["repair", "-c", str(configured)]) == 0
    assert capsys.readouterr().out.count("sound, left as it is") == 2
    assert (tmp_path / "journal.db").read_bytes() == before


@pytest.mark.slow
def test_what_is_damaged_is_repaired_with_counts_and_put_aside(configured, tmp_path, capsys):
    for name in ("journal.db", "store.db"):
        with (tmp_path / name).open("r+b") as file:
            file.write(b"\0" * 200)
            file.seek(16_384)
            file.write(bytes(16_384 * 60))
    assert main(["repair", "-c", str(configured)]) == 0
    told = capsys.readouterr().out
    assert "requests: 0 rows saved, 1 lost" in told
    assert "scores: 0 rows saved, how many are lost is not known" in told
    assert told.count(".recover") == 2
    assert len(list(tmp_path.glob("*.damaged-*"))) == 2
    assert main(["repair", "-c", str(configured)]) == 0


def test_where_an_index_is_damaged_all_rows_are_there(configured, tmp_path, capsys):
    with closing(sqlite3.connect(tmp_path / "store.db")) as db:
        db.execute("INSERT INTO judge_answers VALUES (1, 'question', 1, 1, 'answer')")
        db.commit()
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_judge_answers_1'"
        (page,) = db.execute(query).fetchone()
        (page_bytes,) = db.execute("PRAGMA page_size").fetchone()
    with (tmp_path / "store.db").open("r+b") as file:
        file.seek((page - 1) * page_bytes + 3)
        file.write(b"\0\0")  # as if it had no entries
    assert main(["repair", "-c", str(configured)]) == 0
    told = capsys.readouterr().out
    assert "judge_answers: 1 rows saved, 0 lost" in told
    assert "all rows are there" in told
    assert ".recover" not in told


def test_beside_a_running_server_it_changes_nothing(configured, tmp_path, capsys):
    journal = Journal(JournalConfig(path=tmp_path / "journal.db"))
    assert main(["repair", "-c", str(configured)]) == 2
    assert "in use by another spanscore" in capsys.readouterr().err
    journal.close()


def test_files_that_are_not_there_need_no_repair(tmp_path, capsys):
    (tmp_path / "config.yaml").write_text(
        f"journal: {{path: {tmp_path}/j.db}}\nstore: {{url: 'sqlite:///{tmp_path}/s.db'}}\n"
    )
    assert main(["repair", "-c", str(tmp_path / "config.yaml")]) == 0
    assert capsys.readouterr().out.count("is not there") == 2
