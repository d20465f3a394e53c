import com.google.adk.agents.LlmAgent;
import com.google.adk.models.Gemini;
import com.google.adk.runner.InMemoryRunner;
import com.google.adk.tools.Annotations.Schema;
import com.google.adk.tools.BaseTool;
import com.google.adk.tools.FunctionTool;
import com.google.adk.tools.ToolContext;
import com.google.genai.Client;
import com.google.genai.types.Content;
import com.google.genai.types.FunctionDeclaration;
import com.google.genai.types.HttpOptions;
import com.google.genai.types.Part;
import io.opentelemetry.sdk.autoconfigure.AutoConfiguredOpenTelemetrySdk;
import io.reactivex.rxjava3.core.Single;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** An agent of Google's ADK for Java, whose sessions keep what was said. */
public class Agent {

    @Schema(name = "stock_level", description = "Count the units of an article that are in stock at a site.")
    public static Integer stockLevel(
            @Schema(name = "sku") String sku, @Schema(name = "site", optional = true) String site) {
        return (Integer) run("stock_level", "sku", sku, "site", site);
    }

    @Schema(name = "article_note", description = "Read the note that the staff left on an article, if any.")
    public static String articleNote(@Schema(name = "sku") String sku) {
        return (String) run("article_note", "sku", sku);
    }

    @SuppressWarnings("unchecked")
    @Schema(name = "find_articles", description = "Search the catalogue by name.")
    public static List<Map<String, Object>> findArticles(
            @Schema(name = "query") String query, @Schema(name = "limit", optional = true) Integer limit) {
        return (List<Map<String, Object>>) run("find_articles", "query", query, "limit", limit);
    }

    @Schema(name = "on_sale", description = "Tell whether an article is on sale this week.")
    public static Boolean onSale(@Schema(name = "sku") String sku) {
        return (Boolean) run("on_sale", "sku", sku);
    }

    /** A tool that returns an object or a text, which is put into one as ADK does it. */
    static class Reserve extends BaseTool {
        Reserve() {
            super("reserve", "Reserve units of an article for a customer.");
        }

        @Override
        public Optional<FunctionDeclaration> declaration() {
            var tool = Conversation.SHOP.agents().get(0).tools().stream().filter(x -> x.name().equals(name())).findAny();
            return tool.map(x -> FunctionDeclaration.builder()
                    .name(x.name())
                    .description(x.description())
                    .parametersJsonSchema(x.parameters())
                    .build());
        }

        @SuppressWarnings("unchecked")
        @Override
        public Single<Map<String, Object>> runAsync(Map<String, Object> arguments, ToolContext context) {
            var result = Conversation.SHOP.run(name(), arguments);
            return Single.just(result instanceof Map ? (Map<String, Object>) result : Map.of("result", result));
        }
    }

    private static Object run(String tool, Object... given) {
        var arguments = new HashMap<String, Object>();
        for (int i = 0; i < given.length; i += 2) arguments.put((String) given[i], given[i + 1]);
        return Conversation.SHOP.run(tool, arguments);
    }

    public static void main(String[] arguments) {
        var sdk = AutoConfiguredOpenTelemetrySdk.builder().setResultAsGlobal().build().getOpenTelemetrySdk();
        var url = HttpOptions.builder().baseUrl(System.getenv("GOOGLE_GEMINI_BASE_URL")).build();
        var client = Client.builder().apiKey("none").httpOptions(url).build();
        var helper = Conversation.SHOP.agents().get(0);
        var agent = LlmAgent.builder()
                .name(helper.name())
                .instruction(helper.instructions())
                .model(Gemini.builder().modelName("gemini-2.0-flash").apiClient(client).build())
                .tools(
                        FunctionTool.create(Agent.class, "stockLevel"),
                        FunctionTool.create(Agent.class, "articleNote"),
                        FunctionTool.create(Agent.class, "findArticles"),
                        new Reserve(),
                        FunctionTool.create(Agent.class, "onSale"))
                .build();
        var runner = new InMemoryRunner(agent, "shop");
        var known = new HashSet<String>();
        for (var turn : Conversation.SHOP.turns()) {
            if (known.add(turn.session()))
                runner.sessionService().createSession("shop", turn.user(), null, turn.session()).blockingGet();
            var question = Content.fromParts(Part.fromText(turn.question()));
            runner.runAsync(turn.user(), turn.session(), question).blockingSubscribe();
        }
        sdk.close();
        System.exit(0); // the HTTP client's threads would stay
    }
}
