import dev.langchain4j.agent.tool.P;
import dev.langchain4j.agent.tool.Tool;
import dev.langchain4j.service.MemoryId;
import dev.langchain4j.service.SystemMessage;
import dev.langchain4j.service.UserMessage;
import dev.langchain4j.service.V;
import io.quarkiverse.langchain4j.RegisterAiService;
import io.quarkus.runtime.QuarkusApplication;
import io.quarkus.runtime.annotations.QuarkusMain;
import jakarta.enterprise.context.ApplicationScoped;
import jakarta.enterprise.context.control.ActivateRequestContext;
import jakarta.inject.Inject;
import java.util.HashMap;

/** An AI service of Quarkus, which keeps what was said in a memory. */
@QuarkusMain
public class Agent implements QuarkusApplication {

    @ApplicationScoped
    public static class Warehouse {
        @Tool(name = "stock_level", value = "Count the units of an article that are in stock at a site.")
        public Object stockLevel(String sku, @P(value = "site", required = false) String site) {
            return run("stock_level", "sku", sku, "site", site);
        }

        @Tool(name = "article_note", value = "Read the note that the staff left on an article, if any.")
        public Object articleNote(String sku) {
            return run("article_note", "sku", sku);
        }

        @Tool(name = "find_articles", value = "Search the catalogue by name.")
        public Object findArticles(String query, @P(value = "limit", required = false) Integer limit) {
            return run("find_articles", "query", query, "limit", limit);
        }

        @Tool(name = "reserve", value = "Reserve units of an article for a customer.")
        public Object reserve(String sku, int quantity, @P(value = "pickup", required = false) Boolean pickup) {
            return run("reserve", "sku", sku, "quantity", quantity, "pickup", pickup);
        }

        @Tool(name = "on_sale", value = "Tell whether an article is on sale this week.")
        public Object onSale(String sku) {
            return run("on_sale", "sku", sku);
        }

        private static Object run(String tool, Object... given) {
            var arguments = new HashMap<String, Object>();
            for (int i = 0; i < given.length; i += 2) arguments.put((String) given[i], given[i + 1]);
            return Conversation.SHOP.run(tool, arguments);
        }
    }

    @ApplicationScoped
    @RegisterAiService(tools = Warehouse.class)
    public interface Helper {
        @SystemMessage("{{instructions}}")
        @UserMessage("{{question}}")
        String answer(@MemoryId String session, @V("question") String question, @V("instructions") String instructions);
    }

    @Inject
    Helper helper;

    @Override
    @ActivateRequestContext
    public int run(String... arguments) {
        var instructions = Conversation.SHOP.agents().get(0).instructions();
        for (var turn : Conversation.SHOP.turns()) helper.answer(turn.session(), turn.question(), instructions);
        return 0;
    }
}
