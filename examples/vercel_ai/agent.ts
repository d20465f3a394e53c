// An agent on Vercel's AI SDK, whose spans go to spanscore by OTLP: OTEL_EXPORTER_OTLP_ENDPOINT says where.
import { openai } from "@ai-sdk/openai";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { generateText, stepCountIs, tool } from "ai";
import { z } from "zod";

const telemetry = new NodeSDK({ serviceName: "shop", traceExporter: new OTLPTraceExporter() });
telemetry.start();

const findOrder = tool({
  description: "Find an order by its number.",
  inputSchema: z.object({ order_id: z.string() }),
  execute: async ({ order_id }) => ({ order_id, total_usd: 59.9, status: "lost on its way" }),
});

const refund = tool({
  description: "Pay the price of an order back.",
  inputSchema: z.object({ order_id: z.string(), amount_usd: z.number() }),
  execute: async ({ order_id, amount_usd }) => ({ order_id, refunded_usd: amount_usd }),
});

const { text } = await generateText({
  model: openai(process.env.MODEL ?? "gpt-4o-mini"),
  system: "You help a shop's customers.",
  prompt: process.argv.slice(2).join(" ") || "I want my money back for order SO-4821.",
  tools: { find_order: findOrder, refund },
  stopWhen: stepCountIs(10),
  experimental_telemetry: { isEnabled: true, functionId: "shop" },
});
console.log(text);
await telemetry.shutdown();
