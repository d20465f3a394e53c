// LangChain's agent with a checkpointer, traced by Traceloop's SDK; a workflow a turn, or none.
import * as callbackManagerModule from "@langchain/core/callbacks/manager";
import * as runnablesModule from "@langchain/core/runnables";
import * as toolsModule from "@langchain/core/tools";
import { MemorySaver } from "@langchain/langgraph";
import { ChatOpenAI } from "@langchain/openai";
import * as traceloop from "@traceloop/node-server-sdk";
import { createAgent, tool } from "langchain";
import { shop } from "./conversation.mjs";

traceloop.initialize({
  appName: "shop",
  baseUrl: process.env.OTEL_EXPORTER_OTLP_ENDPOINT,
  apiKey: "none",
  disableBatch: true,
  silenceInitializationMessage: true,
  instrumentModules: { langchain: { callbackManagerModule, runnablesModule, toolsModule } },
});

const [helper] = shop.agents;
const agent = createAgent({
  name: helper.name,
  model: new ChatOpenAI({ model: "gpt-4o-mini", configuration: { baseURL: process.env.OPENAI_BASE_URL } }),
  systemPrompt: helper.instructions,
  checkpointer: new MemorySaver(),
  tools: helper.tools.map(({ name, description, parameters, run }) =>
    tool(async (args) => JSON.stringify(run(args)), { name, description, schema: parameters }),
  ),
});

for (const { session, user, question } of shop.turns) {
  const input = { messages: [{ role: "user", content: question }] };
  const run = () => agent.invoke(input, { configurable: { thread_id: session } });
  await traceloop.withAssociationProperties({ session_id: session, user_id: user }, () =>
    process.env.NO_WORKFLOW ? run() : traceloop.withWorkflow({ name: helper.name }, run),
  );
}
await traceloop.forceFlush();
