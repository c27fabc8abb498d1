"""What a description cannot say: which cursors and tags were given out, which pipelines and models there are, that a
key is used once, that a file must be one that can be read.
"""

import base64
import json
import os
import re
import uuid
from typing import Any

import schemathesis

from retoma.pipelines.classification.labels import default_content

OPEN_BATCH = os.environ["OPEN_BATCH"]
READABLE = "Contrato de locação de imóvel entre as partes, por trinta meses. "
BOOKS = ("/api/v1/books", "/api/summarize")
ITEMS = ("/api/quotes", "/api/batch-quotes/text")
CONDITION = ("conservation", "years_used", "years_left", "book_value")
PICTURE = base64.b64decode(
    b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
VISIBLE = re.compile(r"[\x21-\x7e]{1,255}")


def cursor(*parts: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


CURSORS = {
    "/api/v1/spend": cursor("1.5", "openai/gpt"),
    "/api/v1/jobs/{id}/checkpoints": cursor("2026-05-01T12:00:00+00:00", "read", 1),
    "/api/v1/reviews": cursor("0.5", 42),
    "/api/v1/webhooks/{id}/deliveries": cursor("2026-05-01T12:00:00+00:00", "msg_1"),
}
PLAIN = base64.urlsafe_b64encode(b"before:42").decode().rstrip("=")


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    if VISIBLE.fullmatch(str((case.headers or {}).get("Idempotency-Key") or "")):
        case.headers["Idempotency-Key"] = uuid.uuid4().hex
    if "If-Match" in (case.headers or {}):
        case.headers["If-Match"] = "*"
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    path = case.operation.path
    if isinstance(case.query, dict) and "cursor" in case.query:
        case.query["cursor"] = CURSORS.get(path, PLAIN)
    if path == "/api/v1/embeddings/search" and isinstance(case.query, dict) and "q" in case.query:
        case.query["q"] = worded(case.query["q"], 2000)
    if path == "/api/v1/batches/{id}/jobs":
        case.path_parameters["id"] = OPEN_BATCH
    if path in BOOKS:
        field = "file" if case.media_type == "multipart/form-data" else "text"
        case.body = {field: READABLE + uuid.uuid4().hex}
    if path.startswith(("/api/quotes", "/api/batch-quotes")) and isinstance(case.body, dict):
        case.body = items_of(path, case.body, form=case.media_type == "multipart/form-data")
    if isinstance(case.body, dict):
        make_true(case.body)
        make_fit(path, case.body)


@schemathesis.hook
def after_call(_context: Any, case: Any, response: Any) -> None:
    # Where several documents are looked at is no address of one: 'status' would be taken for an id.
    if case.operation.path == "/documents" and "/status?" in response.headers.get("location", [""])[0]:
        del response.headers["location"]


def items_of(path: str, body: dict[str, Any], *, form: bool) -> dict[str, Any]:
    """Every field of a form is text, of which the description says no more; an item of a list must be short."""
    if path == "/api/batch-quotes/file":
        return {"file": f"descricao\nMesa {uuid.uuid4().hex}\n"}
    if path == "/api/batch-quotes/images":
        return {"images": PICTURE}
    if path not in ITEMS:
        return body
    if any(body.get(part) is None for part in CONDITION[:3]):  # the condition of an asset is told as a whole
        body = {name: each for name, each in body.items() if name not in CONDITION}
    return {"inputText": "Mesa"} if form else {**body, "inputText": f"Mesa;{body['inputText']}"[:900]}


def make_true(body: dict[str, Any]) -> None:
    for name in ("files", "arquivos"):
        if name in body:
            body[name] = [READABLE + uuid.uuid4().hex for _ in body[name]]
    if "arquivo" in body:
        body |= {"arquivo": READABLE, "prompt_texto": default_content(), "modelo": "local"}
    if "pipeline" in body:
        body["pipeline"] = "anything"
    if body.get("run_at") is not None:
        body["run_at"] = f"2028{body['run_at'][4:]}"  # no schema says how early a time may be; that year has every day
        body.pop("delay_seconds", None)  # both say when it may begin
    if body.get("until") is not None:
        body["until"] = f"2028{body['until'][4:]}"  # the same of the end of a pause
        body.pop("seconds", None)
    if not body.get("jobs") and "name" in body and "pipeline" in body:
        body.pop("pilot", None)  # a batch without jobs gets it with the seal
    for number, job in enumerate(body.get("jobs") or ()):
        job["key"] = f"{number}-{uuid.uuid4().hex}"  # all have one, or none
    for text in body.get("texts") or ():
        text["content"] = worded(text["content"], 100_000)


def make_fit(path: str, body: dict[str, Any]) -> None:
    """What no schema says: crons, zones, where messages may go, good passwords, which states an action is for."""
    if path.startswith("/api/v1/webhooks") and body.get("url") is not None:
        body["url"] = "https://hooks.example.org/retoma"
    if not path.startswith(("/api/v1/schedules", "/api/v1/operations", "/api/v1/users")):
        return
    body |= {name: told for name, told in (("cron", "0 4 * * *"), ("zone", "UTC")) if body.get(name) is not None}
    if "password" in body:
        body["password"] = f"cavalo bateria {uuid.uuid4().hex}"
    if "name" in body and "role" in body:
        body["name"] = f"ana-{uuid.uuid4().hex[:12]}"
    if "action" in body:
        body |= {"action": "cancel", "filter": {"states": ["queued"]}, "dry_run": True}
        for other in ("queue", "priority", "attempts"):
            body.pop(other, None)


def worded(text: str, longest: int) -> str:
    """A text without a word means nothing."""
    return f"word {text}"[:longest]
