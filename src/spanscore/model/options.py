"""Models whose fields are described by the docstrings below them, and the options of a
configuration.
"""

import ast
import functools
import inspect
import itertools
import re
from typing import Any

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from spanscore.syntax import tree_of

_WRAPPED = re.compile(r"(?<!\n)\n(?![\n\s*-])")


class Described(BaseModel):
    """A model whose JSON schema describes each field by the docstring below it.

    pydantic's `use_attribute_docstrings` does so too, but reads the source of each class when the
    class is made, which took a sixth of a server's start. Here it is read when a schema is made.
    """

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """See pydantic: the schema, with a description for each field that has none yet."""
        made = handler(core_schema)
        schema = handler.resolve_ref_schema(made)
        if "description" in schema:
            schema["description"] = _unwrapped(schema["description"])
        properties: dict[str, Any] = schema.get("properties", {})
        texts = _texts(cls)
        for name, field in cls.model_fields.items():
            text, key = texts.get(name), _key(name, field)
            if text is None or key not in properties or field.description is not None:
                continue
            described = properties[key]
            if handler.resolve_ref_schema(described).get("description") != text:
                properties[key] = {**described, "description": text}
        return made


class Options(Described):
    """Options of a configuration: they do not change, and keys that are not known are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _key(name: str, field: FieldInfo) -> str:
    alias = field.validation_alias
    return alias if isinstance(alias, str) else field.alias or name


@functools.cache
def _texts(model: type[BaseModel]) -> dict[str, str]:
    """The docstrings below the fields of a model, by the fields' names; none where its source is
    not there.
    """
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if issubclass(kind, Described):
            found |= _own_texts(kind)
    return found


def _unwrapped(text: str) -> str:
    r"""Each paragraph in one line, so that what a judge reads does not depend on how source is
    wrapped.

    >>> _unwrapped("Why, in one to\nthree sentences.\n\n- first\n- second")
    'Why, in one to three sentences.\n\n- first\n- second'
    """
    return _WRAPPED.sub(" ", text)


def _own_texts(kind: type[BaseModel]) -> dict[str, str]:
    try:
        tree = tree_of(kind)
    except (OSError, TypeError, SyntaxError):
        return {}
    [definition] = tree.body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    return {
        field.target.id: _unwrapped(inspect.cleandoc(text.value.value))
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
