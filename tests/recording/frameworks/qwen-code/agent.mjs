// Qwen Code without its terminal: one `qwen -p` a turn, continued within a session; its tools come from an MCP server.
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { shop } from "./conversation.mjs";

const { HOME, OTEL_EXPORTER_OTLP_ENDPOINT: otlp } = process.env;
const [helper] = shop.agents;
const without = `agent ask_user_question cron_create cron_delete cron_list edit exit_plan_mode glob grep_search list_directory
  lsp read_file run_shell_command save_memory send_message skill task task_stop todo_write tool_search web_fetch web_search
  write_file`.split(/\s+/); // Qwen Code's own tools, to keep the recording small

mkdirSync(`${HOME}/.qwen`, { recursive: true });
writeFileSync(`${HOME}/system.md`, helper.instructions);
writeFileSync(
  `${HOME}/.qwen/settings.json`,
  JSON.stringify({
    mcpServers: { shop: { command: "node", args: [`${process.cwd()}/server.mjs`], trust: true } },
    security: { auth: { selectedType: "openai" } },
    telemetry: { enabled: true, target: "local", otlpEndpoint: otlp, otlpProtocol: "http", logPrompts: true },
    tools: { exclude: without },
  }),
);

let session;
for (const turn of shop.turns) {
  const goOn = turn.session === session ? ["--continue"] : [];
  session = turn.session;
  const options = ["-m", "gpt-4o-mini", "--auth-type", "openai", "--yolo", ...goOn, "-p", turn.question];
  const run = spawnSync("qwen", options, {
    env: { ...process.env, QWEN_SYSTEM_MD: `${HOME}/system.md` },
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (run.status !== 0) process.exit(1);
}
