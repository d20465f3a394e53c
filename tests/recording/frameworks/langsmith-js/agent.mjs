// A loop around OpenAI's chat completions, its agent, tools and client traced by LangSmith's SDK.
import { RunTree } from "langsmith";
import { initializeOTEL } from "langsmith/experimental/otel/setup";
import { traceable } from "langsmith/traceable";
import { wrapOpenAI } from "langsmith/wrappers";
import OpenAI from "openai";
import { shop } from "./conversation.mjs";

const { DEFAULT_LANGSMITH_SPAN_PROCESSOR: processor } = initializeOTEL({
  exporterConfig: { url: `${process.env.OTEL_EXPORTER_OTLP_ENDPOINT}/v1/traces`, projectName: "shop" },
});
const client = wrapOpenAI(new OpenAI());
const [helper] = shop.agents;
const run = Object.fromEntries(
  helper.tools.map((x) => [x.name, traceable(async (args) => x.run(args), { name: x.name, run_type: "tool" })]),
);
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
  const metadata = { session_id: session, user_id: user };
  const agent = traceable((asked) => answer(session, asked), { name: helper.name, run_type: "chain", metadata });
  await agent(question);
}
await RunTree.getSharedClient().awaitPendingTraceBatches();
await processor.shutdown();
