// A loop around OpenAI's chat completions, with spans for the agent and its tools.
import * as Sentry from "@sentry/node";
import OpenAI from "openai";
import { shop } from "./conversation.mjs";

const client = new OpenAI();
const [helper] = shop.agents;
const tools = helper.tools.map(({ name, description, parameters }) => ({
  type: "function",
  function: { name, description, parameters },
}));
const said = {};

function call({ id, function: { name, arguments: args } }) {
  const attributes = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": name,
    "gen_ai.tool.call.id": id,
    "gen_ai.tool.call.arguments": args,
  };
  return Sentry.startSpan({ name: `execute_tool ${name}`, op: "gen_ai.execute_tool", attributes }, (span) => {
    const result = JSON.stringify(helper.tools.find((x) => x.name === name).run(JSON.parse(args)));
    span.setAttribute("gen_ai.tool.call.result", result);
    return result;
  });
}

async function answer({ session, question }) {
  const messages = (said[session] ??= [{ role: "system", content: helper.instructions }]);
  messages.push({ role: "user", content: question });
  for (;;) {
    const completion = await client.chat.completions.create({ model: "gpt-4o-mini", messages: [...messages], tools });
    const { message } = completion.choices[0];
    messages.push(message);
    if (!message.tool_calls?.length) return message.content;
    for (const asked of message.tool_calls) {
      messages.push({ role: "tool", tool_call_id: asked.id, content: call(asked) });
    }
  }
}

for (const turn of shop.turns) {
  const attributes = {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": helper.name,
    "gen_ai.conversation.id": turn.session,
    "user.id": turn.user,
  };
  await Sentry.startSpan({ name: `invoke_agent ${helper.name}`, op: "gen_ai.invoke_agent", attributes }, () => answer(turn));
}
await Sentry.close(1000);
process.exit(0);
