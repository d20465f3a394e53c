// GitHub Copilot CLI without its terminal: one `copilot -p` a turn, its tools from an MCP server.
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { shop } from "./conversation.mjs";

const [helper] = shop.agents;
const servers = { shop: { command: "node", args: [`${process.cwd()}/server.mjs`], tools: ["*"] } };
writeFileSync("AGENTS.md", helper.instructions);

let session;
for (const turn of shop.turns) {
  const goOn = turn.session === session ? ["--continue"] : [];
  session = turn.session;
  const options = [
    "--allow-all",
    "--disable-builtin-mcps",
    "--available-tools",
    helper.tools.map((tool) => `shop-${tool.name}`).join(","),
    "--additional-mcp-config",
    JSON.stringify({ mcpServers: servers }),
  ];
  const run = spawnSync("copilot", [...goOn, ...options, "-p", turn.question], {
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (run.status !== 0) process.exit(1);
}
