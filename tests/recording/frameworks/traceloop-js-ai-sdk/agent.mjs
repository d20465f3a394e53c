// The Vercel AI SDK's generateText, traced by Traceloop's SDK.
import { createOpenAI } from "@ai-sdk/openai";
import * as traceloop from "@traceloop/node-server-sdk";
import { generateText, jsonSchema, stepCountIs, tool } from "ai";
import { shop } from "./conversation.mjs";

traceloop.initialize({
  appName: "shop",
  baseUrl: process.env.OTEL_EXPORTER_OTLP_ENDPOINT,
  apiKey: "none",
  disableBatch: true,
  silenceInitializationMessage: true,
});

const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: "none" });
const [helper] = shop.agents;
const tools = Object.fromEntries(
  helper.tools.map(({ name, description, parameters, run }) => [
    name,
    tool({ description, inputSchema: jsonSchema(parameters), execute: async (args) => run(args) }),
  ]),
);

const said = {};
for (const { session, user, question } of shop.turns) {
  const messages = [...(said[session] ?? []), { role: "user", content: question }];
  const result = await generateText({
    model: openai.chat("gpt-4o-mini"),
    system: helper.instructions,
    messages,
    tools,
    stopWhen: stepCountIs(8),
    experimental_telemetry: {
      isEnabled: true,
      functionId: helper.name,
      metadata: { sessionId: session, userId: user },
    },
  });
  said[session] = [...messages, ...result.response.messages];
}
await traceloop.forceFlush();
