// The conversation's tools as an MCP server on standard input and output.
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { shop } from "./conversation.mjs";

const { tools } = shop.agents[0];
const server = new Server({ name: "shop", version: "1.0.0" }, { capabilities: { tools: {} } });
server.setRequestHandler(ListToolsRequestSchema, async () => ({
  tools: tools.map(({ name, description, parameters }) => ({ name, description, inputSchema: parameters })),
}));
server.setRequestHandler(CallToolRequestSchema, async ({ params }) => {
  const result = tools.find((x) => x.name === params.name).run(params.arguments ?? {});
  return { content: [{ type: "text", text: typeof result === "string" ? result : JSON.stringify(result) }] };
});
await server.connect(new StdioServerTransport());
