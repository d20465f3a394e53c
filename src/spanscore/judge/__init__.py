"""LLM judges behind one port: how a model is asked about a transcript, at what cost, and what it is
not shown.
"""

from spanscore.judge.asking import ModelJudge
from spanscore.judge.cache import Cache
from spanscore.judge.config import Config
from spanscore.judge.opening import (
    Estimate,
    answers_file,
    check_models,
    estimate,
    open_for_trial,
    open_judge,
    redactor,
    renderer,
)
from spanscore.judge.port import Answer, Judge, Prompt

__all__ = [
    "Answer",
    "Cache",
    "Config",
    "Estimate",
    "Judge",
    "ModelJudge",
    "Prompt",
    "answers_file",
    "check_models",
    "estimate",
    "open_for_trial",
    "open_judge",
    "redactor",
    "renderer",
]
