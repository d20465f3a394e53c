// An agent without any framework, whose spans are set by hand with OpenTelemetry's API: agent, model calls and tools.
import { SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { shop } from "./conversation.mjs";

const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
provider.register();
const tracer = trace.getTracer("shop-agent", "1.0.0");

const [helper] = shop.agents;
const definitions = helper.tools.map(({ name, description, parameters }) => ({
  type: "function",
  name,
  description,
  parameters,
}));
const said = {};

const text = (role, content) => ({ role, parts: [{ type: "text", content }] });

// The messages of a request to OpenAI as OpenTelemetry has them.
const written = ({ role, content, tool_calls: calls = [], tool_call_id: id }) => ({
  role,
  parts: [
    ...(role === "tool" ? [{ type: "tool_call_response", id, response: content }] : []),
    ...(content && role !== "tool" ? [{ type: "text", content }] : []),
    ...calls.map((x) => ({
      type: "tool_call",
      id: x.id,
      name: x.function.name,
      arguments: JSON.parse(x.function.arguments),
    })),
  ],
});

function spanned(name, options, work) {
  return tracer.startActiveSpan(name, options, async (span) => {
    try {
      return await work(span);
    } catch (error) {
      span.recordException(error);
      span.setAttribute("error.type", error.name);
      span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
      throw error;
    } finally {
      span.end();
    }
  });
}

const asked = (messages) =>
  spanned("chat gpt-4o-mini", { kind: SpanKind.CLIENT }, async (span) => {
    span.setAttributes({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai",
      "gen_ai.request.model": "gpt-4o-mini",
      "gen_ai.input.messages": JSON.stringify(messages.map(written)),
    });
    const response = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer none" },
      body: JSON.stringify({
        model: "gpt-4o-mini",
        messages,
        tools: definitions.map(({ type, ...fields }) => ({ type, function: fields })),
      }),
    });
    const { id, model, choices, usage } = await response.json();
    const [{ message, finish_reason: reason }] = choices;
    span.setAttributes({
      "gen_ai.response.id": id,
      "gen_ai.response.model": model,
      "gen_ai.response.finish_reasons": [reason],
      "gen_ai.output.messages": JSON.stringify([{ ...written(message), finish_reason: reason }]),
      "gen_ai.usage.input_tokens": usage.prompt_tokens,
      "gen_ai.usage.output_tokens": usage.completion_tokens,
    });
    return message;
  });

const ran = ({ id, function: { name, arguments: given } }) =>
  spanned(`execute_tool ${name}`, {}, (span) => {
    const tool = helper.tools.find((x) => x.name === name);
    span.setAttributes({
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": name,
      "gen_ai.tool.type": "function",
      "gen_ai.tool.call.id": id,
      "gen_ai.tool.call.arguments": given,
    });
    const result = JSON.stringify(tool.run(JSON.parse(given)));
    span.setAttribute("gen_ai.tool.call.result", result);
    return result;
  });

const turn = ({ session, user, question, steps }) =>
  spanned(`invoke_agent ${helper.name}`, {}, async (span) => {
    span.setAttributes({
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.name": helper.name,
      "gen_ai.conversation.id": session,
      "user.id": user,
      "gen_ai.system_instructions": JSON.stringify([{ type: "text", content: helper.instructions }]),
      "gen_ai.tool.definitions": JSON.stringify(definitions),
      "gen_ai.input.messages": JSON.stringify([text("user", question)]),
      "spanscore.expected.answer": steps.at(-1).text,
      "spanscore.expected.tools": steps.flatMap((x) => x.calls.map((call) => call.name)),
      "spanscore.expected.outcomes": ["No number was guessed."],
    });
    const messages = (said[session] ??= [{ role: "system", content: helper.instructions }]);
    messages.push({ role: "user", content: question });
    for (;;) {
      const message = await asked([...messages]);
      messages.push(message);
      if (!message.tool_calls?.length) {
        span.setAttribute("gen_ai.output.messages", JSON.stringify([text("assistant", message.content)]));
        return;
      }
      if (message.content) span.setAttribute("spanscore.plan", message.content);
      for (const call of message.tool_calls) {
        messages.push({ role: "tool", tool_call_id: call.id, content: await ran(call) });
      }
    }
  });

for (const each of shop.turns) {
  await turn(each);
}
await provider.shutdown();
