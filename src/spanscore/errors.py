"""Every error that spanscore raises on purpose.

::

    SpanscoreError
    ├── InputError            a file, argument or request is wrong (CLI exit code 2)
    │   ├── ConfigError       the same, for the configuration file
    │   ├── FieldError        the same, for one field of a request
    │   ├── NotFoundError     nothing is stored under a name
    │   ├── ExistsError       something else is stored under a name already
    │   ├── StateError        what is stored is in a state that does not allow it
    │   └── ConflictError     what is stored was changed since it was read
    ├── OutputError           what is to be written does not fit (CLI exit code 74)
    ├── RetryableError        may pass: an OTLP client gets UNAVAILABLE / 503, with a delay
    ├── PermanentError        will not pass: an OTLP client gets INVALID_ARGUMENT / 400
    ├── JudgeError            the judge gave no usable answer: the outcome is a Failure
    │   ├── JudgeTimeoutError       no answer in time, on every model of the list
    │   ├── JudgeUnavailableError   refused or unreachable after all retries
    │   ├── JudgeAnswerError        answered, but not in the schema, even after one repair
    │   ├── JudgeRefusedError       a model, or its provider's content filter, declined to answer
    │   ├── JudgeTooLongError       the prompt exceeds the model's context window: ask less at once
    │   └── BudgetExhaustedError    the budget is spent: the one JudgeError that becomes a Skip
    └── EmbeddingError        an embedding model gave no vector: the outcome is a Failure
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType


class SpanscoreError(Exception):
    """Root of the tree; catching it catches everything that spanscore raises on purpose."""


class InputError(SpanscoreError):
    """Something the user gave is wrong; the message says what, where and what to do, in one
    line.
    """


class ConfigError(InputError):
    """The configuration cannot be used; the message names the key."""


class FieldError(InputError):
    """A field of a request is wrong: `field` is its path, such as `target.filter`; `problem` what
    is wrong with it.

    "" is the request itself. `others` are further fields of the same request that are wrong too.
    """

    def __init__(self, field: str, problem: str, others: Sequence["FieldError"] = ()) -> None:
        more = (
            f" (and {len(others)} more {'fields are' if len(others) > 1 else 'field is'} wrong)"
            if others
            else ""
        )
        super().__init__(f"{field}: {problem}{more}" if field else f"{problem}{more}")
        self.field = field
        self.problem = problem
        self.others = tuple(others)

    def within(self, parent: str, names: Mapping[str, str] = MappingProxyType({})) -> "FieldError":
        """The same of a message in which these fields are those of its field `parent`, some under
        other `names`.
        """
        path = names.get(self.field, self.field)
        others = [x.within(parent, names) for x in self.others]
        return FieldError(f"{parent}.{path}" if path else parent, self.problem, others)


class NotFoundError(InputError):
    """Nothing is stored under a name, or nothing that who asks may see."""


class ExistsError(InputError):
    """Something else is stored under a name already."""


class StateError(InputError):
    """What is stored is in a state that does not allow what is asked, such as pausing a run that
    has ended.
    """


class ConflictError(InputError):
    """What is stored was changed since it was read: read it again, and change that."""


class OutputError(SpanscoreError):
    """What was to be printed or written does not fit there: a full disk, a quota, a device that
    fails.
    """


class RetryableError(SpanscoreError):
    """A condition that may pass.

    `retry_after_s` is how long the sender should wait before it tries again, in seconds; `why` one
    of few words, for counting.
    """

    def __init__(
        self, message: str, *, retry_after_s: float = 1.0, why: str = "unavailable"
    ) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.why = why


class PermanentError(SpanscoreError):
    """A condition that no retry mends."""


class JudgeError(SpanscoreError):
    """The judge gave no usable answer.

    `usage` is what asking cost all the same: a `spanscore.model.score.JudgeUsage`, or None where
    nothing was sent. `status` is the HTTP status that the provider refused with, 401 also where
    there is no key to call it with.
    """

    def __init__(self, message: str, *, usage: object = None, status: int | None = None) -> None:
        super().__init__(message)
        self.usage = usage
        self.status = status


class JudgeTimeoutError(JudgeError):
    """No answer within the time-out, on any model of the list."""


class JudgeUnavailableError(JudgeError):
    """Every model of the list refused or could not be reached, after all retries."""


class JudgeAnswerError(JudgeError):
    """The answer did not fit the schema, not even after one repair.

    `answer` is the model's second answer, and `model` the one that gave it; "" where that is not
    known. `cut_off`: the answer reached the limit on output tokens, so that a shorter one would do.
    """

    def __init__(
        self,
        message: str,
        *,
        usage: object = None,
        answer: str = "",
        model: str = "",
        cut_off: bool = False,
    ) -> None:
        super().__init__(message, usage=usage)
        self.answer = answer
        self.model = model
        self.cut_off = cut_off


class JudgeRefusedError(JudgeError):
    """Every model that could be reached declined, or its provider's content filter did; the message
    has the reason.
    """


class JudgeTooLongError(JudgeError):
    """The prompt exceeds the context window of the models that were asked; a shorter one may be
    answered.
    """


class BudgetExhaustedError(JudgeError):
    """The judge was not asked, since the configured budget is spent."""


class EmbeddingError(SpanscoreError):
    """No vector could be had for a text."""


def nearest(name: str, known: Iterable[str]) -> str:
    """What to say after a name that there is not: the one it is near to, else all that there are.

    >>> nearest("coherance", ["coherence", "confidence"])
    "did you mean 'coherence'?"
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"


def shortened(text: str, max_chars: int) -> str:
    """The text; of one with more than `max_chars` so many, and `…` after them.

    >>> shortened("What is the weather?", 7)
    'What is…'
    """
    return text if len(text) <= max_chars else f"{text[:max_chars]}…"


def line_of(text: str, max_chars: int) -> str:
    """The text on one line, of at most `max_chars`: one that is longer ends in `…`.

    >>> line_of("What is  the  weather?", 13)
    'What is the…'
    """
    line = " ".join(text.split())
    return line if len(line) <= max_chars else f"{line[: max_chars - 1].rstrip()}…"


def short_path(path: Path) -> str:
    """The path from the working folder on, where it lies in it; else the path as it is.

    >>> short_path(Path.cwd() / "tests" / "cassettes" / "test_refund.json")
    'tests/cassettes/test_refund.json'
    """
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):  # elsewhere, or the working folder is gone
        return str(path)
