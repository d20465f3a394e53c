"""Questions in calls to a judge, and answers by question."""

import functools
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import Template
from typing import Any

from pydantic import BaseModel, TypeAdapter

from spanscore.errors import ConfigError
from spanscore.judge.answer import Invalid, Parts, parts_of, was_cut_off
from spanscore.judge.marks import fence
from spanscore.judge.port import Prompt
from spanscore.metrics import INSTRUCTIONS, Answers, Question
from spanscore.model.json import dumps

Questions = tuple[Question, ...]

_MAX_NAME_CHARACTERS = 80
_MAX_STRAY = 5
_EACH_IN_TURN = (
    "Answer each of the following on its own, under its own key, in this order. Later ones may rest"
    " on what you gave before."
)
_QUOTED = re.compile(r"(?m)(?:^.*:\n)?^\$(?P<name>\w+)\n")
"""An answer that a question quotes, with the line that says what it is."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to be answered: a question, or a question about one tool call, by its place in the
    trace.
    """

    question: Question
    place: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What an answer gives: the valid answers, and what is wrong with each item that has none.

    `remembered` names the model that answered an item at an earlier time.
    """

    answers: Mapping[Item, Any]
    problems: Mapping[Item, Invalid]
    remembered: Mapping[Item, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a judge: its items, and the schema of the answer to all of them.

    The answer to a single question that has a model of its own is that model; else it is an object
    with one member for each question, by its key, and that member is a list where the question is
    about tool calls one by one. `steps` are the numbers of those calls in the transcript and the
    names of their tools, by their place.
    """

    items: tuple[Item, ...]
    steps: Mapping[int, tuple[int, str]]

    @property
    def questions(self) -> Questions:
        """The questions, each once."""
        return tuple(dict.fromkeys(item.question for item in self.items))

    @property
    def schema(self) -> type[BaseModel]:
        """What the answer must fit."""
        return _schema(self.questions)

    @property
    def by_question(self) -> list["Call"]:
        """The same, with one call for each question."""
        found: dict[Question, list[Item]] = {}
        for item in self.items:
            found.setdefault(item.question, []).append(item)
        return [Call(tuple(items), self.steps) for items in found.values()]

    def answered(self, answers: Mapping[Item, Any]) -> BaseModel | None:
        """The answer to this call of a single question, made of `answers`; None where one of its
        items has none.
        """
        if any(item not in answers for item in self.items):
            return None
        values = [answers[item] for item in self.items]
        (question,) = self.questions
        if not issubclass(self.schema, Parts):
            alone: BaseModel = values[0]
            return alone
        made: dict[str, Any] = {question.key: values if question.of_calls else values[0]}
        return self.schema.model_construct(**made)

    def prompt(self, transcript: str, quotes: Mapping[str, str], objection: str = "") -> Prompt:
        """The prompt over a fenced transcript; what is quoted is fenced too, since it came from the
        trace.

        `objection`: what was wrong with the answer before.
        """
        steps = [self.steps[item.place] for item in self.items if item.place is not None]
        shown = [
            f"step {number}: {' '.join(name.split())[:_MAX_NAME_CHARACTERS]}"
            for number, name in steps
        ]
        calls = {"calls": "\n".join(shown)} if shown else {}
        fenced = {name: fence(text) for name, text in {**quotes, **calls}.items()}
        questions = self.questions
        asked = {x.key for x in questions}
        texts = [_filled(x, fenced, asked) for x in questions]
        if len(texts) > 1:
            texts = [f"## {x.key}\n{text}" for x, text in zip(questions, texts, strict=True)]
            texts.insert(0, _EACH_IN_TURN)
        if objection:
            texts.append(
                f"You were asked this before, and your answer could not be used: {objection}"
            )
        return Prompt(INSTRUCTIONS, transcript, "\n\n".join(texts))

    def read(self, answer: BaseModel) -> Reading:
        """The answers by item."""
        if not isinstance(answer, Parts):
            return Reading({self.items[0]: answer}, {})
        values: dict[Item, Any] = {}
        for question in self.questions:
            value = getattr(answer, question.key)
            if value is None and question.moot:
                value = Invalid(f"It may only be null where {question.moot}.")
            own = [item for item in self.items if item.question == question]
            if not question.of_calls or isinstance(value, Invalid):
                values |= dict.fromkeys(own, value)
            else:
                values |= self._by_call(own, value, cut_off=was_cut_off(answer))
        problems = {item: x for item, x in values.items() if isinstance(x, Invalid)}
        return Reading({x: values[x] for x in values if x not in problems}, problems)

    def _by_call(
        self, items: Sequence[Item], given: Sequence[Any], *, cut_off: bool
    ) -> Iterator[tuple[Item, Any]]:
        """For each of `items`, the element that bears the number of its step, or why there is
        none.
        """
        by_number: dict[int, list[Any]] = {}
        for element in given:
            if not isinstance(element, Invalid):
                by_number.setdefault(element.call, []).append(element)
        numbers = [self.steps[item.place or 0][0] for item in items]
        stray = [f"There is no step {x} in the list." for x in by_number if x not in numbers]
        invalid = [x.problem for x in given if isinstance(x, Invalid)]
        for item, number in zip(items, numbers, strict=True):
            found = by_number.get(number, [])
            if len(found) == 1:
                yield item, found[0]
            elif found:
                problem = f"Step {number} was answered {len(found)} times; give one answer for it."
                yield item, Invalid(problem)
            else:
                missing = f"Step {number} was not answered."
                problem = " ".join((missing, *stray[:_MAX_STRAY], *invalid[:_MAX_STRAY]))
                yield item, Invalid(problem, cut_off)


def _filled(question: Question, quotes: Mapping[str, str], asked: Collection[str]) -> str:
    """The text of a question; `asked` are the keys of the questions in the same call.

    What these answer is not quoted.
    """
    text = question.text
    if any(x in asked for x in question.needs):
        text = _QUOTED.sub(lambda found: found[0] if found["name"] in quotes else "", text)
    text = Template(text).safe_substitute(quotes)
    return f"{text}\nGive null where {question.moot}." if _may_be_moot(question, asked) else text


def _may_be_moot(question: Question, asked: Collection[str]) -> bool:
    """Whether the same answer may show that there is nothing to answer."""
    return bool(question.moot) and any(x in asked for x in question.needs)


def quoted(answers: Answers) -> dict[str, str]:
    """Answers as templates quote them: a text as it is, a list numbered, anything else as JSON."""
    return {
        key: _quoted(answer) for key, answer in answers.items() if not isinstance(answer, Mapping)
    }


@functools.lru_cache(maxsize=256)  # every requested run may name another model
def prompt_hash(calls: tuple[Questions, ...], model: str | None, *, pictures: bool = False) -> str:
    """16 hex digits over all that decides how `calls` are judged: instructions, templates, schemas,
    the model, and whether it sees pictures.
    """
    asked = [
        [[x.key, x.text, TypeAdapter(x.answer).json_schema()] for x in questions]
        for questions in calls
    ]
    return digest([INSTRUCTIONS, asked, model, *(["pictures"] if pictures else [])])


def digest(content: Any) -> str:
    """16 hex digits over what can be written as JSON."""
    return hashlib.sha256(dumps(content).encode()).hexdigest()[:16]


def distinct(questions: Iterable[Question]) -> Questions:
    """Each question once, in order.

    Raises ConfigError where two metrics ask different questions under one key.
    """
    found: dict[str, Question] = {}
    for question in questions:
        if found.setdefault(question.key, question) != question:
            raise ConfigError(f"two metrics ask different questions under the key {question.key!r}")
    return tuple(found.values())


@functools.lru_cache(maxsize=256)  # which questions share a call depends on what the trace lacks
def _schema(questions: Questions) -> type[BaseModel]:
    first, *others = questions
    alone: Any = first.answer
    if not (others or first.of_calls) and isinstance(alone, type) and issubclass(alone, BaseModel):
        return alone
    keys = {x.key for x in questions}
    fields = {x.key: x.answer | None if _may_be_moot(x, keys) else x.answer for x in questions}
    return parts_of(fields, {x.key for x in questions if x.of_calls})


def _quoted(answer: Any) -> str:
    if isinstance(answer, str):
        return answer
    if isinstance(answer, list) and all(isinstance(x, str) for x in answer):
        return "\n".join(f"{number}. {x}" for number, x in enumerate(answer, 1))
    return dumps(TypeAdapter(type(answer)).dump_python(answer, mode="json"))


_ANSWER_TOKENS = 300
"""About how long the answer to a question is: a few sentences and a number."""

_CALL_TOKENS = 60
"""About how long the answer about one tool call is: its number, a sentence and a word."""

_MOST_CALLS = 60
"""Tool calls in one call of the judge, however long an answer may be: a reader of a longer list
loses its place.
"""


@dataclass(frozen=True, slots=True)
class Batch:
    """The items of one call.

    `is_repeat`: it is the second try; `objection` is what was wrong with the first answer.
    """

    items: tuple[Item, ...]
    is_repeat: bool = False
    objection: str = ""

    @property
    def places(self) -> tuple[int, ...]:
        """The places of the tool calls that it is about."""
        return tuple(item.place for item in self.items if item.place is not None)

    def halves(self) -> list["Batch"]:
        """The same in two calls; of at least two items."""
        middle = len(self.items) // 2
        return [replace(self, items=x) for x in (self.items[:middle], self.items[middle:])]


def dealt(items: Sequence[Item], max_output_tokens: int) -> list[Batch]:
    """`items` in as few calls as answers of `max_output_tokens` allow.

    Questions about tool calls share a call with the others if all of them fit, else they have calls
    of their own.

    >>> from spanscore.metrics import Question
    >>> whole, each = Question("task", "", str), Question("verdicts", "", int, of_calls=True)
    >>> items = [Item(whole), *(Item(each, place) for place in range(100))]
    >>> [len(batch.items) for batch in dealt(items, 4096)]
    [1, 60, 40]
    """
    of_calls = [item for item in items if item.place is not None]
    whole = [item for item in items if item.place is None]
    room = max_output_tokens - _ANSWER_TOKENS * len(whole)
    if of_calls and _CALL_TOKENS * len(of_calls) <= room and len(of_calls) <= _MOST_CALLS:
        return [Batch(tuple(items))]
    at_once = max(max_output_tokens // _ANSWER_TOKENS, 1)
    calls_at_once = min(max(max_output_tokens // _CALL_TOKENS, 1), _MOST_CALLS)
    return [*_cut(whole, at_once), *_cut(of_calls, calls_at_once)]


def _cut(items: Sequence[Item], most: int) -> list[Batch]:
    return [Batch(tuple(items[start : start + most])) for start in range(0, len(items), most)]
