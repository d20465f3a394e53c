// A loop around Anthropic's messages without spans of the application's own; the client's SDK emits spans as well.
import Anthropic from "@anthropic-ai/sdk";
import { setSession, setUser } from "@arizeai/openinference-core";
import { AnthropicInstrumentation } from "@arizeai/openinference-instrumentation-anthropic";
import { context } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { shop } from "./conversation.mjs";

const tracerProvider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
tracerProvider.register();
new AnthropicInstrumentation({ tracerProvider }).manuallyInstrument(Anthropic);

const client = new Anthropic();
const [helper] = shop.agents;
const tools = helper.tools.map(({ name, description, parameters }) => ({ name, description, input_schema: parameters }));
const said = {};

async function answer(session, question) {
  const messages = (said[session] ??= []);
  messages.push({ role: "user", content: question });
  for (;;) {
    const message = await client.messages.create({
      model: "claude-sonnet-4-5",
      max_tokens: 1000,
      system: helper.instructions,
      messages: [...messages],
      tools,
    });
    messages.push({ role: "assistant", content: message.content });
    const calls = message.content.filter((x) => x.type === "tool_use");
    if (!calls.length) return;
    const results = calls.map(({ id, name, input }) => ({
      type: "tool_result",
      tool_use_id: id,
      content: JSON.stringify(helper.tools.find((x) => x.name === name).run(input)),
    }));
    messages.push({ role: "user", content: results });
  }
}

for (const { session, user, question } of shop.turns) {
  const whose = setUser(setSession(context.active(), { sessionId: session }), { userId: user });
  await context.with(whose, () => answer(session, question));
}
await tracerProvider.shutdown();
