"""What SQL can read of a damaged file is in the new one, and what is lost is counted."""

import random
import shutil
import sqlite3
import struct
from contextlib import closing

import pytest

from spanscore.errors import ConfigError, InputError
from spanscore.store import ledger, repair
from spanscore.store.config import Config, JournalConfig
from spanscore.store.journal import Journal
from spanscore.store.salvage import Copied
from spanscore.store.store import Store

pytestmark = pytest.mark.slow

COUNT = 200
PAGE = 16_384


@pytest.fixture(scope="module")
def sound(tmp_path_factory, make):
    """The file of a store of 200 traces with three scores each, some longer than a page."""
    file = tmp_path_factory.mktemp("sound") / "spanscore.db"
    store = Store.open(Config(url=f"sqlite:///{file}"))
    for number in range(1, COUNT + 1):
        text = "long " * (8000 if number % 50 == 0 else 500)
        trace = make.trace(number, session_id=f"s{number // 4}", user_input=text)
        scores = [make.score(trace, name) for name in ("a", "b", "c")]
        store.commit([make.stored(trace)], scores)
    store.put({"question": "answer"})
    store.set_cursor("otlp_grpc", COUNT)
    store.close()
    return file


@pytest.fixture
def file(sound, tmp_path):
    return shutil.copy(sound, tmp_path / "spanscore.db")


@pytest.fixture
def config(file):
    return Config(url=f"sqlite:///{file}")


def rows_of(file):
    """How many rows each table has."""
    with closing(sqlite3.connect(file)) as db:
        names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {x: db.execute(f"SELECT count(*) FROM {x}").fetchone()[0] for (x,) in names}  # noqa: S608 - of this project


def pages_of(file, name):
    """The pages of a table or an index, its root first."""
    with closing(sqlite3.connect(file)) as db:
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (root,) = db.execute(query, (name,)).fetchone()
    content = file.read_bytes()

    def below(number):
        page = content[(number - 1) * PAGE : number * PAGE]
        yield number
        if page[0] in (2, 5):  # inner pages: the children are named by the cells, and at the end
            pointers = struct.unpack_from(f">{int.from_bytes(page[3:5])}H", page, 12)
            for at in (*pointers, 8):
                yield from below(int.from_bytes(page[at : at + 4]))

    return list(below(root))


def overwrite(file, page, content=b"\0" * PAGE, at=0):
    with file.open("r+b") as opened:
        opened.seek((page - 1) * PAGE + at)
        opened.write(content)


def check_numbers(copied, before, file):
    """The numbers are those of the new file, and no loss goes unsaid."""
    assert repair.fault_of(file) is None
    after = rows_of(file)
    for table in copied:
        assert table.saved == after[table.table]
        if table.is_exact:
            assert table.saved + table.lost == before[table.table], table
        else:
            assert table.saved + table.lost <= before[table.table], table


@pytest.mark.parametrize("seed", range(20))
def test_the_numbers_are_true_whatever_is_damaged(file, config, seed):
    chance = random.Random(seed)
    before = rows_of(file)
    of_rows = range(2, file.stat().st_size // PAGE)
    for _ in range(chance.choice((1, 2, 4, 8))):
        page = chance.choice(of_rows)
        length = chance.choice((2, 50, 1000, PAGE))
        content = chance.choice((chance.randbytes(length), bytes(length)))
        overwrite(file, page, content, at=chance.choice((0, PAGE - length)))
    with closing(sqlite3.connect(file)) as db:
        try:
            is_sound = db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        except sqlite3.DatabaseError:
            is_sound = False
    assert (repair.fault_of(file) is None) is is_sound
    if not is_sound:
        copied, _ = repair.store(config)
        check_numbers(copied, before, file)


@pytest.mark.parametrize("name", ["agent_traces", "scores"])
def test_only_the_rows_of_damaged_pages_are_lost(file, config, name):
    before = rows_of(file)
    leaves = pages_of(file, name)[1:]
    for page in (leaves[0], leaves[len(leaves) // 2], leaves[-1]):
        overwrite(file, page)
    copied, _ = repair.store(config)
    check_numbers(copied, before, file)
    [found] = [x for x in copied if x.table == name]
    assert found.is_exact
    assert 0 < found.lost <= 3 * 60
    assert {x.lost for x in copied if x.table != name} == {0}


def test_without_an_index_that_knows_the_rows_those_between_damaged_pages_are_read(file, config):
    before = rows_of(file)
    with closing(sqlite3.connect(file)) as db:
        indexes = db.execute("SELECT name FROM pragma_index_list('agent_traces')").fetchall()
    leaves = pages_of(file, "agent_traces")[1:]
    for page in (leaves[0], leaves[len(leaves) // 2], leaves[-1]):
        overwrite(file, page)
    for (name,) in indexes:
        overwrite(file, pages_of(file, name)[0])
    copied, _ = repair.store(config)
    check_numbers(copied, before, file)
    [found] = [x for x in copied if x.table == "agent_traces"]
    assert not found.is_exact
    assert found.saved >= COUNT - 3 * 6


@pytest.mark.parametrize("name", ["scores_by_subject", "scores_by_uid"])
@pytest.mark.parametrize("content", [bytes(PAGE), b"\0" * 8])
def test_damage_in_an_index_costs_no_row(file, config, name, content):
    before = rows_of(file)
    overwrite(file, pages_of(file, name)[-1], content)
    assert repair.fault_of(file) is not None
    copied, _ = repair.store(config)
    assert all(x.is_exact and not x.lost for x in copied)
    assert rows_of(file) == before


def test_of_a_table_that_is_not_there_nothing_is_known(file, config):
    with closing(sqlite3.connect(file)) as db:
        db.execute("DROP TABLE runs")
    overwrite(file, pages_of(file, "scores")[5])
    copied, _ = repair.store(config)
    assert [x.table for x in copied if not x.is_exact] == ["runs"]


def test_a_header_that_is_damaged_costs_no_row(file, config):
    before = rows_of(file)
    overwrite(file, 1)
    damaged = file.read_bytes()
    copied, aside = repair.store(config)
    assert all(x.is_exact and not x.lost for x in copied)
    assert rows_of(file) == before
    assert aside.read_bytes() == damaged
    Store.open(config).close()


def test_a_page_above_others_costs_none_of_their_rows(file, config):
    before = rows_of(file)
    overwrite(file, pages_of(file, "scores")[0])
    copied, _ = repair.store(config)
    assert all(x.is_exact and not x.lost for x in copied)
    assert rows_of(file) == before


def test_a_store_that_was_vacuumed_is_repaired_too(file, config):
    before = rows_of(file)
    with closing(sqlite3.connect(file)) as db:
        db.execute("VACUUM")
    overwrite(file, pages_of(file, "scores")[5])
    copied, _ = repair.store(config)
    check_numbers(copied, before, file)
    assert {x.lost for x in copied if x.table != "scores"} == {0}


def test_a_repaired_store_goes_on(file, config, make):
    overwrite(file, pages_of(file, "scores")[5])
    repair.store(config)
    store = Store.open(config)
    assert store.cursor("otlp_grpc") == COUNT
    assert store.get(["question"]) == {"question": "answer"}
    assert store.trace(make.trace(7).id).id == make.trace(7).id
    assert store.commit([], [make.score(make.trace(1), "another")]) == [3 * COUNT + 1]
    store.close()


def test_what_only_the_log_has_is_read_too(file, config, tmp_path):
    with closing(sqlite3.connect(file)) as db:
        db.execute("UPDATE judge_answers SET value = 'newer'")
        db.commit()
        (tmp_path / "killed").mkdir()
        for name in ("spanscore.db", "spanscore.db-wal"):
            shutil.copy(tmp_path / name, tmp_path / "killed" / name)
    killed = tmp_path / "killed" / "spanscore.db"
    overwrite(killed, pages_of(file, "scores")[5])
    _, aside = repair.store(Config(url=f"sqlite:///{killed}"))
    store = Store.open(Config(url=f"sqlite:///{killed}"))
    assert store.get(["question"]) == {"question": "newer"}
    store.close()
    assert aside.with_name(f"{aside.name}-wal").exists()


def test_a_store_of_another_version_is_left_as_it_is(file, config):
    with closing(sqlite3.connect(file)) as db:
        db.execute("DROP TABLE names")
        db.execute("PRAGMA user_version = 7")
        db.commit()
    overwrite(file, pages_of(file, "scores")[5])
    before = file.read_bytes()
    with pytest.raises(ConfigError, match="of version 7"):
        repair.store(config)
    assert file.read_bytes() == before


def test_where_the_new_file_cannot_be_written_the_damaged_one_stays(file, config, monkeypatch):
    overwrite(file, pages_of(file, "scores")[5])
    before = file.read_bytes()
    opened = sqlite3.connect

    def small(path, **options):
        db = opened(path, **options)
        if str(path).endswith(".repaired"):
            db.execute("PRAGMA max_page_count = 80")
        return db

    monkeypatch.setattr(sqlite3, "connect", small)
    with pytest.raises(InputError, match=r"full.*make room"):
        repair.store(config)
    assert file.read_bytes() == before
    assert [x.name for x in file.parent.iterdir() if "repaired" in x.name] == []


@pytest.fixture
def journal_file(tmp_path):
    journal = Journal(JournalConfig(path=tmp_path / "journal.db"))
    rows = [
        journal.append("traces", f"request {n} ".encode() * 100, n).result() for n in range(COUNT)
    ]
    journal.delete(rows[:20]).result()
    journal.close_traces([(b"t" * 16, 5, 7)]).result()
    journal.quarantine("logs", b"\xff", "no protobuf", 1).result()
    journal.close()
    return tmp_path / "journal.db"


def of_requests(copied):
    [found] = [x for x in copied if x.table == "requests"]
    return found


def test_a_damaged_journal_says_what_to_do_and_starts_after_the_repair(journal_file):
    before = rows_of(journal_file)
    overwrite(journal_file, pages_of(journal_file, "requests")[3])
    with pytest.raises(ConfigError, match="spanscore repair"):
        Journal(JournalConfig(path=journal_file))
    copied, _ = repair.journal(journal_file)
    check_numbers(copied, before, journal_file)
    found = of_requests(copied)
    journal = Journal(JournalConfig(path=journal_file))
    assert len(list(journal.replay())) == found.saved == COUNT - 20 - found.lost
    assert journal.closed_traces() == {b"t" * 16: (5, 7)}
    assert journal.lost["missing"].count == found.lost > 0
    journal.close()


def test_a_journal_whose_header_is_damaged_lacks_no_request(journal_file):
    overwrite(journal_file, 1)
    copied, _ = repair.journal(journal_file)
    assert of_requests(copied) == Copied("requests", COUNT - 20, 0, is_exact=True)


def test_without_a_ledger_it_is_not_known_how_many_requests_are_lost(journal_file):
    ledger.beside(journal_file).unlink()
    overwrite(journal_file, pages_of(journal_file, "requests")[1])
    copied, _ = repair.journal(journal_file)
    assert not of_requests(copied).is_exact
