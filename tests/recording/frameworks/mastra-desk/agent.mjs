// Two agents of Mastra: the front desk asks the parcel clerk.
import { createOpenAI } from "@ai-sdk/openai";
import { Agent } from "@mastra/core/agent";
import { Mastra } from "@mastra/core/mastra";
import { createTool } from "@mastra/core/tools";
import { LibSQLStore } from "@mastra/libsql";
import { Memory } from "@mastra/memory";
import { Observability } from "@mastra/observability";
import { OtelExporter } from "@mastra/otel-exporter";
import { z } from "zod";
import { desk } from "./conversation.mjs";

const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: "none" });
const storage = new LibSQLStore({ id: "desk", url: ":memory:" });
const made = ({ name, instructions, tools }, description, agents) =>
  new Agent({
    id: name,
    name,
    description,
    instructions,
    model: openai.chat("gpt-4o-mini"),
    agents,
    tools: Object.fromEntries(
      tools.map((tool) => [
        tool.name,
        createTool({
          id: tool.name,
          description: tool.description,
          inputSchema: z.fromJSONSchema(tool.parameters),
          execute: async (args) => tool.run(args),
        }),
      ]),
    ),
    memory: new Memory({ storage, options: { lastMessages: 40 } }),
  });
const [front, clerk] = desk.agents;
const parcel_clerk = made(clerk, "Knows where parcels are.");
const endpoint = `${process.env.OTEL_EXPORTER_OTLP_ENDPOINT}/v1/traces`;
const exporter = new OtelExporter({ provider: { custom: { endpoint, protocol: "http/protobuf" } } });
const mastra = new Mastra({
  agents: { front: made(front, "The front desk.", { parcel_clerk }) },
  storage,
  observability: new Observability({ configs: { desk: { serviceName: "desk", exporters: [exporter] } } }),
});

for (const { session, user, question } of desk.turns) {
  await mastra.getAgent("front").generate(question, { memory: { thread: session, resource: user }, maxSteps: 8 });
}
await mastra.shutdown();
process.exit(0);
