"""A loop around Google's Gen AI SDK under OpenLIT."""

import os

import openlit
from conversation import SHOP, schema
from google import genai
from google.genai import types

openlit.init(
    otlp_endpoint=os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"], service_name="shop", disable_batch=True
)

client = genai.Client(http_options=types.HttpOptions(base_url=os.environ["GOOGLE_GEMINI_BASE_URL"]))
(agent,) = SHOP.agents
functions = {x.__name__: x for x in agent.tools}
declared = [
    types.FunctionDeclaration(name=name, description=x.__doc__, parameters_json_schema=schema(x))
    for name, x in functions.items()
]
config = types.GenerateContentConfig(
    system_instruction=agent.instructions, tools=[types.Tool(function_declarations=declared)]
)
sessions = {}


@openlit.trace
def answer(question):
    contents = sessions.setdefault(turn.session, [])
    contents.append(types.Content(role="user", parts=[types.Part(text=question)]))
    while True:
        reply = client.models.generate_content(
            model="gemini-2.5-flash", contents=contents, config=config
        )
        contents.append(reply.candidates[0].content)
        if not reply.function_calls:
            return reply.text
        results = [
            types.Part.from_function_response(
                name=x.name, response={"result": functions[x.name](**x.args)}
            )
            for x in reply.function_calls
        ]
        contents.append(types.Content(role="user", parts=results))


for turn in SHOP.turns:
    answer(turn.question)
