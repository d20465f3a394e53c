// Codex without its terminal: one `codex exec` a turn, resumed within a session; its tools come from an MCP server.
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { shop } from "./conversation.mjs";

const { HOME, OPENAI_BASE_URL, OTEL_EXPORTER_OTLP_ENDPOINT: otlp } = process.env;
const [helper] = shop.agents;
const exporter = (signal) => `{ otlp-http = { endpoint = "${otlp}/v1/${signal}", protocol = "binary" } }`;

mkdirSync(`${HOME}/.codex`, { recursive: true });
writeFileSync(
  `${HOME}/.codex/config.toml`,
  `model = "gpt-5"
model_provider = "script"
approval_policy = "never"
sandbox_mode = "danger-full-access"
developer_instructions = ${JSON.stringify(helper.instructions)}

[model_providers.script]
name = "script"
base_url = "${OPENAI_BASE_URL}"
wire_api = "responses"
env_key = "OPENAI_API_KEY"

[mcp_servers.shop]
command = "node"
args = ["${process.cwd()}/server.mjs"]
default_tools_approval_mode = "approve"
required = true

[otel]
log_user_prompt = true
exporter = ${exporter("logs")}
${process.argv[2] === "traces" ? `trace_exporter = ${exporter("traces")}` : ""}
`,
);

let session;
for (const turn of shop.turns) {
  const resume = turn.session === session ? ["resume", "--last"] : [];
  session = turn.session;
  const run = spawnSync("codex", ["exec", "--skip-git-repo-check", ...resume, turn.question], {
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (run.status !== 0) process.exit(1);
}
