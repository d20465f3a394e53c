"""Which rule of `evaluation.rules` takes a trace, and with what chance it is evaluated."""

from spanscore.evaluation.rules.attributes import STATUS, attribute_names
from spanscore.evaluation.rules.conditions import MAX_TEXT
from spanscore.evaluation.rules.config import DEFAULT, NAME_PATTERN, Rule, check_rules
from spanscore.evaluation.rules.deciding import Decision, Rules, draw
from spanscore.evaluation.rules.selector import Selector

__all__ = [
    "DEFAULT",
    "MAX_TEXT",
    "NAME_PATTERN",
    "STATUS",
    "Decision",
    "Rule",
    "Rules",
    "Selector",
    "attribute_names",
    "check_rules",
    "draw",
]
