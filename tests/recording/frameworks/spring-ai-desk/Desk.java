import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.instrumentation.logback.appender.v1_0.OpenTelemetryAppender;
import java.util.Map;
import org.springframework.ai.chat.client.ChatClient;
import org.springframework.ai.chat.client.advisor.MessageChatMemoryAdvisor;
import org.springframework.ai.chat.memory.ChatMemory;
import org.springframework.ai.tool.annotation.Tool;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;

/** A front desk that asks a parcel clerk, another chat client in one of its tools. */
@SpringBootConfiguration
@EnableAutoConfiguration
@Import(Content.class)
public class Desk {

    static class Parcels {
        @Tool(name = "track_parcel", description = "Look up where a parcel is.")
        Object trackParcel(String parcel) {
            return Conversation.DESK.run("track_parcel", Map.of("parcel", parcel));
        }
    }

    static class Counter {
        private final ChatClient clerk;

        Counter(ChatClient clerk) {
            this.clerk = clerk;
        }

        @Tool(name = "opening_hours", description = "Look up the opening hours of the shop.")
        Object openingHours(String day) {
            return Conversation.DESK.run("opening_hours", Map.of("day", day));
        }

        @Tool(name = "parcel_clerk", description = "Ask the parcel clerk.")
        String parcelClerk(String request) {
            return clerk.prompt().user(request).call().content();
        }
    }

    @Bean
    CommandLineRunner talk(ChatClient.Builder builder, ChatMemory memory, OpenTelemetry telemetry) {
        OpenTelemetryAppender.install(telemetry);
        return arguments -> {
            var agents = Conversation.DESK.agents();
            var clerk = builder.clone()
                    .defaultSystem(agents.get(1).instructions())
                    .defaultTools(new Parcels())
                    .build();
            var desk = builder.clone()
                    .defaultSystem(agents.get(0).instructions())
                    .defaultTools(new Counter(clerk))
                    .defaultAdvisors(MessageChatMemoryAdvisor.builder(memory).build())
                    .build();
            for (var turn : Conversation.DESK.turns())
                desk.prompt(turn.question())
                        .advisors(x -> x.param(ChatMemory.CONVERSATION_ID, turn.session()))
                        .call()
                        .content();
        };
    }

    public static void main(String[] arguments) {
        SpringApplication.exit(SpringApplication.run(Desk.class, arguments));
    }
}
