"""What a judge is sent for a set of questions, and how its answer is read back by question."""

import functools
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from string import Template
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model

from spanscore.errors import ConfigError
from spanscore.judge.fence import fence
from spanscore.judge.port import Prompt
from spanscore.metrics import INSTRUCTIONS, Answers, Question
from spanscore.model.json import dumps

Questions = tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a judge: the questions it asks together, and the schema of the answer to all of them.

    The answer to a single question that has a model of its own is that model; else it is an object with one member
    for each question, by its key.
    """

    questions: Questions

    @property
    def schema(self) -> type[BaseModel]:
        """What the answer must fit."""
        return _schema(self.questions)

    def prompt(self, transcript: str, quotes: Mapping[str, str], objection: str = "") -> Prompt:
        """The prompt over a fenced transcript; what is quoted is fenced too, since it came from the trace.

        `objection` says what was wrong with the answer before.
        """
        fenced = {name: fence(text) for name, text in quotes.items()}
        texts = [Template(x.text).safe_substitute(fenced) for x in self.questions]
        if len(texts) > 1:
            texts = [f"## {x.key}\n{text}" for x, text in zip(self.questions, texts, strict=True)]
            texts.insert(0, "Answer each of the following on its own, under its own key.")
        if objection:
            texts.append(f"You were asked this before, and your answer could not be used: {objection}")
        return Prompt(INSTRUCTIONS, transcript, "\n\n".join(texts))

    def read(self, answer: BaseModel) -> dict[str, Any]:
        """The answers by question."""
        if _stands_alone(self.questions):
            return {self.questions[0].key: answer}
        return {x.key: getattr(answer, x.key) for x in self.questions}


def quoted(answers: Answers) -> dict[str, str]:
    """Answers as templates quote them: a text as it is, a list numbered, anything else as JSON."""
    return {key: _quoted(answer) for key, answer in answers.items()}


@functools.lru_cache(maxsize=256)  # every run that is asked for may name another model
def prompt_hash(calls: tuple[Questions, ...], model: str | None) -> str:
    """16 hex digits over all that decides how `calls` are judged: instructions, templates, schemas and the model."""
    asked = [[[x.key, x.text, TypeAdapter(x.answer).json_schema()] for x in questions] for questions in calls]
    return hashlib.sha256(dumps([INSTRUCTIONS, asked, model]).encode()).hexdigest()[:16]


def distinct(questions: Iterable[Question]) -> Questions:
    """Each question once, in order. Raises ConfigError where two metrics ask different questions under one key."""
    found: dict[str, Question] = {}
    for question in questions:
        if found.setdefault(question.key, question) != question:
            raise ConfigError(f"two metrics ask different questions under the key {question.key!r}")
    return tuple(found.values())


def _stands_alone(questions: Questions) -> bool:
    only = questions[0].answer if len(questions) == 1 else None
    return isinstance(only, type) and issubclass(only, BaseModel)


@functools.lru_cache(maxsize=256)  # which questions share a call depends on what the trace lacks
def _schema(questions: Questions) -> type[BaseModel]:
    if _stands_alone(questions):
        alone: type[BaseModel] = questions[0].answer
        return alone
    fields: dict[str, Any] = {x.key: (x.answer, ...) for x in questions}
    return create_model("Answers", __config__=ConfigDict(frozen=True), **fields)


def _quoted(answer: Any) -> str:
    if isinstance(answer, str):
        return answer
    if isinstance(answer, list) and all(isinstance(x, str) for x in answer):
        return "\n".join(f"{number}. {x}" for number, x in enumerate(answer, 1))
    return dumps(TypeAdapter(type(answer)).dump_python(answer, mode="json"))
