// A loop around OpenAI's Responses, streamed, observed by Langfuse's SDK.
import { LangfuseSpanProcessor } from "@langfuse/otel";
import { observeOpenAI } from "@langfuse/openai";
import { observe, propagateAttributes, startActiveObservation } from "@langfuse/tracing";
import { NodeSDK } from "@opentelemetry/sdk-node";
import OpenAI from "openai";
import { shop } from "./conversation.mjs";

const processor = new LangfuseSpanProcessor({
  publicKey: "none",
  secretKey: "none",
  baseUrl: process.env.OTEL_EXPORTER_OTLP_ENDPOINT,
});
const sdk = new NodeSDK({ spanProcessors: [processor] });
sdk.start();

const client = observeOpenAI(new OpenAI());
const [helper] = shop.agents;
const run = Object.fromEntries(helper.tools.map((x) => [x.name, observe(x.run, { name: x.name, asType: "tool" })]));
const tools = helper.tools.map(({ name, description, parameters }) => ({
  type: "function",
  name,
  description,
  parameters,
}));
const said = {};

async function respond(input) {
  const request = { model: "gpt-4o-mini", instructions: helper.instructions, input, tools, stream: true };
  const events = await client.responses.create(request);
  let last;
  for await (const event of events) if (event.type === "response.completed") last = event.response;
  return last;
}

async function answer(session, question) {
  const items = (said[session] ??= []);
  items.push({ role: "user", content: question });
  for (;;) {
    const response = await respond([...items]);
    items.push(...response.output);
    const asked = response.output.filter((x) => x.type === "function_call");
    if (!asked.length) return response.output_text ?? response.output.at(-1).content[0].text;
    for (const { call_id, name, arguments: given } of asked) {
      items.push({ type: "function_call_output", call_id, output: JSON.stringify(await run[name](JSON.parse(given))) });
    }
  }
}

for (const { session, user, question } of shop.turns) {
  await propagateAttributes({ sessionId: session, userId: user }, () =>
    startActiveObservation(
      helper.name,
      async (agent) => agent.update({ input: question, output: await answer(session, question) }),
      { asType: "agent" },
    ),
  );
}
await processor.forceFlush();
await sdk.shutdown();
