// An agent of Mastra, before its version 1, with memory and the OpenTelemetry exporter.
import { createOpenAI } from "@ai-sdk/openai";
import { Agent } from "@mastra/core/agent";
import { Mastra } from "@mastra/core/mastra";
import { createTool } from "@mastra/core/tools";
import { LibSQLStore } from "@mastra/libsql";
import { Memory } from "@mastra/memory";
import { OtelExporter } from "@mastra/otel-exporter";
import { z } from "zod";
import { shop } from "./conversation.mjs";

const kinds = { string: z.string(), integer: z.number().int(), boolean: z.boolean() };

function shape({ properties }) {
  const field = ({ type, default: value }) => (value === undefined ? kinds[type] : kinds[type].default(value));
  return z.object(Object.fromEntries(Object.entries(properties).map(([name, x]) => [name, field(x)])));
}

const endpoint = `${process.env.OTEL_EXPORTER_OTLP_ENDPOINT}/v1/traces`;
const exporter = new OtelExporter({ provider: { custom: { endpoint, protocol: "http/protobuf" } } });
const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: "none" });
const storage = new LibSQLStore({ url: ":memory:" });
const [helper] = shop.agents;
const tools = Object.fromEntries(
  helper.tools.map((tool) => [
    tool.name,
    createTool({
      id: tool.name,
      description: tool.description,
      inputSchema: shape(tool.parameters),
      execute: async ({ context }) => tool.run(context),
    }),
  ]),
);
const mastra = new Mastra({
  agents: {
    helper: new Agent({
      name: helper.name,
      instructions: helper.instructions,
      model: openai.chat("gpt-4o-mini"),
      tools,
      memory: new Memory({ storage, options: { lastMessages: 40 } }),
    }),
  },
  storage,
  observability: { configs: { shop: { serviceName: "shop", exporters: [exporter] } } },
});

for (const { session, user, question } of shop.turns) {
  await mastra.getAgent("helper").generate(question, { memory: { thread: session, resource: user }, maxSteps: 8 });
}
await exporter.shutdown();
process.exit(0);
