// Gemini CLI without its terminal: one `gemini -p` a turn, resumed within a session; its tools come from an MCP server.
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { shop } from "./conversation.mjs";

const { HOME, OTEL_EXPORTER_OTLP_ENDPOINT: otlp } = process.env;
const [helper] = shop.agents;
const without = `activate_skill enter_plan_mode glob google_web_search grep_search invoke_agent
  list_background_processes list_directory read_background_output read_file replace run_shell_command update_topic
  web_fetch write_file write_todos`.split(/\s+/); // Gemini CLI's own tools, to keep the recording small

mkdirSync(`${HOME}/.gemini`, { recursive: true });
writeFileSync(`${HOME}/system.md`, helper.instructions);
writeFileSync(
  `${HOME}/.gemini/settings.json`,
  JSON.stringify({
    mcpServers: { shop: { command: "node", args: [`${process.cwd()}/server.mjs`], trust: true } },
    security: { auth: { selectedType: "gemini-api-key" } },
    telemetry: {
      enabled: true,
      target: "local",
      otlpEndpoint: otlp,
      otlpProtocol: "http",
      logPrompts: true,
      traces: process.argv[2] === "traces",
    },
    tools: { exclude: without },
  }),
);

let session;
for (const turn of shop.turns) {
  const resume = turn.session === session ? ["-r", "latest"] : [];
  session = turn.session;
  const run = spawnSync("gemini", ["-m", "gemini-2.5-flash", "--yolo", ...resume, "-p", turn.question], {
    env: { ...process.env, GEMINI_SYSTEM_MD: `${HOME}/system.md`, GEMINI_CLI_TRUST_WORKSPACE: "true" },
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (run.status !== 0) process.exit(1);
}
