"""Open what tools were called with, what they returned and how they were described, in every
provider's spelling.
"""

from functools import lru_cache
from typing import Any

from spanscore.dialects.forms.ids import identity
from spanscore.dialects.forms.structure import is_redacted, opened, structure
from spanscore.model.json import Json, printed
from spanscore.model.trace import Tool

_NO_ID = "<not specified>"  # Google ADK's
_WRAPPED = ("function", "custom", "toolSpec")  # OpenAI's and Bedrock's
_SCHEMAS = (
    "parameters",
    "input_schema",
    "parameters_json_schema",
    "parametersJsonSchema",
    "inputSchema",
)
_BLOCK_KEYS = frozenset(
    {"type", "text", "content", "annotations", "citations", "id", "cache_control", "extras"}
)


def arguments(value: Any) -> Json:
    """Arguments as a JSON value; text that is no JSON stays text, since a model may have written it
    wrongly.

    >>> arguments('{"city": "Paris"}'), arguments(""), arguments('{"city": "Par')
    ({'city': 'Paris'}, {}, '{"city": "Par')
    """
    return {} if value == "" else opened(value)


def result(value: Any) -> Json:
    """A tool's result as a message carries it: a list of text blocks is opened to its text, JSON
    text to its value.

    >>> result([{"type": "text", "text": "[1, 2]"}]), result([]), result("false"), result("15C")
    ([1, 2], [], False, '15C')
    """
    if isinstance(value, list) and value and all(_is_text_block(x) for x in value):
        value = "\n".join(str(_block_text(x)) for x in value)
    return opened(value)


def failure(returned: object) -> str:
    """The text of an error whose text is what a failed call returned; "error" where it returned
    nothing that can be read, since an empty text would be none.

    >>> failure("locked"), failure({"code": 5}), failure(" "), failure(None)
    ('locked', '{"code":5}', 'error', 'error')
    """
    stated = "" if returned is None else printed(returned)
    return stated if stated.strip() else "error"


def call_id(value: object) -> str | None:
    """A call id, or None where it is hidden.

    Of several (`fc_…` and `call_…`) the one that results refer to.
    """
    if isinstance(value, list):
        named = [x for x in value if isinstance(x, str)]
        value = next((x for x in named if x.startswith("call_")), named[0] if named else None)
    found = identity(value)
    if found is None or (found[-1] in "]>*_ \n" and (found == _NO_ID or is_redacted(found))):
        return None
    return found


def tools(value: Any) -> tuple[Tool, ...] | None:
    """The tools that a list of definitions names; None where nothing can be read.

    An unreadable definition is left out.

    >>> found = tools('[{"type": "function", "function": {"name": "f"}}, "g"]')
    >>> found[0], len(found)
    (Tool(name='f', description=None, parameters=None), 2)
    """
    return _tools_of_text(value) if isinstance(value, str) else _tools_of(structure(value).value)


# every call of an agent repeats the same definitions, and so does its next trace
@lru_cache(maxsize=64)
def _tools_of_text(text: str) -> tuple[Tool, ...] | None:
    return _tools_of(structure(text).value)


def _tools_of(definitions: Any) -> tuple[Tool, ...] | None:
    if isinstance(definitions, dict):
        definitions = [definitions]
    if not isinstance(definitions, list):
        return None
    single: list[Any] = []
    for listed in definitions:
        definition = structure(listed).value if isinstance(listed, str) else listed
        declared = _declared(definition)
        single += declared if isinstance(declared, list) else [definition]
    return tuple(tool for tool in map(_tool, single) if tool is not None)


def _declared(definition: Any) -> Any:
    """What Gemini lists inside of one tool."""
    if not isinstance(definition, dict):
        return None
    return definition.get("function_declarations", definition.get("functionDeclarations"))


def _tool(definition: Any) -> Tool | None:
    if isinstance(definition, str):
        return Tool(definition) if definition else None
    if isinstance(definition, dict):
        definition = next(
            (definition[x] for x in _WRAPPED if isinstance(definition.get(x), dict)), definition
        )
    if not isinstance(definition, dict) or not isinstance(definition.get("name"), str):
        return None
    description = definition.get("description", definition.get("desc"))
    schema = next((x for x in map(definition.get, _SCHEMAS) if x is not None), None)
    if isinstance(schema, str):
        schema = opened(schema)
    elif isinstance(schema, dict) and schema.keys() == {"json"}:  # Bedrock's
        schema = schema["json"]
    return Tool(definition["name"], description if isinstance(description, str) else None, schema)


def _is_text_block(block: object) -> bool:
    return (
        isinstance(block, dict)
        # no set: it may be unhashable
        and block.get("type") in ("text", "output_text", "input_text")
        and isinstance(_block_text(block), str)
        and _BLOCK_KEYS.issuperset(block)
    )


def _block_text(block: dict[str, Any]) -> Any:
    return block.get("text", block.get("content"))
