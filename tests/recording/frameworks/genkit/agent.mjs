// Genkit as a flow around `generate`, or as a session's agent of its beta; the argument says which.
import { openAI } from "@genkit-ai/compat-oai/openai";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { genkit, InMemorySessionStore, z } from "genkit/beta";
import { enableTelemetry } from "genkit/tracing";
import { shop } from "./conversation.mjs";

const processor = new SimpleSpanProcessor(
  new OTLPTraceExporter({ url: `${process.env.OTEL_EXPORTER_OTLP_ENDPOINT}/v1/traces` }),
);
await enableTelemetry({ spanProcessors: [processor], serviceName: "shop" });
const ai = genkit({
  plugins: [openAI({ apiKey: "none", baseURL: process.env.OPENAI_BASE_URL })],
  model: openAI.model("gpt-4o-mini"),
});

const [helper] = shop.agents;
const tools = helper.tools.map(({ name, description, parameters, run }) =>
  ai.defineTool({ name, description, inputJsonSchema: parameters }, async (args) => run(args)),
);

async function runFlow() {
  const flow = ai.defineFlow(
    { name: helper.name, inputSchema: z.object({ question: z.string(), before: z.array(z.any()) }), outputSchema: z.any() },
    async ({ question, before }) => {
      const response = await ai.generate({ system: helper.instructions, messages: before, prompt: question, tools });
      return response.messages.filter((x) => x.role !== "system");
    },
  );
  const said = {};
  for (const { session, question } of shop.turns) said[session] = await flow({ question, before: said[session] ?? [] });
}

async function runAgent() {
  const agent = ai.defineAgent({
    name: helper.name,
    system: helper.instructions,
    tools,
    store: new InMemorySessionStore(),
  });
  const chats = {};
  for (const { session, question } of shop.turns) {
    chats[session] ??= agent.chat({ sessionId: session });
    await chats[session].send(question);
  }
}

await { flow: runFlow, agent: runAgent }[process.argv[2]]();
await processor.forceFlush();
process.exit(0);
