"""Answers of a model, recorded: a judge that sends nothing, for demonstrations, and the one that
does the recording.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spanscore import private_files
from spanscore.errors import ConfigError, JudgeUnavailableError
from spanscore.judge import marks
from spanscore.judge.answer import UnusableAnswerError, read, schema_of
from spanscore.judge.port import Answer, AnswerT, Judge, Prompt
from spanscore.model.json import dumps, loads
from spanscore.model.score import JudgeUsage
from spanscore.naming import short_path

_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?: UTC, a [A-Z][a-z]{2,5}day)?"
)
_MAX_FILE_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Recording:
    """A file of recorded answers: the model that gave them, on which day, and each answer by its
    question's key.
    """

    model: str
    recorded: str
    answers: Mapping[str, Any]


def load(path: Path) -> Recording:
    """Read a file that `RecordingJudge` wrote. Raises ConfigError where it cannot be used."""
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise ConfigError(
                f"{path}: larger than {_MAX_FILE_BYTES} bytes; this is no file of recorded answers"
            )
        header, *lines = (loads(line) for line in path.read_bytes().splitlines() if line.strip())
        answers = {line["question"]: line["answer"] for line in lines}
        return Recording(header["model"], header["recorded"], answers)
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
    texts = (prompt.instructions, prompt.transcript, prompt.question)
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
        """See `Judge.ask`. `models` changes nothing: all answers are of the recorded model."""
        del models
        answer = self._recording.answers.get(question_key(prompt, schema_of(schema)))
        if answer is None:
            raise JudgeUnavailableError(
                f"{short_path(self._path)} has no answer to this question: the trace or the"
                " question differs from the recorded one; name a model that can be asked, or"
                " record again"
            )
        try:
            value = read(dumps(answer), schema)
        except UnusableAnswerError as error:
            raise JudgeUnavailableError(
                f"{short_path(self._path)}: a recorded answer cannot be used: {error}"
            ) from None
        return Answer(value, self._recording.model, JudgeUsage(cached=1))


class RecordingJudge:
    """A `Judge` that passes each question on to another one, and keeps the answers for `write`."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._answers: dict[str, Any] = {}

    async def ask(
        self, prompt: Prompt, schema: type[AnswerT], *, models: Sequence[str] = ()
    ) -> Answer[AnswerT]:
        """See `Judge.ask`."""
        answer = await self._judge.ask(prompt, schema, models=models)
        self._answers[question_key(prompt, schema_of(schema))] = answer.value.model_dump(
            mode="json", by_alias=True
        )
        return answer

    def write(self, path: Path, *, model: str, recorded: str) -> int:
        """Write all answers to `path`, ordered by key; `recorded` is the day.

        Returns how many there are.

        Raises InputError or OutputError where it cannot be written.
        """
        lines = [{"model": model, "recorded": recorded}]
        lines += [{"question": key, "answer": self._answers[key]} for key in sorted(self._answers)]
        private_files.write(path, "".join(f"{dumps(line)}\n" for line in lines).encode())
        return len(self._answers)
