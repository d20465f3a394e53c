// LangChain's agent with a checkpointer, traced by Langfuse's callback handler.
import { CallbackHandler } from "@langfuse/langchain";
import { LangfuseSpanProcessor } from "@langfuse/otel";
import { MemorySaver } from "@langchain/langgraph";
import { ChatOpenAI } from "@langchain/openai";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { createAgent, tool } from "langchain";
import { shop } from "./conversation.mjs";

const processor = new LangfuseSpanProcessor({
  publicKey: "none",
  secretKey: "none",
  baseUrl: process.env.OTEL_EXPORTER_OTLP_ENDPOINT,
});
const sdk = new NodeSDK({ spanProcessors: [processor] });
sdk.start();

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
  await agent.invoke(
    { messages: [{ role: "user", content: question }] },
    { configurable: { thread_id: session }, callbacks: [new CallbackHandler({ sessionId: session, userId: user })] },
  );
}
await processor.forceFlush();
await sdk.shutdown();
