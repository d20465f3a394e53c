import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.core.JsonValue;
import com.openai.helpers.ChatCompletionAccumulator;
import com.openai.models.FunctionDefinition;
import com.openai.models.FunctionParameters;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.chat.completions.ChatCompletionFunctionTool;
import com.openai.models.chat.completions.ChatCompletionMessage;
import com.openai.models.chat.completions.ChatCompletionStreamOptions;
import com.openai.models.chat.completions.ChatCompletionToolMessageParam;
import io.opentelemetry.instrumentation.openai.v1_1.OpenAITelemetry;
import io.opentelemetry.sdk.autoconfigure.AutoConfiguredOpenTelemetrySdk;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** A loop around the OpenAI SDK under OpenTelemetry's instrumentation, whole answers or streamed ones. */
public class Agent {

    private static final ObjectMapper JSON = new ObjectMapper();
    private static boolean streams;
    private static OpenAIClient client;

    public static void main(String[] arguments) throws Exception {
        streams = List.of(arguments).contains("stream");
        var sdk = AutoConfiguredOpenTelemetrySdk.initialize().getOpenTelemetrySdk();
        var telemetry = OpenAITelemetry.builder(sdk).setCaptureMessageContent(true).build();
        client = telemetry.wrap(OpenAIOkHttpClient.fromEnv());
        var helper = Conversation.SHOP.agents().get(0);
        var sessions = new HashMap<String, ChatCompletionCreateParams.Builder>();
        for (var turn : Conversation.SHOP.turns()) {
            var request = sessions.computeIfAbsent(turn.session(), x -> begun(helper));
            request.addUserMessage(turn.question());
            var message = answered(request.build());
            request.addMessage(message);
            while (!message.toolCalls().orElse(List.of()).isEmpty()) {
                for (var call : message.toolCalls().get()) {
                    var asked = call.asFunction().function();
                    var given = JSON.readValue(asked.arguments(), new TypeReference<Map<String, Object>>() {});
                    var result = JSON.writeValueAsString(Conversation.SHOP.run(asked.name(), given));
                    request.addMessage(ChatCompletionToolMessageParam.builder()
                            .toolCallId(call.asFunction().id())
                            .content(result)
                            .build());
                }
                message = answered(request.build());
                request.addMessage(message);
            }
        }
        sdk.close();
        System.exit(0); // OkHttp's threads would stay
    }

    private static ChatCompletionCreateParams.Builder begun(Conversation.Agent helper) {
        var request = ChatCompletionCreateParams.builder().model("gpt-4o-mini").addSystemMessage(helper.instructions());
        if (streams) request.streamOptions(ChatCompletionStreamOptions.builder().includeUsage(true).build());
        for (var tool : helper.tools()) {
            var parameters = FunctionParameters.builder();
            tool.parameters().properties().forEach(x ->
                    parameters.putAdditionalProperty(x.getKey(), JsonValue.fromJsonNode(x.getValue())));
            var function = FunctionDefinition.builder()
                    .name(tool.name())
                    .description(tool.description())
                    .parameters(parameters.build())
                    .build();
            request.addTool(ChatCompletionFunctionTool.builder().function(function).build());
        }
        return request;
    }

    private static ChatCompletionMessage answered(ChatCompletionCreateParams request) {
        if (!streams) return client.chat().completions().create(request).choices().get(0).message();
        var whole = ChatCompletionAccumulator.create();
        try (var stream = client.chat().completions().createStreaming(request)) {
            stream.stream().forEach(whole::accumulate);
        }
        return whole.chatCompletion().choices().get(0).message();
    }
}
