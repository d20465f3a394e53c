// An agent of VoltAgent, which keeps the conversation in memory.
import { createOpenAI } from "@ai-sdk/openai";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { Agent, createTool, VoltAgentObservability } from "@voltagent/core";
import { z } from "zod";
import { shop } from "./conversation.mjs";

const observability = new VoltAgentObservability({
  serviceName: "shop",
  spanProcessors: [
    new SimpleSpanProcessor(new OTLPTraceExporter({ url: `${process.env.OTEL_EXPORTER_OTLP_ENDPOINT}/v1/traces` })),
  ],
});
const [helper] = shop.agents;
const agent = new Agent({
  name: helper.name,
  instructions: helper.instructions,
  model: createOpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: "none" }).chat("gpt-4o-mini"),
  tools: helper.tools.map(({ name, description, parameters, run }) =>
    createTool({ name, description, parameters: z.fromJSONSchema(parameters), execute: async (args) => run(args) }),
  ),
  observability,
});

for (const { session, user, question } of shop.turns) {
  await agent.generateText(question, { userId: user, conversationId: session, maxSteps: 8 });
}
await observability.forceFlush();
process.exit(0);
