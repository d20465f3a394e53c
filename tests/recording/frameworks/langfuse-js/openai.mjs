// A loop around OpenAI's chat completions, observed by Langfuse's SDK.
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
  function: { name, description, parameters },
}));
const said = {};

async function answer(session, question) {
  const messages = (said[session] ??= [{ role: "system", content: helper.instructions }]);
  messages.push({ role: "user", content: question });
  for (;;) {
    const completion = await client.chat.completions.create({ model: "gpt-4o-mini", messages: [...messages], tools });
    const { message } = completion.choices[0];
    messages.push(message);
    if (!message.tool_calls?.length) return message.content;
    for (const { id, function: asked } of message.tool_calls) {
      const content = JSON.stringify(await run[asked.name](JSON.parse(asked.arguments)));
      messages.push({ role: "tool", tool_call_id: id, content });
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
