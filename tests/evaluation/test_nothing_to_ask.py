"""A metric that waits for answers about tool calls, of a turn that has none."""

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from pydantic import BaseModel

from spanscore.evaluation.inquiry import Case, Inquiry
from spanscore.evaluation.judgement import fused
from spanscore.judge.transcript import render
from spanscore.metrics import Judged, Question
from spanscore.model.score import Failure


class About(BaseModel):
    call: int


@dataclass(frozen=True)
class Waiting(Judged):
    name: ClassVar[str] = "waiting"
    summary: ClassVar[str] = "It never settles by itself."
    stages: ClassVar[tuple[tuple[Question, ...], ...]] = (
        (Question("calls_seen", "$calls", About, of_calls=True),),
    )


def test_a_question_about_no_call_ends_in_a_failure(make_trace, scripted):
    case = Case(Waiting(), make_trace(tool_calls=()))
    inquiry = Inquiry(scripted(), case.subject, render, 4096)
    asyncio.run(asyncio.wait_for(fused([case], inquiry), 10))
    assert isinstance(case.outcome, Failure)
    assert "has a question left to ask" in case.outcome.message
