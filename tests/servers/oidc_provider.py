"""A small OpenID provider on loopback: discovery, keys that rotate, codes that are good once, any token at all."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey

CLIENT = "retoma"
SECRET = "a secret of the provider"


def _key() -> ECKey:
    return ECKey.generate_key("P-256", {"kid": secrets.token_hex(4), "use": "sig"})


@dataclass
class Provider:
    """What it says of whoever signs in, and with which key."""

    issuer: str = ""
    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "7", "preferred_username": "ana"})
    changed: dict[str, Any] = field(default_factory=dict)
    key: ECKey = field(default_factory=_key)
    signing: ECKey | None = None
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def rotate(self) -> None:
        self.key = _key()

    def signed_in(self, url: str) -> str:
        """Where the browser is sent when the person agrees: what the page of a provider does."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert (asked["response_type"], asked["code_challenge_method"], asked["client_id"]) == ("code", "S256", CLIENT)
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?code={code}&state={asked['state']}"

    def token(self, sent: dict[str, str]) -> dict[str, str] | None:
        asked = self.codes.pop(sent.get("code", ""), None)
        digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        proven = asked is not None and urlsafe_b64encode(digest).decode().rstrip("=") == asked["code_challenge"]
        if asked is None or not proven or sent.get("client_secret") != SECRET:
            return None
        now = int(time.time())
        said = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        key = self.signing or self.key
        token = jwt.encode({"alg": "ES256", "kid": self.key.kid}, {**said, **self.claims, **self.changed}, key)
        return {"id_token": token, "access_token": "x", "token_type": "Bearer"}


@contextmanager
def providing() -> Iterator[Provider]:
    kept = Provider()

    class Handler(BaseHTTPRequestHandler):
        def _say(self, value: Any) -> None:
            body = json.dumps(value).encode()
            self.send_response(200 if value is not None else 400)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            if self.path == "/jwks":
                self._say({"keys": [kept.key.as_dict(private=False)]})
            else:
                ends = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "jwks"}
                self._say({"issuer": kept.issuer, **{name: f"{kept.issuer}/{end}" for name, end in ends.items()}})

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"])).decode()
            self._say(kept.token({name: values[0] for name, values in parse_qs(raw).items()}))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    kept.issuer = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
