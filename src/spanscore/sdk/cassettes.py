"""Judge answers and embeddings recorded beside tests."""

import asyncio
import base64
import difflib
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from spanscore import local_files
from spanscore.embed.port import Embedder
from spanscore.errors import EmbeddingError, InputError, JudgeUnavailableError, short_path
from spanscore.judge import Answer, Judge, Prompt, marks, redaction
from spanscore.judge.answer import UnusableAnswerError, kept_text, read, schema_of
from spanscore.judge.port import AnswerT
from spanscore.judge.redaction import Rule
from spanscore.model.json import Json, dumps, loads
from spanscore.model.score import JudgeUsage

SCHEMA = "spanscore.cassette/1"

Mode: TypeAlias = Literal["replay", "none", "once", "new", "all"]
"""Who answers. `replay`: the file, else the judge, and nothing is written. `none`: the file alone.
`once`: the file alone where there is one, else the judge, whose answers are written. `new`: the
file, else the judge, whose answers are added. `all`: the judge; its answers take the place of the
file.
"""

_HOW = "record it with --spanscore-record=new, or all of them again with --spanscore-record=all"
_MAX_FILE_BYTES = 64 * 2**20
_SHOWN_DIFFERENCES = 6
_SHOWN_CHARS = 160

_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d| UTC)?(?:, a"
    r" [A-Z][a-z]{2,5}day)?"
)
_LENGTH = r"\d+(?:\.\d)? (?:s|min \d+ s|h \d+ min)"
_STEP_TIME = re.compile(rf" \([+-]{_LENGTH}(?:, took {_LENGTH})?\)|; it took {_LENGTH}")
_IDENTIFIER = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32}|0x[0-9a-f]{6,16})(?![0-9A-Za-z])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A question as it is compared with others, and what a model answered to it."""

    texts: tuple[str, ...]
    model: str
    answer: Json


@dataclass(frozen=True, slots=True)
class Vector:
    """A text's embedding: the name of what embedded it, how the text begins, and the components as
    base64.
    """

    embedding: str
    text: str
    values: str


_VECTOR = ("embedding", "text", "values")


@dataclass(slots=True)
class Cassette:
    """Recorded answers by their question's key, vectors by their text's, and the file that they are
    from and go to.
    """

    path: Path
    entries: dict[str, Entry] = field(default_factory=dict)
    vectors: dict[str, Vector] = field(default_factory=dict)
    was_there: bool = False
    changed: bool = False
    replayed: int = 0
    recorded: int = 0

    @classmethod
    def load(cls, path: Path, mode: Mode = "replay") -> "Cassette":
        """Read the file; one that is not there has no answers.

        Raises InputError where it cannot be used.

        With the mode `all` it has none either: the file stays until there is an answer to take its
        place.
        """
        if mode == "all":
            return cls(path)
        name = short_path(path)
        try:
            if path.stat().st_size > _MAX_FILE_BYTES:
                raise InputError(
                    f"{name}: larger than {_MAX_FILE_BYTES >> 20} MiB; it is no file of recorded"
                    " answers"
                )
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["schema"] != SCHEMA:
                raise InputError(
                    f"{name}: its schema is {data['schema']!r}, and {SCHEMA} is what can be read"
                )
            answers, embedded = data["answers"], data.get("embeddings", [])
            entries = {x["key"]: Entry(tuple(x["asked"]), x["model"], x["answer"]) for x in answers}
            vectors = {x["key"]: Vector(*(str(x[y]) for y in _VECTOR)) for x in embedded}
        except FileNotFoundError:
            return cls(path)
        except OSError as error:
            raise InputError(
                f"{name}: {error.strerror or error}; it is to hold recorded answers"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            what = f"{type(error).__name__}: {error}"
            raise InputError(
                f"{name}: no file of recorded answers ({what}); delete it, and record again"
            ) from None
        return cls(path, entries, vectors, was_there=True)

    def save(self) -> None:
        """Write the file, if there is anything new: whole, and readable by its owner alone.

        Raises InputError where it cannot be written, OutputError where it does not fit.
        """
        if not self.changed:
            return
        answers = [
            {"key": k, "model": x.model, "asked": list(x.texts), "answer": x.answer}
            for k, x in sorted(self.entries.items(), key=lambda x: (x[1].texts, x[0]))
        ]
        data: dict[str, Any] = {"schema": SCHEMA, "answers": answers}
        if self.vectors:
            by_text = sorted(self.vectors.items(), key=lambda x: (x[1].text, x[0]))
            data["embeddings"] = [{"key": k, **asdict(x)} for k, x in by_text]
        text = json.dumps(data, indent=1, ensure_ascii=False)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise local_files.cannot_write(short_path(self.path), error) from None
        local_files.write(self.path, f"{text}\n".encode("utf-8", "replace"))
        self.changed = False

    def record(self, key: str, made: Entry | Vector) -> None:
        """Keep an answer, or an embedding."""
        if isinstance(made, Vector):
            self.vectors[key] = made
        else:
            self.entries[key] = made
        self.changed = True
        self.recorded += 1


@dataclass(frozen=True, eq=False)
class CassetteJudge:
    """A `Judge` that gives the recorded answers, and passes on to another one what its mode lets
    it.

    `judge` is called when a question is to be passed on; None: there is nobody to ask. `rules` are
    for what is written of questions and answers.
    """

    cassette: Cassette
    mode: Mode
    judge: Callable[[], Judge | None]
    rules: Sequence[Rule] = ()

    async def ask(
        self, prompt: Prompt, schema: type[AnswerT], *, models: Sequence[str] = ()
    ) -> Answer[AnswerT]:
        """See `Judge.ask`."""
        texts = as_compared(await asyncio.to_thread(redaction.redacted, prompt, self.rules))
        key = question_key(texts, schema_of(schema), prompt, models)
        entry = self.cassette.entries.get(key)
        if entry is not None:
            return self._replayed(entry, schema)
        judge = self.judge() if may_ask(self.mode, self.cassette) else None
        if judge is None:
            raise JudgeUnavailableError(self._missing(texts))
        answer = await judge.ask(prompt, schema, models=models)
        if self.mode == "replay":
            return answer
        entry = Entry(texts, answer.model, _redacted(_parsed(answer.value), self.rules))
        # the caller gets what is written: a later question may quote it, and must be the same in a
        # replay
        try:
            value = _value(entry, schema)
        except UnusableAnswerError:  # redaction has taken from it what the schema wants
            return answer
        self.cassette.record(key, entry)
        return Answer(value, answer.model, answer.usage)

    def _replayed(self, entry: Entry, schema: type[AnswerT]) -> Answer[AnswerT]:
        try:
            value = _value(entry, schema)
        except UnusableAnswerError as error:
            raise JudgeUnavailableError(
                f"{short_path(self.cassette.path)}: a recorded answer cannot be used ({error});"
                " record it again"
            ) from None
        self.cassette.replayed += 1
        return Answer(value, entry.model, JudgeUsage(cached=1))

    def _missing(self, texts: Sequence[str]) -> str:
        """Why there is no answer, and what is to be done about it."""
        path, entries = short_path(self.cassette.path), self.cassette.entries.values()
        how = "name a judge to ask (--spanscore-judge MODEL or SPANSCORE_JUDGE_MODEL)"
        if not may_ask(self.mode, self.cassette):
            how = _HOW
        if not entries:
            return f"no answer of a judge is recorded in {path}; {how}"
        differences = min((_differences(x.texts, texts) for x in entries), key=len)
        shown = "\n".join(x[:_SHOWN_CHARS] for x in differences[:_SHOWN_DIFFERENCES])
        return (
            f"{path} has no answer to this question; {how}. From the nearest that it has, it"
            f" differs in:\n{shown}"
        )


def may_ask(mode: Mode, cassette: Cassette) -> bool:
    """Whether what is not recorded may be asked."""
    return mode in {"replay", "new", "all"} or (mode == "once" and not cassette.was_there)


def as_compared(prompt: Prompt) -> tuple[str, ...]:
    """A question's lines without what differs from run to run though nothing has changed.

    Left out are times, and the words of the transcript's marks, which derive from it. Identifiers
    that are made at random are numbered in the order in which they first appear, so that it still
    shows which of them are the same.
    """
    text = "\n\n".join([prompt.question, prompt.transcript, *prompt.pictures])
    return tuple(compared_text(marks.WORD.sub("", _STEP_TIME.sub("", text))).split("\n"))


def compared_text(text: str) -> str:
    """A text without times, and with its identifiers numbered, as questions are compared."""
    known: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        return known.setdefault(found[0].lower(), f"id-{len(known) + 1}")

    return _IDENTIFIER.sub(numbered, _TIME.sub("", text))


def question_key(
    texts: Sequence[str], schema: Mapping[str, Any], prompt: Prompt, models: Sequence[str]
) -> str:
    """SHA-256, in hex, of everything that an answer depends on; `texts` is the question as it is
    compared.
    """
    instructions = marks.WORD.sub("", prompt.instructions)
    facts = [list(texts), instructions, schema, prompt.sample, list(models)]
    return hashlib.sha256(dumps(facts).encode("utf-8", "replace")).hexdigest()


def _differences(recorded: Sequence[str], texts: Sequence[str]) -> list[str]:
    """The lines that only one of two questions has, `-` before those of the recorded one."""
    lines = difflib.unified_diff(recorded, texts, n=0, lineterm="")
    return [x for x in lines if not x.startswith(("---", "+++", "@@"))]


def _value(entry: Entry, schema: type[AnswerT]) -> AnswerT:
    """A recorded answer. Raises UnusableAnswerError where it does not fit the schema."""
    return read(entry.answer if isinstance(entry.answer, str) else dumps(entry.answer), schema)


def _parsed(answer: BaseModel) -> Json:
    """An answer as JSON; as text where the model's words, which are kept of some, are none."""
    text = kept_text(answer)
    try:
        value: Json = loads(text)
    except ValueError:
        return text
    return value


def _redacted(value: Json, rules: Sequence[Rule]) -> Json:
    if isinstance(value, str):
        return redaction.redact(value, rules).text
    if isinstance(value, Mapping):
        return {key: _redacted(x, rules) for key, x in value.items()}
    return [_redacted(x, rules) for x in value] if isinstance(value, list) else value


_STEPS = 32767
"""Into how many steps a component is rounded between 0 and 1: a cosine of such vectors is the exact
one to 0.0001.
"""
_LITTLE_ENDIAN = np.dtype("<i2")


@dataclass(frozen=True, eq=False)
class CassetteEmbedder:
    """An `Embedder` that gives the recorded vectors, and passes on to another one what its mode
    lets it.

    What it gives is rounded as what is written, so that a score is the same when it is recorded and
    replayed. `name` is that of the embedding which is recorded, or is asked. `embedder` is called
    when a text is to be passed on. `rules` are for what is written of texts.
    """

    cassette: Cassette
    mode: Mode
    name: str
    embedder: Callable[[], Embedder | None]
    rules: Sequence[Rule] = ()

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `Embedder.embed`."""
        known = {text: self._known(text) for text in dict.fromkeys(texts)}
        missing = [text for text, found in known.items() if found is None]
        if missing:
            made = rounded(await self._vectors_of(missing))
            for text, vector in zip(missing, made, strict=True):
                known[text] = vector
                if self.mode != "replay":
                    self._record(text, vector)
        return np.stack([unit(x) for x in known.values() if x is not None])[_places(texts)]

    async def _vectors_of(self, texts: Sequence[str]) -> NDArray[np.float32]:
        embedder = self.embedder() if may_ask(self.mode, self.cassette) else None
        if embedder is None:
            where, text = short_path(self.cassette.path), texts[0][:_SHOWN_CHARS]
            raise EmbeddingError(f"{where} has no embedding by {self.name} of {text!r}; {_HOW}")
        return await embedder.embed(texts)

    def _known(self, text: str) -> NDArray[np.int16] | None:
        found = self.cassette.vectors.get(self._key(text))
        if found is None:
            return None
        self.cassette.replayed += 1
        try:
            return np.frombuffer(base64.b64decode(found.values, validate=True), _LITTLE_ENDIAN)
        except ValueError:
            raise EmbeddingError(
                f"{short_path(self.cassette.path)}: a recorded embedding cannot be used; record it"
                " again"
            ) from None

    def _record(self, text: str, vector: NDArray[np.int16]) -> None:
        shown = " ".join(self._compared(text).split())[:_SHOWN_CHARS]
        values = base64.b64encode(vector.astype(_LITTLE_ENDIAN).tobytes()).decode()
        self.cassette.record(self._key(text), Vector(self.name, shown, values))

    def _key(self, text: str) -> str:
        """SHA-256, in hex, of the embedding's name and the text, as texts are compared."""
        seed = f"{self.name}\n{self._compared(text)}"
        return hashlib.sha256(seed.encode("utf-8", "replace")).hexdigest()

    def _compared(self, text: str) -> str:
        return compared_text(redaction.redact(text, self.rules).text)


def rounded(vectors: NDArray[np.float32]) -> NDArray[np.int16]:
    """Vectors of length 1 as they are written.

    >>> rounded(np.array([[1.0, 0.0]], dtype=np.float32))
    array([[32767,     0]], dtype=int16)
    """
    return np.rint(np.clip(vectors, -1, 1) * _STEPS).astype(np.int16)


def unit(vector: NDArray[np.int16]) -> NDArray[np.float32]:
    """A written vector, of length 1 again; zeros stay zeros."""
    found = vector.astype(np.float32)
    length = np.linalg.norm(found)
    return found / (length or np.float32(1))


def _places(texts: Sequence[str]) -> list[int]:
    """For each text its place among the different ones."""
    places: dict[str, int] = {}
    return [places.setdefault(text, len(places)) for text in texts]
