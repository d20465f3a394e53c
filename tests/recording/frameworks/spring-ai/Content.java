import io.micrometer.tracing.Tracer;
import org.springframework.ai.chat.client.observation.ChatClientCompletionObservationHandler;
import org.springframework.ai.chat.client.observation.ChatClientObservationContext;
import org.springframework.ai.chat.client.observation.ChatClientPromptContentObservationHandler;
import org.springframework.ai.chat.observation.ChatModelCompletionObservationHandler;
import org.springframework.ai.chat.observation.ChatModelObservationContext;
import org.springframework.ai.chat.observation.ChatModelPromptContentObservationHandler;
import org.springframework.ai.observation.TracingAwareLoggingObservationHandler;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** What `spring.ai.chat.observations.log-prompt` and its like stand for, which with Spring Boot 4 do nothing in 2.0.1. */
@Configuration(proxyBeanMethods = false)
@ConditionalOnProperty("content")
class Content {

    @Bean
    TracingAwareLoggingObservationHandler<ChatModelObservationContext> chatModelPromptContentObservationHandler(
            Tracer tracer) {
        return new TracingAwareLoggingObservationHandler<>(new ChatModelPromptContentObservationHandler(), tracer);
    }

    @Bean
    TracingAwareLoggingObservationHandler<ChatModelObservationContext> chatModelCompletionObservationHandler(
            Tracer tracer) {
        return new TracingAwareLoggingObservationHandler<>(new ChatModelCompletionObservationHandler(), tracer);
    }

    @Bean
    TracingAwareLoggingObservationHandler<ChatClientObservationContext> chatClientPromptContentObservationHandler(
            Tracer tracer) {
        return new TracingAwareLoggingObservationHandler<>(new ChatClientPromptContentObservationHandler(), tracer);
    }

    @Bean
    TracingAwareLoggingObservationHandler<ChatClientObservationContext> chatClientCompletionObservationHandler(
            Tracer tracer) {
        return new TracingAwareLoggingObservationHandler<>(new ChatClientCompletionObservationHandler(), tracer);
    }
}
