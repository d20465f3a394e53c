"""Judge answers kept in memory, files and recordings."""

import asyncio
import hashlib
import logging
import os
import re
import sqlite3
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from spanscore import local_files
from spanscore.errors import ConfigError, JudgeUnavailableError, short_path
from spanscore.judge import marks
from spanscore.judge.answer import UnusableAnswerError, read, schema_of
from spanscore.judge.port import Answer, AnswerT, Judge, Prompt
from spanscore.model.json import dumps, loads
from spanscore.model.score import JudgeUsage

T = TypeVar("T")


class Cache(Protocol):
    """Texts by key.

    Called in threads; must not raise: what cannot be read is not there, what cannot be kept is not.
    """

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """The texts that are kept under any of `keys`, by key."""
        ...

    def put(self, answers: Mapping[str, str]) -> None:
        """Keep each text under its key."""
        ...


class MemoryCache:
    """The most recently used answers, in this process, at most `max_entries`."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, str] = OrderedDict()

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """The texts that are kept under any of `keys`, by key."""
        with self._lock:
            found = {key: self._entries[key] for key in keys if key in self._entries}
            for key in found:
                self._entries.move_to_end(key)
        return found

    def put(self, answers: Mapping[str, str]) -> None:
        """Keep each text, in place of the least recently used ones when full."""
        with self._lock:
            for key, text in answers.items():
                self._entries[key] = text
                self._entries.move_to_end(key)
            while len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)


def content_key(
    model: str, prompt: Prompt, schema: Mapping[str, Any], parameters: Mapping[str, Any]
) -> str:
    """SHA-256, in hex, of everything that an answer depends on."""
    texts = prompt.instructions, prompt.transcript, prompt.question
    fields: list[Any] = [model, *texts, schema, sorted(parameters.items())]
    fields += [prompt.sample] if prompt.sample else []
    fields += [{"tenant": prompt.tenant}] if prompt.tenant else []
    fields += [{"pictures": prompt.pictures}] if prompt.pictures else []
    return hashlib.sha256(dumps(fields).encode()).hexdigest()


class SingleFlight(Generic[T]):
    """Runs one piece of work for a key at a time; whoever asks for it meanwhile gets the same
    result.

    Belongs to one event loop.
    """

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Future[T]] = {}

    async def run(self, key: str, work: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """The result of `work`, and whether another caller did it.

        Raises what `work` raised, for each of them.

        When the caller that does the work is cancelled, one of those that wait takes over.
        """
        while (running := self._running.get(key)) is not None:
            await asyncio.wait([running])
            if not running.cancelled():
                return running.result(), True
        future = self._running[key] = asyncio.get_running_loop().create_future()
        try:
            result = await work()
        except Exception as error:
            future.set_exception(error)
            future.exception()  # marks it as seen: nobody may be waiting
            raise
        else:
            future.set_result(result)
            return result, False
        finally:
            future.cancel()  # does nothing unless this caller was cancelled
            del self._running[key]


_LOGGER = logging.getLogger(__name__)
_DAY_NS = 86400 * 10**9
_BUSY_TIMEOUT_S = 10.0
_KEPT_SHARE = 0.9
"""What remains of the bound when it was reached: making room is not done anew for each answer."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, value TEXT NOT NULL, used_ns INTEGER NOT \
NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS answers_by_use ON answers (used_ns);
"""


def default_path(
    environ: Mapping[str, str] = os.environ, platform: str = sys.platform
) -> Path | None:
    """The file in the user's cache folder: XDG_CACHE_HOME, else where the platform has it; None
    where there is none.
    """
    named = environ.get("XDG_CACHE_HOME", "")
    if Path(named).is_absolute():
        return Path(named) / "spanscore" / "answers.db"
    local = environ.get("LOCALAPPDATA")
    if platform == "win32" and local:
        return Path(local) / "spanscore" / "Cache" / "answers.db"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    folder = home / "Library" / "Caches" if platform == "darwin" else home / ".cache"
    return folder / "spanscore" / "answers.db"


class FileCache:
    """Answers in an SQLite file that only its owner can read; past `max_bytes` of them the least
    used go.

    Several processes may use it at once. Nothing is raised: a file that cannot be used is named
    once in the log, and answers are then not kept. It is opened, and made, when the first answer is
    looked for.
    """

    def __init__(
        self, path: Path, max_bytes: int, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._size_bytes = 0
        self._is_usable = True

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """The texts that are kept under any of `keys`, by key."""
        return self._tried(lambda connection: self._read(connection, keys)) or {}

    def put(self, answers: Mapping[str, str]) -> None:
        """Keep each text under its key, all of them or, where the file cannot be used, none."""
        self._tried(lambda connection: self._write(connection, answers))

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _tried(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """What `work` gives; None where the file cannot be used."""
        with self._lock:
            if not self._is_usable:
                return None
            try:
                self._connection = self._connection or self._opened()
                with self._connection:
                    return work(self._connection)
            except sqlite3.OperationalError as error:
                if "locked" in str(error) or "busy" in str(error):
                    # another process writes for longer than we wait: this one answer is not kept
                    return None
                self._give_up(error)
            except (OSError, sqlite3.Error) as error:
                self._give_up(error)
        return None

    def _give_up(self, error: Exception) -> None:
        self._is_usable = False
        _LOGGER.warning(
            "judge's answers are not kept between runs: %s cannot be used (%s); delete it, name"
            " another by judge.cache.path, or set judge.cache.between_runs to false",
            self._path,
            error,
        )

    def _opened(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        local_files.make(self._path)
        connection = sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(_SCHEMA)
        self._size_bytes = _size_of(connection)
        return connection

    def _read(self, connection: sqlite3.Connection, keys: Sequence[str]) -> dict[str, str]:
        now_ns = self._clock_ns()
        found: dict[str, str] = {}
        select = "SELECT value, used_ns FROM answers WHERE key = ?"
        for key in keys:
            for value, used_ns in connection.execute(select, (key,)).fetchall():
                found[key] = str(value)
                if now_ns - used_ns > _DAY_NS:  # once a day is enough to know what is in use
                    update = "UPDATE answers SET used_ns = ? WHERE key = ?"
                    connection.execute(update, (now_ns, key))
        return found

    def _write(self, connection: sqlite3.Connection, answers: Mapping[str, str]) -> None:
        now_ns = self._clock_ns()
        rows = [(key, value, now_ns) for key, value in answers.items()]
        connection.executemany(
            "INSERT OR REPLACE INTO answers (key, value, used_ns) VALUES (?, ?, ?)", rows
        )
        self._size_bytes += sum(_bytes(key) + _bytes(value) for key, value in answers.items())
        if self._size_bytes > self._max_bytes:
            self._make_room(connection)

    def _make_room(self, connection: sqlite3.Connection) -> None:
        """Delete the answers that were not used for longest."""
        most = int(_KEPT_SHARE * self._max_bytes)
        connection.execute(_DELETE_UNUSED, (most,))
        self._size_bytes = _size_of(connection)


_SIZE = "length(CAST(key AS BLOB)) + length(CAST(value AS BLOB))"
_DELETE_UNUSED = f"""
DELETE FROM answers WHERE key IN (SELECT key FROM (SELECT key, sum({_SIZE}) OVER \
(ORDER BY used_ns DESC, key) AS kept FROM answers) WHERE kept > ?)
"""  # noqa: S608 - no input is part of it


def _size_of(connection: sqlite3.Connection) -> int:
    counted = f"SELECT coalesce(sum({_SIZE}), 0) FROM answers"  # noqa: S608 - likewise
    return int(connection.execute(counted).fetchone()[0])


def _bytes(text: str) -> int:
    return len(text.encode())


_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?: UTC, a [A-Z][a-z]{2,5}day)?"
)
_MAX_FILE_BYTES = 64 * 2**20


class RecordedAnswer(NamedTuple):
    """An answer as JSON, and the model that gave it."""

    model: str
    answer: Any


@dataclass(frozen=True, slots=True)
class Recording:
    """A file of recorded answers: the day of the last one, and each answer by its question's
    key.
    """

    recorded: str
    answers: Mapping[str, RecordedAnswer]

    @property
    def model(self) -> str:
        """The names of the models that gave the answers."""
        return ", ".join(sorted({x.model for x in self.answers.values()}))

    def write(self, path: Path) -> None:
        """Write all answers to `path`, ordered by key.

        Raises InputError or OutputError where it cannot be written.
        """
        lines: list[dict[str, Any]] = [{"recorded": self.recorded}]
        lines += [{"question": key, **x._asdict()} for key, x in sorted(self.answers.items())]
        local_files.write(path, "".join(f"{dumps(line)}\n" for line in lines).encode())


def load(path: Path) -> Recording:
    """Read a file that `Recording.write` wrote. Raises ConfigError where it cannot be used."""
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise ConfigError(
                f"{path}: larger than {_MAX_FILE_BYTES} bytes; this is no file of recorded answers"
            )
        header, *lines = (loads(line) for line in path.read_bytes().splitlines() if line.strip())
        found = ({**header, **line} for line in lines)  # the head's model gave what names no other
        answers = {x["question"]: RecordedAnswer(x["model"], x["answer"]) for x in found}
        return Recording(header["recorded"], answers)
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror or error}; name a file of recorded answers"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path}: no file of recorded answers ({type(error).__name__}: {error})"
        ) from None


def question_key(prompt: Prompt, schema: Mapping[str, Any]) -> str:
    """SHA-256, in hex, of what is asked, but for when it happened.

    A recording that is replayed moves to the present, and with the times change the words that mark
    the transcript's edges, which derive from its content. Both are left out of the key; everything
    else counts.
    """
    texts = (prompt.instructions, prompt.transcript, prompt.question, *prompt.pictures)
    compared = [marks.WORD.sub("", _TIME.sub("", text)) for text in texts]
    return hashlib.sha256(dumps([*compared, schema]).encode()).hexdigest()


class RecordedJudge:
    """A `Judge` that gives the answers in a file, and sends nothing."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError where the file cannot be used."""
        self._path = path
        self._recording = load(path)

    async def ask(
        self, prompt: Prompt, schema: type[AnswerT], *, models: Sequence[str] = ()
    ) -> Answer[AnswerT]:
        """See `Judge.ask`. `models` changes nothing: a question has one recorded answer."""
        del models
        recorded = self._recording.answers.get(question_key(prompt, schema_of(schema)))
        if recorded is None:
            raise JudgeUnavailableError(
                f"{short_path(self._path)} has no answer to this question: the trace or the"
                " question differs from the recorded one; name a model that can be asked, or"
                " record again"
            )
        try:
            value = read(dumps(recorded.answer), schema)
        except UnusableAnswerError as error:
            raise JudgeUnavailableError(
                f"{short_path(self._path)}: a recorded answer cannot be used: {error}"
            ) from None
        return Answer(value, recorded.model, JudgeUsage(cached=1))


class RecordingJudge:
    """A `Judge` that passes each question on to another one, and keeps the answers with the names
    of the models that gave them.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._answers: dict[str, RecordedAnswer] = {}

    async def ask(
        self, prompt: Prompt, schema: type[AnswerT], *, models: Sequence[str] = ()
    ) -> Answer[AnswerT]:
        """See `Judge.ask`."""
        answer = await self._judge.ask(prompt, schema, models=models)
        self._answers[question_key(prompt, schema_of(schema))] = RecordedAnswer(
            answer.model, answer.value.model_dump(mode="json", by_alias=True)
        )
        return answer

    def recording(self, day: str) -> Recording:
        """All answers so far, as recorded on `day`."""
        return Recording(day, dict(self._answers))
