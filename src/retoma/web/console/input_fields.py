"""The fields of a form for one input, made from the JSON schema of its type; and the input that a form says."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

WHOLE = ""
"""The name of the only field of an input that is not an object."""
_LONG = ("text", "body", "content", "prompt", "description", "notes")
_BINARY = ("binary", "base64", "base64url", "byte")
_SIMPLE = ("string", "integer", "number", "boolean")


@dataclass(frozen=True, slots=True)
class InputField:
    """One field of a form. Its *kind* says how it is drawn and read."""

    name: str
    kind: str
    """text, long, integer, number, boolean, choice, list, file or json."""
    required: bool
    help: str = ""
    choices: tuple[str, ...] = ()
    default: str = ""

    @property
    def key(self) -> str:
        """The name under which a form says it."""
        return f"input.{self.name}" if self.name else "input"


@dataclass(slots=True)
class Read:
    """The input that a form says, and what is wrong with it, by field."""

    value: Any = None
    wrong: dict[str, str] = field(default_factory=dict)


def fields_of_schema(schema: Mapping[str, Any]) -> list[InputField]:
    """The fields of an input: one for each property of an object, otherwise one for the whole."""
    found = _resolved(schema, schema)
    if found.get("type") != "object" or not found.get("properties"):
        return [_field(WHOLE, found, schema, required=True)]
    needed = found.get("required", ())
    return [_field(name, part, schema, required=name in needed) for name, part in found["properties"].items()]


def _resolved(part: Mapping[str, Any], whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """*part* where its reference leads, without the null that makes it optional."""
    if "$ref" in part:
        name = str(part["$ref"]).rpartition("/")[2]
        return {**_resolved(whole.get("$defs", {}).get(name, {}), whole), **{k: part[k] for k in part if k != "$ref"}}
    kinds = [each for each in part.get("anyOf", ()) if each.get("type") != "null"]
    if len(kinds) == 1:
        return {**{name: value for name, value in part.items() if name != "anyOf"}, **_resolved(kinds[0], whole)}
    return part


def _field(name: str, part: Mapping[str, Any], whole: Mapping[str, Any], *, required: bool) -> InputField:
    found = _resolved(part, whole)
    default = found.get("default")
    said = "" if default is None else default if isinstance(default, str) else json.dumps(default, ensure_ascii=False)
    choices = found.get("enum") or ([found["const"]] if "const" in found else [])
    told = str(found.get("description", "")) if name else ""
    if choices and all(isinstance(each, str) for each in choices):
        return InputField(name, "choice", required, told, tuple(choices), said)
    return InputField(name, _kind(name, found, whole), required, told, (), said)


def _kind(name: str, found: Mapping[str, Any], whole: Mapping[str, Any]) -> str:
    kind = found.get("type")
    if kind == "string":
        if found.get("format") in _BINARY or "contentEncoding" in found:
            return "file"
        return "long" if name in _LONG or name == WHOLE else "text"
    if kind == "array" and _resolved(found.get("items", {}), whole).get("type") in _SIMPLE:
        return "list"
    return kind if kind in ("integer", "number", "boolean") else "json"


def read(
    fields: list[InputField], said: Mapping[str, str], files: Mapping[str, bytes], whole: Mapping[str, Any]
) -> Read:
    """The input that *said* and *files* describe. What is left empty is left out."""
    done, values = Read(), {}
    for each in fields:
        text = said.get(each.key, "").replace("\r\n", "\n")
        try:
            value = _value(each, text, files.get(each.key), whole)
        except ValueError:
            done.wrong[each.name] = each.kind
            continue
        if value is not None:
            values[each.name] = value
        elif each.required:
            done.wrong[each.name] = "missing"
    done.value = values.get(WHOLE) if [each.name for each in fields] == [WHOLE] else values
    return done


def _value(  # noqa: PLR0911 - one for each kind
    field: InputField, text: str, file: bytes | None, whole: Mapping[str, Any]
) -> Any:
    if field.kind == "boolean":
        return text == "yes"
    if field.kind == "file":
        return None if file is None else base64.b64encode(file).decode()
    if not text.strip():
        return None
    match field.kind:
        case "integer":
            return int(text)
        case "number":
            return float(text.replace(",", ".") if text.count(",") == 1 and "." not in text else text)
        case "list":
            return [_item(field, line.strip(), whole) for line in text.splitlines() if line.strip()]
        case "json":
            return json.loads(text)
    return text


def _item(field: InputField, text: str, whole: Mapping[str, Any]) -> Any:
    found = _resolved(whole, whole)
    part = _resolved(found["properties"][field.name], whole) if field.name else found
    kind = _resolved(part.get("items", {}), whole).get("type")
    return text if kind == "string" else json.loads(text)
