import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;

/** The conversations of conversation.py for scripts in Java; record.py writes conversation.json beside it. */
public record Conversation(List<Agent> agents, List<Turn> turns) {

    public record Tool(String name, String description, JsonNode parameters) {}

    public record Agent(String name, String instructions, List<Tool> tools) {}

    public record Call(String name, Map<String, Object> arguments, Object result) {}

    public record Step(List<Call> calls) {}

    public record Turn(String session, String user, String question, List<Step> steps) {}

    public static final Conversation SHOP = read("shop");
    public static final Conversation DESK = read("desk");

    private static Conversation read(String name) {
        var mapper = new ObjectMapper().configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
        try {
            return mapper.convertValue(mapper.readTree(new File("conversation.json")).get(name), Conversation.class);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** What a tool returns for these arguments; those that have a default may be given or left out. */
    public Object run(String tool, Map<String, ?> arguments) {
        var asked = filled(tool, arguments);
        for (var turn : turns)
            for (var step : turn.steps())
                for (var call : step.calls())
                    if (call.name().equals(tool) && filled(tool, call.arguments()).equals(asked)) return call.result();
        throw new NoSuchElementException("no such call in the conversation: " + tool + " " + arguments);
    }

    private Map<String, String> filled(String tool, Map<String, ?> arguments) {
        var filled = new HashMap<String, String>();
        for (var agent : agents)
            for (var known : agent.tools())
                if (known.name().equals(tool))
                    known.parameters().get("properties").properties().forEach(x -> {
                        if (x.getValue().has("default")) filled.put(x.getKey(), x.getValue().get("default").asText());
                    });
        arguments.forEach((key, value) -> {
            if (value != null) filled.put(key, value.toString());
        });
        return filled;
    }
}
