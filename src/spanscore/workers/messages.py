"""Messages between the server and its workers."""

import pickle
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from spanscore.content import ContentNote
from spanscore.dialects import SpanNames
from spanscore.embed.config import Config as Embedding
from spanscore.evaluation import Config as Evaluation
from spanscore.evaluation.engine import SessionScores
from spanscore.judge.config import Config as Judge
from spanscore.store.config import Config as Store
from spanscore.telemetry import Config as Telemetry
from spanscore.telemetry.logs import stack
from spanscore.turn_scheduling import ReadJob, ReadResult

LENGTH: Final = struct.Struct("<Q")
"""What stands before each message: its bytes."""


@dataclass(frozen=True, slots=True)
class EvaluationSetup:
    """What a worker process needs of the configuration to evaluate sessions and traces."""

    evaluation: Evaluation
    judge: Judge
    embedding: Embedding
    store: Store
    """Where sessions are read."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The first message to a worker process: what it needs of the configuration."""

    journal: Path
    telemetry: Telemetry
    stitch_off: frozenset[str]
    session_scope: tuple[str, ...]
    attributes: frozenset[str]
    evaluation: EvaluationSetup | None = None
    """What evaluates sessions and traces; None where the server does that itself."""
    span_names: SpanNames = field(default_factory=SpanNames)


@dataclass(frozen=True, slots=True)
class Ready:
    """The first message from a worker process: it takes jobs now."""


@dataclass(frozen=True, slots=True)
class Task:
    """A job to be read; `is_referred_to`: another trace refers to its trace."""

    job: ReadJob
    is_referred_to: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """Tasks that one worker process does one after the other, and the checksums of the requests
    they need, by row.
    """

    tasks: Sequence[Task]
    checksums: Mapping[int, int | None]


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """Sessions to be evaluated as they are stored, by their keys; `tenant` None: all tenants'."""

    keys: Sequence[str]
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Alone:
    """What is to be done in a process of its own, which may end that one, within so many
    seconds.
    """

    message: Batch | SessionKeys
    limit_s: float


@dataclass(frozen=True, slots=True)
class Died:
    """What was to be done alone ended its process; `how` is the end of a sentence."""

    how: str

    @classmethod
    def with_code(cls, code: int) -> Self:
        """What ended a process with this return code, as `subprocess` has it."""
        return cls(f"was killed by signal {-code}" if code < 0 else f"ended with {code}")


@dataclass(frozen=True, slots=True)
class NotForked:
    """The system gave no process for what was to be done alone, which was not begun; `reason` is
    the system's.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A task could not be done: the class of the error, and where it was raised.

    `traceback` is as log lines contain it: the frames, without texts that may quote a trace.
    `is_for_server`: the server can do it, since it is no fault of what the task is about. The
    journal could not be read, or what was found could not be sent.
    """

    error: str
    traceback: str
    is_for_server: bool = False

    @classmethod
    def by(cls, error: BaseException) -> Self:
        """What failed by an error."""
        return cls(type(error).__name__, stack(error))


@dataclass(frozen=True, slots=True)
class Answers:
    """What became of the tasks of a batch, in their order; and of each, what was noted of the
    content of its traces.
    """

    read: Sequence[ReadResult | Failed]
    notes: Sequence[Sequence[ContentNote]]


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of stored sessions; `decisions` are the labels of each that `evaluation.rules`
    made. `rest` are the keys of the sessions that are to be asked for once more.
    """

    scores: Sequence[SessionScores]
    decisions: Sequence[Mapping[str, str]]
    rest: Sequence[str] = ()


def encode(message: Any) -> bytes:
    """A message with its length."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(body)) + body


def encode_answer(answer: Answers | Scored | Failed) -> bytes:
    """An answer with its length; what of it cannot be sent, such as values nested too deeply for
    pickle, has failed.
    """
    try:
        return encode(answer)
    except Exception as error:  # noqa: BLE001 - of values that anybody may have sent
        if isinstance(answer, Answers):
            return encode(Answers([_sendable(x) for x in answer.read], answer.notes))
        return encode(_unsent(error))


def _sendable(read: ReadResult | Failed) -> ReadResult | Failed:
    try:
        encode(read)
    except Exception as error:  # noqa: BLE001 - as above
        return _unsent(error)
    return read


def _unsent(error: Exception) -> Failed:
    return Failed(type(error).__name__, "", is_for_server=True)


def decode(body: bytes) -> Any:
    """The message of which `body` is all but the length; only of a process that this one started,
    or was started by.
    """
    return pickle.loads(body)  # noqa: S301 - a socket pair: nobody else can write into it
