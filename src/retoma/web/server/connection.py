"""One connection: what comes in is counted before it is read, and a client that keeps the server waiting is let go."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from retoma.web.http import errors
from retoma.web.http.errors import Refusal
from retoma.web.http.headers import dressed
from retoma.web.server.connections import TURNED_AWAY, Connections, Waiting

PROBES = frozenset({b"/livez", b"/readyz"})
"""What is answered also when there is no room for others."""
LINGER_SECONDS = 2.0
"""How long a client that was refused may take to stop sending and to read why."""
_AT_ONCE = struct.pack("ii", 1, 0)
_MOST_AHEAD = 20  # requests that a client may send before it has the answer to the first
_LONGEST_SHOWN = 2000
_LONGEST_METHOD = 64  # bytes of a request line beside its URL


class Wire(HttpToolsProtocol):
    """A connection of uvicorn's that counts. The parser is given no more than the limit before something becomes of
    it, so a head without end is refused, and so are trailers and chunk extensions without end.
    """

    def __init__(
        self, counted: Connections, config: Config, server_state: ServerState, app_state: dict[str, Any], **more: Any
    ) -> None:
        super().__init__(config, server_state, app_state, **more)
        self._counted = counted
        self._limits = counted.limits
        self._unread = 0  # bytes since the last that became a body, or the end of a request
        self._in_head, self._whole = False, True
        self._refused: Refusal | None = None
        self._leaving = False
        self._began_at = self._heard_at = self._answered_at = self._paused_at = self.loop.time()
        self.answered = 0
        self.address: str | None = None

    # — what comes in —

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.address = self.client[0] if self.client else None
        if code := self._counted.admit(self):
            self._refused = Refusal(code, limit=self._limits.web_connections_per_address)

    def connection_lost(self, exc: Exception | None) -> None:
        self._counted.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._heard_at = self.loop.time()
        most = self._limits.web_header_bytes
        while data and not self._leaving and not self.transport.is_closing():
            if not self._unread:
                self._began_at = self._heard_at
            piece = data[: most - self._unread]
            self._unread += len(piece)
            data = data[len(piece) :]
            super().data_received(piece)
            if self._unread >= most:
                in_line = self._in_head and self._unread - len(self.url) <= _LONGEST_METHOD
                code = "url_too_long" if in_line else "headers_too_large"
                self._refused = Refusal(code, limit=most)
            if self._refused is not None and (not self._in_head or self._unread >= most):
                self._refuse(self._refused)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words, in place of which ours are said
        self._refuse(self._refused or Refusal("request_malformed"))

    # — what the parser finds —

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._whole = True, False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # trailers, which nobody reads
        if len(self.headers) < self._limits.web_headers:
            super().on_header(name, value)
        else:
            self._refused = Refusal("too_many_headers", limit=self._limits.web_headers)

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._refused is not None and self._refused.code in TURNED_AWAY and self.url in PROBES:
            self._refused = None
        if len(self.pipeline) >= _MOST_AHEAD:
            self._refused = Refusal("overloaded")
        if self._refused is None:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        if self._refused is None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread, self._whole = 0, True
        if self._refused is None:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        self.answered += 1
        self._answered_at = self.loop.time()
        super().on_response_complete()

    # — whose turn it is —

    def pause_writing(self) -> None:
        self._paused_at = self.loop.time()
        super().pause_writing()

    def waiting(self) -> Waiting | None:
        """What the server waits for, since when and for how long at most; None when it is the server's turn."""
        limits, cycle = self._limits, self._current()
        if self._leaving:
            return Waiting(4, self._answered_at, LINGER_SECONDS)
        if self._in_head or (self._whole and self._unread) or (cycle is None and not self.answered):
            return Waiting(3, self._began_at, limits.web_header_seconds)
        if cycle is None:  # the last request was answered; uvicorn ends what rests, but not what still sends
            return Waiting(2, self._answered_at, None if self._whole else limits.web_header_seconds)
        if self.flow.write_paused:
            return Waiting(1, self._paused_at, limits.web_body_seconds)
        if self._whole or self.flow.read_paused or cycle.waiting_for_100_continue:
            self._heard_at = self.loop.time()
            return None
        return Waiting(1, self._heard_at, limits.web_body_seconds)

    def _current(self) -> RequestResponseCycle | None:
        """The request that has not been answered yet."""
        cycle: RequestResponseCycle | None = self.cycle
        return None if cycle is None or cycle.response_complete else cycle

    # — how it ends —

    def give_up(self) -> None:
        """End it because the client took too long, and say so when it has begun to ask."""
        in_body = self._current() is not None and not self.flow.write_paused
        if not self._leaving and (self._in_head or in_body or (self._whole and self._unread)):
            self._refuse(Refusal("request_timeout"))
        else:
            self.let_go()

    def let_go(self) -> None:
        """End it without a word."""
        self._leaving = True
        if self.transport.get_write_buffer_size():
            # What was written and not taken is dropped, or the system would keep it for long.
            with suppress(OSError):
                self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.transport.abort()

    def _refuse(self, refused: Refusal) -> None:
        """Say why, and then read no more; a client that is still sending could not hear it if we hung up at once."""
        if self._leaving:
            return
        self._leaving, self._answered_at = True, self.loop.time()
        self._counted.refused(refused.code)
        if cycle := self._current():
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started or self.pipeline:
                self.transport.abort()  # the answer would be taken for that to another request
                return
        self.transport.write(self._said(refused))
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _said(self, refused: Refusal) -> bytes:
        path = getattr(self, "url", b"").partition(b"?")[0].decode("latin-1")
        known = path.startswith("/") and len(path) <= _LONGEST_SHOWN
        scope: dict[str, Any] = {
            "type": "http", "method": "GET", "path": path if known else "/", "query_string": b"", "root_path": "",
            "headers": [each for each in self.headers or () if each[0] != b"host"],
            "server": self.server, "client": self.client, "scheme": self.scheme, "state": {},
        }  # fmt: skip
        request = Request(scope)
        response = dressed(request, errors.answer(request, refused))
        response.headers["Connection"] = "close"
        head = b"".join(b"%s: %s\r\n" % each for each in response.raw_headers)
        return STATUS_LINE[response.status_code] + head + b"\r\n" + bytes(response.body)
