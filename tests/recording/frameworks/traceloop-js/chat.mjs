// A loop around OpenAI's chat completions that sends the whole conversation each time.
import * as traceloop from "@traceloop/node-server-sdk";
import OpenAI from "openai";
import { shop } from "./conversation.mjs";

traceloop.initialize({
  appName: "shop",
  baseUrl: process.env.OTEL_EXPORTER_OTLP_ENDPOINT,
  apiKey: "none",
  disableBatch: true,
  silenceInitializationMessage: true,
  instrumentModules: { openAI: OpenAI },
});

const client = new OpenAI();
const [helper] = shop.agents;
const tools = helper.tools.map(({ name, description, parameters }) => ({
  type: "function",
  function: { name, description, parameters },
}));
const said = {};

async function answer({ session, question }) {
  const messages = (said[session] ??= [{ role: "system", content: helper.instructions }]);
  messages.push({ role: "user", content: question });
  for (;;) {
    const completion = await client.chat.completions.create({ model: "gpt-4o-mini", messages: [...messages], tools });
    const { message } = completion.choices[0];
    messages.push(message);
    if (!message.tool_calls?.length) return message.content;
    for (const call of message.tool_calls) {
      const tool = helper.tools.find((x) => x.name === call.function.name);
      const args = JSON.parse(call.function.arguments);
      const result = await traceloop.withTool({ name: tool.name }, (given) => tool.run(given), args);
      messages.push({ role: "tool", tool_call_id: call.id, content: JSON.stringify(result) });
    }
  }
}

for (const turn of shop.turns) {
  await traceloop.withAssociationProperties({ session_id: turn.session, user_id: turn.user }, () =>
    traceloop.withAgent({ name: helper.name, inputParameters: [{ question: turn.question }] }, answer, turn),
  );
}
await traceloop.forceFlush();
