"""A criterion in plain words: what is asked, on which scale it is answered, and how a judge is
asked it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from spanscore.errors import InputError
from spanscore.metrics.own.scales import checked_scale, is_finite

YES_NO: Final = "yes/no"
YesNo: TypeAlias = Literal["yes/no"]

_MAX_CHARACTERS = 4000
_MAX_ANCHORS = 101
_TRUTHS = {"yes": True, "true": True, "pass": True, "no": False, "false": False, "fail": False}


@dataclass(frozen=True)
class Criterion:
    """What is asked, and on which scale it is answered.

    `anchors` say what values of the scale mean; where the scale is `yes/no`, what yes (1.0) and no
    (0.0) do. `not_applicable` says when there is nothing to judge, which the judge may then answer.
    """

    ask: str
    scale: tuple[float, float]
    is_yes_no: bool
    anchors: tuple[tuple[float, str], ...] = ()
    not_applicable: str | None = None

    @property
    def whole_numbers(self) -> bool:
        """Whether the judge answers in whole numbers: on every scale between whole numbers that is
        longer than 1.
        """
        low, high = self.scale
        return high - low > 1 and low.is_integer() and high.is_integer()

    def question(self) -> str:
        """The question, as a judge is asked."""
        return "\n".join([self.ask, self._answer(), *self._levels(), *self._exception()])

    def _answer(self) -> str:
        if self.is_yes_no:
            return "score: true for yes, false for no."
        low, high = self.scale
        kind = "a whole number" if self.whole_numbers else "a number"
        return f"score: {kind} from {low:g} to {high:g}."

    def _levels(self) -> list[str]:
        if self.is_yes_no:
            return [
                f"- {'true' if value else 'false'}: {meaning}" for value, meaning in self.anchors
            ]
        if self.anchors:
            return ["Guide:", *(f"- {value:g}: {meaning}" for value, meaning in self.anchors)]
        low, high = self.scale
        ends = f"{high:g} is a full yes without any fault, {low:g} a clear no"
        return [f"Guide: {ends}; below the middle lies what has a fault that matters."]

    def _exception(self) -> list[str]:
        if self.not_applicable is None:
            return []
        when = f"Where the following holds, it does not apply: {self.not_applicable}"
        return [f'{when}\nThe score is then "not_applicable", and the reason says why.']


def described(
    ask: str,
    scale: Sequence[float] | YesNo | None = None,
    anchors: Mapping[Any, str] | None = None,
    not_applicable: str | None = None,
) -> Criterion:
    """A criterion as `spanscore.criterion` and the configuration describe one.

    Raises InputError on what cannot be.

    >>> described("How kind is it?", anchors={0: "rude", 5: "kind"}).scale
    (0.0, 5.0)
    >>> described(
    ...     "Is it kind?", anchors={True: "kind throughout", False: "rude somewhere"}
    ... ).is_yes_no
    True
    """
    question = _text("ask", ask)
    when = None if not_applicable is None else _text("not_applicable", not_applicable)
    meanings = {key: _text(f"the anchor {key}", text) for key, text in (anchors or {}).items()}
    if len(meanings) > _MAX_ANCHORS:
        raise InputError(f"there are {len(meanings)} anchors; give at most {_MAX_ANCHORS}")
    are_truths = bool(meanings) and all(_truth(key) is not None for key in meanings)
    if scale == YES_NO or (scale is None and are_truths):
        return Criterion(
            question, (0.0, 1.0), is_yes_no=True, anchors=_of_truths(meanings), not_applicable=when
        )
    if not all(map(is_finite, meanings)):
        raise InputError(
            f"anchors: {list(meanings)} are not all numbers on the scale; give numbers, or yes"
            " and no"
        )
    ends = checked_scale(scale if scale is not None else _ends(meanings))
    for value in meanings:
        if not ends[0] <= value <= ends[1]:
            raise InputError(
                f"anchors: {value:g} is not on the scale, which is {ends[0]:g} to {ends[1]:g}"
            )
    in_order = sorted(((float(value), text) for value, text in meanings.items()), reverse=True)
    return Criterion(question, ends, is_yes_no=False, anchors=tuple(in_order), not_applicable=when)


def _ends(meanings: Mapping[float, str]) -> tuple[float, float]:
    return (min(meanings), max(meanings)) if len(meanings) > 1 else (0.0, 1.0)


def _of_truths(meanings: Mapping[Any, str]) -> tuple[tuple[float, str], ...]:
    for key in meanings:
        if _truth(key) is None:
            raise InputError(f"anchors: {key!r} is neither yes nor no")
    return tuple(
        sorted(((float(bool(_truth(key))), text) for key, text in meanings.items()), reverse=True)
    )


def _truth(key: Any) -> bool | None:
    """What a key stands for: YAML reads `yes` as true, Python's authors write True."""
    if isinstance(key, bool):
        return key
    return _TRUTHS.get(key.lower()) if isinstance(key, str) else None


def _text(what: str, given: Any) -> str:
    if not isinstance(given, str) or not given.strip():
        raise InputError(f"{what}: write a text; {given!r} is none")
    if len(given) > _MAX_CHARACTERS:
        raise InputError(
            f"{what}: longer than {_MAX_CHARACTERS} characters; a judge does better with a"
            " short one"
        )
    return given.strip()
