"""The judges that rules name beside the configured one."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from spanscore.evaluation.rules import Rule
from spanscore.judge.config import Config
from spanscore.judge.port import Judge


class RuleJudge(NamedTuple):
    """A judge and how it is asked; `judge` None: nobody is."""

    judge: Judge | None
    config: Config


def rule_judges(
    rules: Iterable[Rule], usual: RuleJudge, opened: Callable[[Config, Judge | None], Judge | None]
) -> dict[str, RuleJudge]:
    """The judge of each rule that changes it, by the rule's name.

    `opened` opens the judge of a configuration; the second argument is one from whose budget it is
    to be paid.
    """
    found: dict[str, RuleJudge] = {}
    beside = usual.judge
    for rule in rules:
        if rule.judge is not None:
            config = rule.judge.applied(usual.config)
            found[rule.name] = RuleJudge(opened(config, beside), config)
            beside = beside or found[rule.name].judge
    return found
