// An agent of OpenAI's Agents SDK; the first argument chooses the API, "stream" as the second one streams.
import { setSession, setUser } from "@arizeai/openinference-core";
import { OpenAIAgentsInstrumentation } from "@arizeai/openinference-instrumentation-openai-agents";
import * as agents from "@openai/agents";
import { context } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { shop } from "./conversation.mjs";

const [api, mode] = process.argv.slice(2);
const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "shop" }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
});
provider.register();
new OpenAIAgentsInstrumentation({ tracerProvider: provider }).manuallyInstrument(agents);
agents.setOpenAIAPI(api);

const [helper] = shop.agents;
const tools = helper.tools.map(({ name, description, parameters, run }) =>
  agents.tool({
    name,
    description,
    parameters: { ...parameters, additionalProperties: false },
    strict: false,
    execute: async (args) => run(args),
  }),
);
const agent = new agents.Agent({ name: helper.name, instructions: helper.instructions, model: "gpt-4o-mini", tools });

const said = {};
for (const turn of shop.turns) {
  const whose = setUser(setSession(context.active(), { sessionId: turn.session }), { userId: turn.user });
  await context.with(whose, async () => {
    const input = [...(said[turn.session] ?? []), { role: "user", content: turn.question }];
    const result = await agents.run(agent, input, { stream: mode === "stream" });
    await result.completed;
    said[turn.session] = result.history;
  });
}
await provider.shutdown();
