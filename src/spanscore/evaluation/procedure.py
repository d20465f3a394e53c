"""How the traces and sessions are measured that one rule takes, or that none takes."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from spanscore.embed.port import Embedder
from spanscore.evaluation.config import Config
from spanscore.evaluation.grading import Grading
from spanscore.evaluation.judging import Judging
from spanscore.evaluation.measuring import Measuring
from spanscore.evaluation.panel import Panel
from spanscore.evaluation.rule_judges import RuleJudge
from spanscore.evaluation.selection import Selection
from spanscore.judge.opening import renderer
from spanscore.metrics import Metric


@dataclass(frozen=True, slots=True)
class Procedure:
    """What is measured, and by whom."""

    selection: Selection
    measuring: Measuring
    grading: Grading

    @property
    def looks_back(self) -> bool:
        """Whether a trace's evaluation uses the session's earlier turns: a judge reads them, and
        some checks do.
        """
        return self.selection.has_judge or any(x.looks_back for x in self.selection.configured)


def make_procedure(
    config: Config,
    judged_by: RuleJudge,
    embedder: Embedder | None,
    slots: asyncio.Semaphore,
    *,
    beside: Sequence[Metric] = (),
) -> Procedure:
    """The procedure that a configuration without rules describes.

    `slots` bound the calls of the judge at a time. `beside` are the metrics that are measured where
    no rule takes a trace. Raises ConfigError where a metric names a model and there is no judge.
    """
    judge, judge_config = judged_by
    if judge is None:
        config.refuse_models()
    render = renderer(judge_config)
    panel = None
    if judge is not None:
        panel = Panel(Judging(judge, judge_config, render, slots), judge_config)
    return Procedure(
        Selection(config, embedder, has_judge=judge is not None, beside=beside),
        Measuring(panel, embedder),
        Grading(judge, render, slots, judge_config),
    )
