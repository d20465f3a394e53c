// An agent of Mastra with memory; the argument chooses the exporter.
import { createOpenAI } from "@ai-sdk/openai";
import { ArizeExporter } from "@mastra/arize";
import { Agent } from "@mastra/core/agent";
import { Mastra } from "@mastra/core/mastra";
import { createTool } from "@mastra/core/tools";
import { LangfuseExporter } from "@mastra/langfuse";
import { LibSQLStore } from "@mastra/libsql";
import { Memory } from "@mastra/memory";
import { Observability } from "@mastra/observability";
import { OtelExporter } from "@mastra/otel-exporter";
import { z } from "zod";
import { shop } from "./conversation.mjs";

const otlp = process.env.OTEL_EXPORTER_OTLP_ENDPOINT;
const exporters = {
  otel: () => new OtelExporter({ provider: { custom: { endpoint: `${otlp}/v1/traces`, protocol: "http/protobuf" } } }),
  arize: () => new ArizeExporter({ endpoint: `${otlp}/v1/traces`, projectName: "shop" }),
  langfuse: () => new LangfuseExporter({ publicKey: "none", secretKey: "none", baseUrl: otlp, realtime: true }),
};

const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: "none" });
const storage = new LibSQLStore({ id: "shop", url: ":memory:" });
const [helper] = shop.agents;
const tools = Object.fromEntries(
  helper.tools.map(({ name, description, parameters, run }) => [
    name,
    createTool({ id: name, description, inputSchema: z.fromJSONSchema(parameters), execute: async (args) => run(args) }),
  ]),
);
const mastra = new Mastra({
  agents: {
    helper: new Agent({
      id: helper.name,
      name: helper.name,
      instructions: helper.instructions,
      model: openai.chat("gpt-4o-mini"),
      tools,
      memory: new Memory({ storage, options: { lastMessages: 40 } }),
    }),
  },
  storage,
  observability: new Observability({
    configs: { shop: { serviceName: "shop", exporters: [exporters[process.argv[2]]()] } },
  }),
});

for (const { session, user, question } of shop.turns) {
  await mastra.getAgent("helper").generate(question, { memory: { thread: session, resource: user }, maxSteps: 8 });
}
await mastra.shutdown();
process.exit(0);
