// A loop around OpenAI's Responses that sends the whole conversation each time.
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
const tools = helper.tools.map(({ name, description, parameters }) => ({ type: "function", name, description, parameters }));
const said = {};

async function answer(session, question) {
  const input = (said[session] ??= []);
  input.push({ role: "user", content: question });
  for (;;) {
    const response = await client.responses.create({
      model: "gpt-4o-mini",
      instructions: helper.instructions,
      input: [...input],
      tools,
    });
    input.push(...response.output);
    const calls = response.output.filter((x) => x.type === "function_call");
    if (!calls.length) return response.output_text;
    for (const call of calls) {
      const tool = helper.tools.find((x) => x.name === call.name);
      const result = await traceloop.withTool({ name: tool.name }, (args) => tool.run(args), JSON.parse(call.arguments));
      input.push({ type: "function_call_output", call_id: call.call_id, output: JSON.stringify(result) });
    }
  }
}

for (const { session, user, question } of shop.turns) {
  await traceloop.withAssociationProperties({ session_id: session, user_id: user }, () =>
    traceloop.withWorkflow({ name: "shop" }, () => answer(session, question)),
  );
}
await traceloop.forceFlush();
