import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.sdk.autoconfigure.AutoConfiguredOpenTelemetrySdk;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** An agent without any framework that sets attributes on a span for each turn and one for each tool call, no more. */
public class Agent {

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HttpClient HTTP = HttpClient.newHttpClient();
    private static final Conversation.Agent HELPER = Conversation.SHOP.agents().get(0);
    private static Tracer tracer;

    public static void main(String[] arguments) throws Exception {
        var sdk = AutoConfiguredOpenTelemetrySdk.initialize().getOpenTelemetrySdk();
        tracer = sdk.getTracer("com.example.shop");
        var sessions = new HashMap<String, ArrayNode>();
        for (var turn : Conversation.SHOP.turns())
            answer(turn, sessions.computeIfAbsent(turn.session(), x -> begun()));
        sdk.close();
    }

    private static ArrayNode begun() {
        var messages = JSON.createArrayNode();
        messages.addObject().put("role", "system").put("content", HELPER.instructions());
        return messages;
    }

    private static void answer(Conversation.Turn turn, ArrayNode messages) throws Exception {
        messages.addObject().put("role", "user").put("content", turn.question());
        var span = tracer.spanBuilder("invoke_agent " + HELPER.name()).startSpan();
        try (var scope = span.makeCurrent()) {
            span.setAttribute("gen_ai.operation.name", "invoke_agent");
            span.setAttribute("gen_ai.agent.name", HELPER.name());
            span.setAttribute("session.id", turn.session());
            span.setAttribute("user.id", turn.user());
            span.setAttribute("gen_ai.input.messages", JSON.writeValueAsString(messages));
            span.setAttribute("gen_ai.tool.definitions", JSON.writeValueAsString(HELPER.tools()));
            span.setAttribute(AttributeKey.stringArrayKey("spanscore.expected.outcomes"),
                    List.of("No number was guessed."));
            span.setAttribute("spanscore.expected.tools", JSON.writeValueAsString(expected(turn)));
            span.setAttribute("spanscore.expected.tool_sequence_matters", false);
            var message = asked(messages);
            while (message.path("tool_calls").size() > 0) {
                if (!message.path("content").asText("").isEmpty())
                    span.setAttribute("spanscore.plan", message.get("content").asText());
                for (var call : message.get("tool_calls"))
                    messages.addObject()
                            .put("role", "tool")
                            .put("tool_call_id", call.get("id").asText())
                            .put("content", ran(call));
                message = asked(messages);
            }
            span.setAttribute("gen_ai.output.messages", JSON.writeValueAsString(List.of(message)));
        } finally {
            span.end();
        }
    }

    private static List<Map<String, Object>> expected(Conversation.Turn turn) {
        return turn.steps().stream()
                .flatMap(step -> step.calls().stream())
                .map(call -> Map.<String, Object>of("name", call.name(), "arguments", call.arguments()))
                .toList();
    }

    private static JsonNode asked(ArrayNode messages) throws Exception {
        ObjectNode body = JSON.createObjectNode().put("model", "gpt-4o-mini");
        body.set("messages", messages);
        for (var tool : HELPER.tools())
            body.withArray("tools").addObject().put("type", "function").set("function", JSON.valueToTree(tool));
        var request = HttpRequest.newBuilder(URI.create(System.getenv("OPENAI_BASE_URL") + "/chat/completions"))
                .header("content-type", "application/json")
                .header("authorization", "Bearer none")
                .POST(HttpRequest.BodyPublishers.ofString(JSON.writeValueAsString(body)))
                .build();
        var answer = JSON.readTree(HTTP.send(request, BodyHandlers.ofString()).body());
        var message = answer.get("choices").get(0).get("message");
        messages.add(message);
        return message;
    }

    private static String ran(JsonNode call) throws Exception {
        var name = call.get("function").get("name").asText();
        var given = call.get("function").get("arguments").asText();
        Span span = tracer.spanBuilder("execute_tool " + name).startSpan();
        try (var scope = span.makeCurrent()) {
            span.setAttribute("gen_ai.operation.name", "execute_tool");
            span.setAttribute("gen_ai.tool.name", name);
            span.setAttribute("gen_ai.tool.call.id", call.get("id").asText());
            span.setAttribute("gen_ai.tool.call.arguments", given);
            var result = JSON.writeValueAsString(Conversation.SHOP.run(name, JSON.readValue(given, Map.class)));
            span.setAttribute("gen_ai.tool.call.result", result);
            return result;
        } finally {
            span.end();
        }
    }
}
