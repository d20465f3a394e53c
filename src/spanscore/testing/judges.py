"""Judges for tests: scripted, failing, hanging."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from spanscore.errors import InputError, JudgeUnavailableError
from spanscore.judge.answer import UnusableAnswerError, read, schema_of
from spanscore.judge.port import Answer, AnswerT, Prompt
from spanscore.metrics import Judged, available
from spanscore.model.json import dumps
from spanscore.model.score import JudgeUsage

ScriptedAnswer: TypeAlias = bool | float | str | tuple[Any, str] | Mapping[str, Any] | BaseException
"""What a judge says: a score, a score with its reason, fields of the answer by name, or an error
that it raises.
"""

_CALL = re.compile(r"^step (\d+): ", re.MULTILINE)
_HEAD_CHARACTERS = 200
_SCORES = ("score", "passed")
_REASONS = ("reason", "justification")


class ScriptedJudge:
    """Gives the answers that a test wants, in the form that is asked for; asks no model.

    `answers` has what is said by the name of a metric or criterion (or by the key of one of its
    questions), `default` is said to all else. A list is said in turn, its last item again and
    again. `prompts` are those that were sent.

    >>> judge = ScriptedJudge({"task_completion": (0.2, "nothing was booked")}, default=0.9)
    """

    def __init__(
        self,
        answers: Mapping[str, ScriptedAnswer | list[ScriptedAnswer]] | None = None,
        *,
        default: ScriptedAnswer = 1.0,
    ) -> None:
        """Raises InputError where `answers` are not by name."""
        if answers is not None and not isinstance(answers, Mapping):
            raise InputError(
                f"ScriptedJudge({answers!r}): answers are given by the name of a metric, as in"
                f' {{"task_completion": {answers!r}}}; default={answers!r} is said to all'
            )
        self.prompts: list[Prompt] = []
        self._answers = {
            name: list(x) if isinstance(x, list) else [x] for name, x in (answers or {}).items()
        }
        self._default = default

    async def ask(
        self, prompt: Prompt, schema: type[AnswerT], *, models: Sequence[str] = ()
    ) -> Answer[AnswerT]:
        """See `Judge.ask`.

        Raises InputError where what is to be said does not fit what is asked.
        """
        self.prompts.append(prompt)
        shape = schema_of(schema)
        alone = bool({*_SCORES, *_REASONS} & set(shape["properties"]))
        answer = self._about_all(prompt) if alone else self._default
        if isinstance(answer, BaseException):
            raise answer
        form = _Form(shape.get("$defs", {}), [int(x) for x in _CALL.findall(prompt.question)])
        properties = {} if alone else shape["properties"]
        given = {key: form.filled(inner, self._about(key)) for key, inner in properties.items()}
        given = form.filled(shape, answer) if alone else given
        try:
            value = read(dumps(given), schema)
        except UnusableAnswerError as error:
            raise InputError(
                f"the scripted judge was to say {answer!r}, which is no answer to what is asked:"
                f" {error}"
            ) from None
        return Answer(value, models[0] if models else "scripted", JudgeUsage(calls=1))

    def _about_all(self, prompt: Prompt) -> ScriptedAnswer:
        """What is said where one question is asked alone, whose metric its words tell."""
        for name in self._answers:
            if name in available() and _has_question(available()[name], prompt):
                return self._next(name)
        return self._default

    def _about(self, key: str) -> ScriptedAnswer:
        """What is said to the question of that key, where several share a call."""
        keys = {x: (x, f"criterion_{x.replace('.', '__')}") for x in self._answers}
        name = next((x for x in keys if key in keys[x]), None)
        answer = self._default if name is None else self._next(name)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _next(self, name: str) -> ScriptedAnswer:
        answers = self._answers[name]
        return answers.pop(0) if len(answers) > 1 else answers[0]


class FailingJudge:
    """Raises `error` whatever it is asked; by default as where no provider can be reached."""

    def __init__(self, error: Exception | None = None) -> None:
        self.prompts: list[Prompt] = []
        self._error = error or JudgeUnavailableError("the provider cannot be reached")

    async def ask(
        self, prompt: Prompt, schema: type[AnswerT], *, models: Sequence[str] = ()
    ) -> Answer[AnswerT]:
        """See `Judge.ask`."""
        del schema, models
        self.prompts.append(prompt)
        raise self._error


class HangingJudge:
    """Never answers."""

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []

    async def ask(
        self, prompt: Prompt, schema: type[AnswerT], *, models: Sequence[str] = ()
    ) -> Answer[AnswerT]:
        """See `Judge.ask`."""
        del schema, models
        self.prompts.append(prompt)
        await asyncio.Event().wait()
        raise AssertionError("nobody sets the event")


class _Form:
    """Fills in a JSON schema: with what is said where it is a score, a reason or named, else with
    what is allowed.
    """

    def __init__(self, definitions: Mapping[str, Any], calls: Sequence[int]) -> None:
        self._definitions = definitions
        self._calls = calls

    def filled(self, schema: Mapping[str, Any], answer: Any, name: str = "") -> Any:
        """A value that `schema` allows; `name` is that of the property which it is of."""
        schema = self._resolved(schema)
        score, reason = answer if isinstance(answer, tuple) else (answer, "as scripted")
        if name in _SCORES:
            return score
        if name in _REASONS:
            return reason
        if schema.get("type") == "object":
            given = answer if isinstance(answer, Mapping) else {}
            rest = 1.0 if name or given else answer
            properties = schema.get("properties", {}).items()
            return {k: given[k] if k in given else self.filled(x, rest, k) for k, x in properties}
        if isinstance(answer, Mapping):
            raise InputError(
                f"the scripted judge was to say {dict(answer)!r}, but is asked for"
                f" {schema.get('type')}"
            )
        return self._allowed(name, schema)

    def _allowed(self, name: str, schema: Mapping[str, Any]) -> Any:
        if "enum" in schema or "const" in schema:
            return schema["enum"][0] if "enum" in schema else schema["const"]
        if "anyOf" in schema:
            return self.filled(schema["anyOf"][0], 1.0, name)
        if schema.get("type") == "array":
            return self._list(self._resolved(schema["items"]))
        least = schema.get("minimum", 0)
        plain = {"boolean": True, "integer": least, "number": least}
        return plain.get(schema.get("type", ""), f"{name or 'a text'}, as scripted")

    def _list(self, element: Mapping[str, Any]) -> list[Any]:
        if "call" in element.get("properties", {}):
            return [{**self.filled(element, 1.0), "call": number} for number in self._calls]
        is_text = element.get("type") == "string"
        return ["a first text, as scripted", "a second one"] if is_text else []

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in schema:
            schema = self._definitions[schema["$ref"].rpartition("/")[2]]
        return schema


def _has_question(metric: type[Any], prompt: Prompt) -> bool:
    """Whether `prompt` asks the question that the metric is named after, or its only one."""
    if not issubclass(metric, Judged):
        return False
    last = metric.stages[-1][-1].text.replace("$$", "$")
    return last[:_HEAD_CHARACTERS].partition("$")[0].strip() in prompt.question
