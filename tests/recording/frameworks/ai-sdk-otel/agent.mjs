// The Vercel AI SDK's agent, traced by the SDK's own package.
import { createOpenAI } from "@ai-sdk/openai";
import { OpenTelemetry } from "@ai-sdk/otel";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { isStepCount, jsonSchema, registerTelemetry, tool, ToolLoopAgent } from "ai";
import { shop } from "./conversation.mjs";

const sdk = new NodeSDK({ traceExporter: new OTLPTraceExporter(), instrumentations: [] });
sdk.start();
registerTelemetry(new OpenTelemetry());

const [helper] = shop.agents;
const agent = new ToolLoopAgent({
  model: createOpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: "none" }).chat("gpt-4o-mini"),
  instructions: helper.instructions,
  tools: Object.fromEntries(
    helper.tools.map(({ name, description, parameters, run }) => [
      name,
      tool({ description, inputSchema: jsonSchema(parameters), execute: async (args) => run(args) }),
    ]),
  ),
  stopWhen: isStepCount(8),
  telemetry: { functionId: helper.name },
});

const said = {};
for (const { session, question } of shop.turns) {
  const messages = [...(said[session] ?? []), { role: "user", content: question }];
  const result = await agent.generate({ messages });
  said[session] = [...messages, ...result.response.messages];
}
await sdk.shutdown();
