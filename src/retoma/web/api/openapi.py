"""The description of the API made whole: what each field and parameter means, and an example of each question and
answer.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from fastapi import FastAPI

from retoma.web.packages import files, packages

Schema = dict[str, Any]

TAGS = {
    "access": "Who may come in: API keys, accounts of people, browser sessions.",
    "alerts": "What the watchdog found wrong, and who looks after it.",
    "audit": "Who did what, when and from where: changes, looks at content, refused keys.",
    "batches": "Many jobs followed as one: made, filled, followed, resumed, stopped.",
    "calls": "Requests to providers: what was asked and answered, what it cost, what is allowed.",
    "finding": "Errors over all batches, a search, and saved views.",
    "jobs": "One pipeline over one input: queued, looked at, tried again, stopped.",
    "operations": "One action on many jobs of any batch: decided at once, carried out in pieces.",
    "pipelines": "What the program can do, and what it takes as input.",
    "probes": "Whether the server answers and can work.",
    "queues": "Where jobs wait: paused, weighed, limited.",
    "reviews": "What waits for a person: leased, accepted, corrected, rejected, undone; and how often people agree.",
    "schedules": "Jobs that come back by the clock.",
    "system": "How the database is doing, and what workers have done.",
    "webhooks": "Signed messages about the work, to addresses of yours, and the log of their delivery.",
    "workers": "Who works, since when, and what they have done.",
}
"""What each group of operations is about."""
_DEEPEST = 6
_SAMPLES: Schema = {
    "date-time": "2026-05-01T12:00:00Z",
    "date": "2026-05-01",
    "uuid": "018f3a52-7c1e-7a44-9b0e-2f6d1c4b8a90",
    "binary": "…",
    "uri-reference": "/api/v1/jobs/42",
}


class Fields(NamedTuple):
    """What names mean, what they mean where that differs, and values for examples."""

    usual: dict[str, str]
    other: dict[str, str]
    examples: Schema

    def told(self, owner: str, name: str) -> str | None:
        """What *name* means in the shape or operation *owner*."""
        return self.other.get(f"{owner}.{name}") or self.usual.get(name)


def fields() -> Fields:
    """What is written down about the fields of the API."""
    return _fields(packages())


@cache
def _fields(packages: tuple[str, ...]) -> Fields:
    known = Fields({}, {}, {})
    for each in files(packages, "fields.toml"):
        read = tomllib.loads(each.read_text(encoding="utf-8"))
        for part, kept in zip(Fields._fields, known, strict=True):
            kept.update(read.get({"usual": "fields"}.get(part, part), {}))
    return known


class Site(FastAPI):
    """An application whose description says what everything means."""

    tags: Mapping[str, str] = TAGS
    """What each group of its operations is about."""

    def openapi(self) -> Schema:
        """The description; made once."""
        if self.openapi_schema is None:
            self.openapi_schema = _completed(super().openapi(), self.tags)
        return self.openapi_schema


def _completed(schema: Schema, tags: Mapping[str, str]) -> Schema:
    shapes: Schema = schema["components"]["schemas"]
    known = fields()
    for owner, shape in shapes.items():
        for name, field in shape.get("properties", {}).items():
            field.pop("title", None)
            if told := known.told(owner, name):
                field.setdefault("description", told)
    used: set[str] = set()
    for operation in operations_of(schema):
        used |= set(operation["tags"])
        _finish(operation, shapes, schema["components"].setdefault("headers", {}))
    if "Problem" in shapes:
        shapes["Problem"]["examples"] = [_example("", shapes["Problem"], shapes, "Problem")]
    schema["tags"] = [{"name": name, "description": tags[name]} for name in sorted(used) if name in tags]
    return schema


def operations_of(schema: Schema) -> Iterator[Schema]:
    """Every operation of a description."""
    for methods in schema["paths"].values():
        yield from methods.values()


def _finish(operation: Schema, shapes: Schema, headers: Schema) -> None:
    known, id = fields(), operation["operationId"]
    for parameter in operation.get("parameters", ()):
        name = parameter["name"]
        if told := known.told(id, name):
            parameter.setdefault("description", told)
        parameter["schema"].pop("title", None)
        parameter.setdefault("example", _example(name, parameter["schema"], shapes, id))
    body = operation.get("requestBody")
    if body:
        body.setdefault("description", "What is asked.")
        for media in body["content"].values():
            media.setdefault("example", _example("", media["schema"], shapes, id))
    for answer in operation["responses"].values():
        for name, header in answer.get("headers", {}).items():
            headers.setdefault(name, header)
            answer["headers"][name] = {"$ref": f"#/components/headers/{name}"}
        for kind, media in answer.get("content", {}).items():
            if kind == "application/json" and media.get("schema"):
                media.setdefault("example", _example("", media["schema"], shapes, id))


def _example(name: str, schema: Schema, shapes: Schema, owner: str, depth: int = 0) -> Any:
    """A value that fits *schema*: what is written down for *name*, else the simplest."""
    exact = fields().examples.get(f"{owner}.{name}")
    if exact is not None:
        return exact
    if "$ref" in schema:
        owner = schema["$ref"].rpartition("/")[2]
        return _example("", shapes[owner], shapes, owner, depth)
    if options := schema.get("anyOf") or schema.get("oneOf"):
        first = next((each for each in options if each.get("type") != "null"), options[0])
        return _example(name, first, shapes, owner, depth)
    if "const" in schema or schema.get("enum"):
        return schema.get("const", (schema.get("enum") or [None])[0])
    usual = fields().examples.get(name)
    return usual if _fits(usual, schema) else _simplest(name, schema, shapes, owner, depth)


def _fits(value: Any, schema: Schema) -> bool:
    if isinstance(value, str):
        return schema.get("type") == "string" and "format" not in schema
    return isinstance(value, list) and schema.get("type") == "array" and schema.get("items") == {"type": "string"}


def _simplest(name: str, schema: Schema, shapes: Schema, owner: str, depth: int) -> Any:
    match schema.get("type"):
        case "object":
            parts = schema.get("properties", {}).items() if depth < _DEEPEST else ()
            return {each: _example(each, part, shapes, owner, depth + 1) for each, part in parts}
        case "array":
            items = schema.get("prefixItems") or [schema["items"]] if depth < _DEEPEST else ()
            return [_example(name, each, shapes, owner, depth + 1) for each in items]
        case "integer" | "number":
            return schema.get("minimum") or 1
        case "boolean":
            return bool(schema.get("default", False))
        case "string":
            return _SAMPLES.get(schema.get("format", ""), "text")
    return {}
