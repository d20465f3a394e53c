import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.instrumentation.logback.appender.v1_0.OpenTelemetryAppender;

import java.util.HashMap;
import org.springframework.ai.chat.client.ChatClient;
import org.springframework.ai.chat.client.advisor.MessageChatMemoryAdvisor;
import org.springframework.ai.chat.memory.ChatMemory;
import org.springframework.ai.tool.annotation.Tool;
import org.springframework.ai.tool.annotation.ToolParam;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;

/** A chat client with tools and a memory, called or streamed. */
@SpringBootConfiguration
@EnableAutoConfiguration
@Import(Content.class)
public class Agent {

    static class Warehouse {
        @Tool(name = "stock_level", description = "Count the units of an article that are in stock at a site.")
        Object stockLevel(String sku, @ToolParam(required = false) String site) {
            return run("stock_level", "sku", sku, "site", site);
        }

        @Tool(name = "article_note", description = "Read the note that the staff left on an article, if any.")
        Object articleNote(String sku) {
            return run("article_note", "sku", sku);
        }

        @Tool(name = "find_articles", description = "Search the catalogue by name.")
        Object findArticles(String query, @ToolParam(required = false) Integer limit) {
            return run("find_articles", "query", query, "limit", limit);
        }

        @Tool(name = "reserve", description = "Reserve units of an article for a customer.")
        Object reserve(String sku, int quantity, @ToolParam(required = false) Boolean pickup) {
            return run("reserve", "sku", sku, "quantity", quantity, "pickup", pickup);
        }

        @Tool(name = "on_sale", description = "Tell whether an article is on sale this week.")
        Object onSale(String sku) {
            return run("on_sale", "sku", sku);
        }

        private static Object run(String tool, Object... given) {
            var arguments = new HashMap<String, Object>();
            for (int i = 0; i < given.length; i += 2) arguments.put((String) given[i], given[i + 1]);
            return Conversation.SHOP.run(tool, arguments);
        }
    }

    @Bean
    CommandLineRunner talk(ChatClient.Builder builder, ChatMemory memory, OpenTelemetry telemetry) {
        OpenTelemetryAppender.install(telemetry);
        return arguments -> {
            var helper = Conversation.SHOP.agents().get(0);
            var client = builder
                    .defaultSystem(helper.instructions())
                    .defaultTools(new Warehouse())
                    .defaultAdvisors(MessageChatMemoryAdvisor.builder(memory).build())
                    .build();
            for (var turn : Conversation.SHOP.turns()) {
                var request = client.prompt()
                        .user(x -> x.text("{question}").param("question", turn.question()))
                        .advisors(x -> x.param(ChatMemory.CONVERSATION_ID, turn.session()));
                if (arguments.length > 0) request.stream().content().blockLast();
                else request.call().content();
            }
        };
    }

    public static void main(String[] arguments) {
        SpringApplication.exit(SpringApplication.run(Agent.class, arguments));
    }
}
