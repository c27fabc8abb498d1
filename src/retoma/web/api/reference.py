"""The whole API on a page: no script, and nothing fetched from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from typing import Any

from starlette.responses import HTMLResponse, Response

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h2 { margin-top: 2.5rem; text-transform: capitalize; border-bottom: 1px solid #ddd; }
summary { cursor: pointer; padding: .25rem 0; }
summary b { display: inline-block; width: 3.5rem; }
td { padding: 0 1rem 0 0; vertical-align: top; }
pre { background: #f6f6f4; padding: .5rem; overflow: auto; }
"""
_POLICY = "default-src 'none'; frame-ancestors 'none'; style-src 'sha256-{}'"


def as_json(schema: dict[str, Any]) -> Response:
    """The OpenAPI document."""
    return Response(json.dumps(schema, ensure_ascii=False), media_type="application/json")


def as_page(schema: dict[str, Any]) -> Response:
    """The same to read: each operation with its parameters, its body and its answers, then the shapes."""
    groups: dict[str, list[str]] = {}
    base = "".join(each["url"] for each in schema.get("servers", [])[:1])
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            groups.setdefault(operation["tags"][0], []).append(_operation(method, base + path, operation))
    groups["shapes"] = [_shape(name, shape) for name, shape in schema["components"]["schemas"].items()]
    body = "".join(f"<h2>{escape(tag)}</h2>{''.join(parts)}" for tag, parts in groups.items())
    title = escape(f"{schema['info']['title']} {schema['info']['version']}")
    allowed = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    return HTMLResponse(
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style>"
        f"<h1>{title}</h1><p>For programs: <a href=openapi.json>openapi.json</a>.</p>{body}</html>",
        headers={"Content-Security-Policy": _POLICY.format(allowed)},
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    scopes = [scope for need in operation.get("security", []) for each in need.values() for scope in each]
    rows = {"scope": ", ".join(scopes) or "none"}
    for parameter in operation.get("parameters", []):
        rows[f"{parameter['in']} {parameter['name']}"] = json.dumps(parameter["schema"])
    for media in operation.get("requestBody", {}).get("content", {}).values():
        rows["body"] = json.dumps(media["schema"])
    rows |= {status: answer["description"] for status, answer in operation["responses"].items()}
    table = "".join(f"<tr><td>{escape(name)}<td><code>{escape(text)}</code>" for name, text in rows.items())
    head = f"<b>{method.upper()}</b><code>{escape(path)}</code> {escape(operation['summary'])}"
    return _folded(head, f"<p>{escape(operation['description'])}</p><table>{table}</table>")


def _shape(name: str, shape: dict[str, Any]) -> str:
    fields = json.dumps(shape.get("properties", {}), indent=1, ensure_ascii=False)
    return _folded(
        f"<code>{escape(name)}</code> {escape(shape.get('description', ''))}", f"<pre>{escape(fields)}</pre>"
    )


def _folded(head: str, body: str) -> str:
    return f"<details><summary>{head}</summary>{body}</details>"
