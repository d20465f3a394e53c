// An agent of Strands for TypeScript on Bedrock's Converse, an agent a session, under its own tracer.
import { NodeHttpHandler } from "@smithy/node-http-handler";
import { Agent, BedrockModel, tool } from "@strands-agents/sdk";
import { setupTracer } from "@strands-agents/sdk/telemetry";
import { shop } from "./conversation.mjs";

const provider = setupTracer({ exporters: { otlp: true } });
const [helper] = shop.agents;
const model = new BedrockModel({
  region: "us-east-1",
  modelId: "anthropic.claude-sonnet-4-5-20250929-v1:0",
  stream: false,
  clientConfig: { endpoint: process.env.AWS_ENDPOINT_URL_BEDROCK_RUNTIME, requestHandler: new NodeHttpHandler() },
});
const tools = helper.tools.map(({ name, description, parameters, run }) =>
  tool({ name, description, inputSchema: parameters, callback: async (args) => run(args) }),
);

const agents = {};
for (const { session, user, question } of shop.turns) {
  agents[session] ??= new Agent({
    name: helper.name,
    model,
    systemPrompt: helper.instructions,
    tools,
    printer: false,
    traceAttributes: { "session.id": session, "user.id": user },
  });
  await agents[session].invoke(question);
}
await provider.shutdown();
