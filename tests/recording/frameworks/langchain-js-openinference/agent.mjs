// LangChain's agent with a checkpointer, traced by OpenInference.
import { setSession, setUser } from "@arizeai/openinference-core";
import { LangChainInstrumentation } from "@arizeai/openinference-instrumentation-langchain";
import * as callbacks from "@langchain/core/callbacks/manager";
import { MemorySaver } from "@langchain/langgraph";
import { ChatOpenAI } from "@langchain/openai";
import { context } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { createAgent, tool } from "langchain";
import { shop } from "./conversation.mjs";

const tracerProvider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
tracerProvider.register();
new LangChainInstrumentation({ tracerProvider }).manuallyInstrument(callbacks);

const [helper] = shop.agents;
const agent = createAgent({
  name: helper.name,
  model: new ChatOpenAI({ model: "gpt-4o-mini", configuration: { baseURL: process.env.OPENAI_BASE_URL } }),
  systemPrompt: helper.instructions,
  checkpointer: new MemorySaver(),
  tools: helper.tools.map(({ name, description, parameters, run }) =>
    tool(async (args) => JSON.stringify(run(args)), { name, description, schema: parameters }),
  ),
});

for (const { session, user, question } of shop.turns) {
  const whose = setUser(setSession(context.active(), { sessionId: session }), { userId: user });
  const input = { messages: [{ role: "user", content: question }] };
  await context.with(whose, () => agent.invoke(input, { configurable: { thread_id: session } }));
}
await tracerProvider.shutdown();
