"""Two conversations with a Pipecat pipeline in text; who speaks is told as a transport would, or
not at all.
"""

import asyncio
import json
import os
import sys

from conversation import SHOP, schema
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    EndFrame,
    LLMFullResponseEndFrame,
    LLMMessagesAppendFrame,
    LLMTextFrame,
    UserStartedSpeakingFrame,
    UserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.utils.tracing.setup import setup_tracing
from pipecat.workers.runner import WorkerRunner

setup_tracing("shop", exporter=OTLPSpanExporter())
(helper,) = SHOP.agents
speaks = "text" not in sys.argv


class Speaker(FrameProcessor):
    """Stands for a transport: tells that the bot speaks, and when an answer ended that asked for no
    tools.
    """

    def __init__(self, is_last):
        super().__init__()
        self.answered, self.said, self.is_last = asyncio.Event(), "", is_last

    async def process_frame(self, frame, direction):
        await super().process_frame(frame, direction)
        await self.push_frame(frame, direction)
        if isinstance(frame, LLMTextFrame):
            self.said += frame.text
        elif isinstance(frame, LLMFullResponseEndFrame):
            said, self.said = self.said, ""
            if said and speaks:
                await self.broadcast_frame(BotStartedSpeakingFrame)
                await self.broadcast_frame(BotStoppedSpeakingFrame)
            if self.is_last(said):
                self.answered.set()


def described(tool):
    about = schema(tool)
    return FunctionSchema(tool.__name__, tool.__doc__, about["properties"], about["required"])


def running(tool):
    async def run(params):
        result = tool(**params.arguments)
        # of what is empty or 0 Pipecat tells the model nothing, and does not ask it again
        await params.result_callback(result or json.dumps(result))

    return run


async def talk(turns):
    llm = OpenAILLMService(
        base_url=os.environ["OPENAI_BASE_URL"],
        api_key="none",
        settings=OpenAILLMService.Settings(
            model="gpt-4o-mini", system_instruction=helper.instructions
        ),
    )
    for tool in helper.tools:
        llm.register_function(tool.__name__, running(tool))
    context = LLMContext(tools=ToolsSchema([described(x) for x in helper.tools]))
    both = LLMContextAggregatorPair(context)
    speaker = Speaker(lambda said: said in [x.steps[-1].text for x in turns])
    worker = PipelineWorker(
        Pipeline([both.user(), llm, speaker, both.assistant()]),
        params=PipelineParams(enable_metrics=True, enable_usage_metrics=True),
        enable_tracing=True,
        conversation_id=turns[0].session,
        additional_span_attributes={"user.id": turns[0].user},
    )
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    running_worker = asyncio.create_task(runner.run())
    for turn in turns:
        speaker.answered.clear()
        if speaks:
            await worker.queue_frames([UserStartedSpeakingFrame(), UserStoppedSpeakingFrame()])
        question = {"role": "user", "content": turn.question}
        await worker.queue_frame(LLMMessagesAppendFrame([question], run_llm=True))
        await speaker.answered.wait()
    await worker.queue_frame(EndFrame())
    await running_worker


async def main():
    for session in dict.fromkeys(x.session for x in SHOP.turns):
        await talk([x for x in SHOP.turns if x.session == session])


asyncio.run(main())
