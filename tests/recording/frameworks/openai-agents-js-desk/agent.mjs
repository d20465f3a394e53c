// Two agents of OpenAI's Agents SDK: the front desk hands off to the parcel clerk.
import { setSession, setUser } from "@arizeai/openinference-core";
import { OpenAIAgentsInstrumentation } from "@arizeai/openinference-instrumentation-openai-agents";
import * as agents from "@openai/agents";
import { context } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { desk } from "./conversation.mjs";

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "desk" }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
});
provider.register();
new OpenAIAgentsInstrumentation({ tracerProvider: provider }).manuallyInstrument(agents);

const made = ({ name, instructions, tools }, handoffs) =>
  new agents.Agent({
    name,
    instructions,
    model: "gpt-4o-mini",
    handoffs,
    tools: tools.map((tool) =>
      agents.tool({
        name: tool.name,
        description: tool.description,
        parameters: { ...tool.parameters, additionalProperties: false },
        strict: false,
        execute: async (args) => tool.run(args),
      }),
    ),
  });
const [front, clerk] = desk.agents;
const agent = made(front, [made(clerk, [])]);

const said = {};
for (const turn of desk.turns) {
  const whose = setUser(setSession(context.active(), { sessionId: turn.session }), { userId: turn.user });
  await context.with(whose, async () => {
    const input = [...(said[turn.session] ?? []), { role: "user", content: turn.question }];
    said[turn.session] = (await agents.run(agent, input)).history;
  });
}
await provider.shutdown();
