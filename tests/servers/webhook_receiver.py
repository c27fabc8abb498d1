"""A receiver of webhooks on loopback: it keeps what comes, and answers as it is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Receiver:
    """What came, and how it is answered: a status, and headers."""

    url: str = ""
    answer: Callable[[int], tuple[int, dict[str, str]]] = lambda _number: (204, {})
    came: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)
    going_on: threading.Event = field(default_factory=threading.Event)

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.came]


@contextmanager
def receiving(*, holding: bool = False) -> Iterator[Receiver]:
    """A receiver; one that is *holding* answers only once ``going_on`` is set."""
    kept = Receiver()
    if not holding:
        kept.going_on.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            kept.came.append(({name.lower(): value for name, value in self.headers.items()}, body))
            status, headers = kept.answer(len(kept.came))
            kept.arrived.set()
            kept.going_on.wait(240)
            try:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", "0")
                self.end_headers()
            except OSError:  # the sender was killed
                pass

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    kept.url = f"http://127.0.0.1:{server.server_address[1]}/in"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield kept
    finally:
        kept.going_on.set()
        server.shutdown()
        thread.join()
        server.server_close()
