// Two agents of VoltAgent: the front desk delegates to the parcel clerk.
import { createOpenAI } from "@ai-sdk/openai";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { Agent, createTool, VoltAgentObservability } from "@voltagent/core";
import { z } from "zod";
import { desk } from "./conversation.mjs";

const observability = new VoltAgentObservability({
  serviceName: "desk",
  spanProcessors: [
    new SimpleSpanProcessor(new OTLPTraceExporter({ url: `${process.env.OTEL_EXPORTER_OTLP_ENDPOINT}/v1/traces` })),
  ],
});
const made = ({ name, instructions, tools }, subAgents) =>
  new Agent({
    name,
    instructions,
    model: createOpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: "none" }).chat("gpt-4o-mini"),
    tools: tools.map(({ name, description, parameters, run }) =>
      createTool({ name, description, parameters: z.fromJSONSchema(parameters), execute: async (args) => run(args) }),
    ),
    subAgents,
    observability,
  });
const [front, clerk] = desk.agents;
const agent = made(front, [made(clerk)]);

for (const { session, user, question } of desk.turns) {
  await agent.generateText(question, { userId: user, conversationId: session, maxSteps: 8 });
}
await observability.forceFlush();
process.exit(0);
