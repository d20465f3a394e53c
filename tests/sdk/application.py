"""An application for the tests: providers of its own, whose exporters keep what leaves."""

import asyncio
import threading
from dataclasses import dataclass

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import spanscore
from spanscore.errors import JudgeUnavailableError

METRICS = ("check.answer_present", "check.repeated_calls")


@dataclass
class Application:
    """Providers, and what left them."""

    tracer_provider: TracerProvider
    logger_provider: LoggerProvider
    spans: InMemorySpanExporter
    logs: InMemoryLogRecordExporter

    @classmethod
    def made(cls):
        resource = Resource({"service.name": "shop"})
        spans, logs = InMemorySpanExporter(), InMemoryLogRecordExporter()
        tracer_provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        tracer_provider.add_span_processor(SimpleSpanProcessor(spans))
        logger_provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
        logger_provider.add_log_record_processor(SimpleLogRecordProcessor(logs))
        return cls(tracer_provider, logger_provider, spans, logs)

    def instrument(self, **options):
        given = {
            "metrics": METRICS,
            "tracer_provider": self.tracer_provider,
            "logger_provider": self.logger_provider,
        }
        return spanscore.instrument(**{**given, **options})

    @property
    def tracer(self):
        return self.tracer_provider.get_tracer("an.agent")

    def turn(self, question="Where is my order?", answer="It is on its way.", **attributes):
        """One turn of an agent with a model call; gives the root's context."""
        with self.tracer.start_as_current_span("invoke_agent shop") as root:
            root.set_attributes(
                {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop", **attributes}
            )
            with self.tracer.start_as_current_span("chat m") as chat:
                chat.set_attributes(chatted(question, answer))
        return root.context

    @property
    def emitted(self):
        """The evaluation spans that left."""
        return [
            x
            for x in self.spans.get_finished_spans()
            if x.instrumentation_scope.name == "spanscore"
        ]


def chatted(question, answer):
    """The attributes of a model call that answers a question."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": message("user", question),
        "gen_ai.output.messages": message("assistant", answer),
    }


def message(role, text):
    return f'[{{"role": "{role}", "parts": [{{"type": "text", "content": "{text}"}}]}}]'


class HangingJudge:
    """A judge that never answers."""

    def __init__(self):
        self.asked = threading.Event()

    async def ask(self, prompt, schema, *, models=()):
        self.asked.set()
        await asyncio.Event().wait()


class UnreachableJudge:
    """A judge whose provider refuses the key."""

    async def ask(self, prompt, schema, *, models=()):
        raise JudgeUnavailableError("wrong key", status=401)


class LateJudge:
    """A judge whose answers come when the test allows them."""

    def __init__(self, judge):
        self.asked = threading.Event()
        self._judge = judge
        self._may_answer = asyncio.Event()
        self._loop = None

    async def ask(self, prompt, schema, *, models=()):
        self._loop = asyncio.get_running_loop()
        self.asked.set()
        await self._may_answer.wait()
        return await self._judge.ask(prompt, schema, models=models)

    def answer(self):
        """From now on there are answers."""
        self._loop.call_soon_threadsafe(self._may_answer.set)
