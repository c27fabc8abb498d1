"""Changes, each in one transaction; with an Idempotency-Key each is done once and answered as often as it is asked."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable

from starlette.responses import Response

from retoma.app.access.keys import Reply, Request
from retoma.web.api.schemas.responses import Fault
from retoma.web.http.auth import Visit
from retoma.web.http.body import Sent
from retoma.web.http.errors import Refusal

Handle = Callable[[Sent], Awaitable[Response]]

HEADER = "Idempotency-Key"
_SHAPE = re.compile(r"[\x21-\x7e]{1,255}")
_KEPT = ("content-type", "location", "etag")


async def changed(visit: Visit, sent: Sent, body: bytes, handle: Handle) -> Response:
    """The answer to a change. The reply is kept in the change's own transaction: both are there, or neither. The *body*
    was read before it begins: a caller who sends slowly must not keep one open.
    """
    key = sent.headers.get(HEADER)
    if key is not None and not _SHAPE.fullmatch(key):
        fault = Fault(pointer=HEADER, code="string_pattern_mismatch", detail="1 to 255 visible ASCII characters.")
        raise Refusal("validation_failed", faults=[fault])
    async with visit.app.transaction() as visit.conn:
        if key is None:
            return await handle(sent)
        request = Request(visit.caller, f"{sent.method} {sent.url.path}", key)
        request_hash = hashlib.sha256(sent.url.query.encode() + b"\n" + body).hexdigest()
        if not await visit.app.access.hold(request, conn=visit.conn):
            raise Refusal("idempotency_in_progress")
        if reply := await visit.app.access.reply(request, conn=visit.conn):
            return _again(reply, request_hash)
        response = await handle(sent)
        headers = {name: response.headers[name] for name in _KEPT if name in response.headers}
        reply = Reply(request_hash, response.status_code, json.dumps(headers), bytes(response.body).decode())
        await visit.app.access.keep(request, reply, conn=visit.conn)
        return response


def _again(reply: Reply, request_hash: str) -> Response:
    if reply.request_hash != request_hash:
        raise Refusal("idempotency_key_reused")
    headers = {**json.loads(reply.headers), "Idempotency-Replayed": "true"}
    return Response(reply.body, reply.status, headers)
