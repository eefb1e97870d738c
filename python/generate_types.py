"""Writes src/memlane/answers.py, the types of the program's JSON, from lifetime/answer/schema.json: python3 python/generate_types.py"""

from __future__ import annotations

import json
import keyword
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def type_of(schema: dict[str, Any]) -> str:
    """Returns the annotation of a value."""
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    if "oneOf" in schema:
        return " | ".join(type_of(s) for s in schema["oneOf"])
    kind = schema.get("type")
    if kind == "array":
        return f"list[{type_of(schema['items'])}]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {type_of(values) if isinstance(values, dict) else 'Any'}]"
    return PLAIN.get(str(kind), "Any")


def text() -> str:
    """Returns the module."""
    schema = json.loads((HERE.parent / "lifetime/answer/schema.json").read_text(encoding="utf-8"))
    lines = ['"""The types of the program\'s answers. Made by generate_types.py; docs/manual/json.md describes the fields."""', "", "from __future__ import annotations", "", "from typing import Any, TypedDict"]
    for name, definition in schema["$defs"].items():
        required = set(definition.get("required", []))
        optional = [p for p in definition["properties"] if p not in required]
        lines += ["", "", f"class {name}(TypedDict{', total=False' if optional else ''}):", f'    """{describe(definition)}"""', ""]
        for field, value in definition["properties"].items():
            assert not keyword.iskeyword(field), field
            lines.append(f"    {field}: {type_of(value)}")
    return "\n".join(lines) + "\n"


def describe(definition: dict[str, Any]) -> str:
    """Returns the description of a type, without escapes."""
    return " ".join(str(definition.get("description", "")).split()).replace('"', "'")


if __name__ == "__main__":
    (HERE / "src/memlane/answers.py").write_text(text(), encoding="utf-8")
