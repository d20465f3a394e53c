// The conversations of conversation.py for scripts in JavaScript; record.py writes conversation.json beside it.
import { readFileSync } from "node:fs";

const all = JSON.parse(readFileSync(new URL("./conversation.json", import.meta.url), "utf8"));

const sorted = (value) => JSON.stringify(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));

function withTools(conversation) {
  const calls = conversation.turns.flatMap((turn) => turn.steps.flatMap((step) => step.calls));
  const fill = (tool, args) => {
    const defaults = Object.entries(tool.parameters.properties).filter(([, x]) => "default" in x);
    return sorted({ ...Object.fromEntries(defaults.map(([name, x]) => [name, x.default])), ...args });
  };
  const runnable = (tool) => ({
    ...tool,
    // What the tool returns for these arguments; defaults may be given or left out.
    run: (args) => {
      const call = calls.find((x) => x.name === tool.name && fill(tool, x.arguments) === fill(tool, args));
      if (!call) throw new Error(`no such call in the conversation: ${tool.name} ${JSON.stringify(args)}`);
      return call.result;
    },
  });
  return {
    ...conversation,
    agents: conversation.agents.map((agent) => ({ ...agent, tools: agent.tools.map(runnable) })),
  };
}

export const shop = withTools(all.shop);
export const desk = withTools(all.desk);
