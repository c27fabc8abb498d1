"""A fake provider that bills: it records what it was paid for in a file, to be compared with what the engine recorded.

It has OpenAI's protocol, runs in a process of its own, and always gives the same answer to the same question. Every
call that it bills is one line of JSON, on the disk before the answer is sent: so a crash anywhere else loses no line.

    python -m retoma.testing.billing --file bill.jsonl --port 0
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import os
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from retoma.testing.wire import Asked, Given, Served, Wire

_MILLION = Decimal(1_000_000)
_VECTOR = 16  # numbers, unless the request says otherwise


# — for tests —


@dataclass(frozen=True, slots=True)
class Charge:
    """One line of the bill."""

    at: float
    request: str
    """A hash of the request: equal requests have equal hashes."""
    model: str
    input_tokens: int
    output_tokens: int
    cost: Decimal


class Bill:
    """The bill in *file*; it is read again each time."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @property
    def calls(self) -> list[Charge]:
        """Every call that was billed, in order."""
        if not self.file.exists():
            return []
        # The last line may be half-written: then its call was not answered, and is not billed either.
        whole = self.file.read_text(encoding="utf-8").rpartition("\n")[0]
        lines = [json.loads(line) for line in whole.splitlines()]
        return [Charge(**{**line, "cost": Decimal(line["cost"])}) for line in lines]

    @property
    def cost(self) -> Decimal:
        """The total cost, in US dollars."""
        return sum((call.cost for call in self.calls), Decimal(0))

    @property
    def by_request(self) -> Counter[str]:
        """How often each request was paid; a test looks for more than once."""
        return Counter(call.request for call in self.calls)


class Biller(Served):
    """The provider itself, which runs for the duration of the ``with``; *base_url* is its address.

    *rpm*, *tpm* and *at_once* are its limits; *window* is the length of its minute, for fast tests.
    """

    def __init__(
        self,
        file: Path,
        *,
        rpm: int | None = None,
        tpm: int | None = None,
        at_once: int | None = None,
        window: float = 60.0,
        seconds: float = 0.0,
    ) -> None:
        options = {"rpm": rpm, "tpm": tpm, "at-once": at_once, "window": window, "seconds": seconds}
        given = [f"--{name}={value}" for name, value in options.items() if value is not None]
        super().__init__("-m", "retoma.testing.billing", f"--file={file}", *given)
        self.bill = Bill(file)

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def counts(self) -> dict[str, int]:
        """How many calls were billed and how many were limited, since it started."""
        counts: dict[str, int] = self.control("GET", "/_told")
        return counts


# — the provider —


@dataclass(frozen=True, slots=True)
class Limits:
    """What is allowed in any *window* seconds, and how many calls at the same time."""

    rpm: int | None = None
    tpm: int | None = None
    at_once: int | None = None
    window: float = 60.0


class Meter:
    """Counts the usage of the last *window* seconds: no interval of that length ever exceeds the limit."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._taken: deque[tuple[float, int]] = deque()
        self._tokens = 0
        self.running = 0

    def take(self, tokens: int) -> float | None:
        """None when *tokens* may be used now, else the seconds until they may."""
        now = time.monotonic()
        self._forget(now)
        limits = self._limits
        if limits.at_once is not None and self.running >= limits.at_once:
            return 0.1  # the end of another call is unknown
        if limits.rpm is not None and len(self._taken) >= limits.rpm:
            return self._taken[0][0] + limits.window - now
        if limits.tpm is not None and self._tokens + tokens > limits.tpm:
            return self._until(self._tokens + tokens - limits.tpm, now)
        self._taken.append((now, tokens))
        self._tokens += tokens
        return None

    def headers(self) -> dict[str, str]:
        now = time.monotonic()
        self._forget(now)
        rows = (("requests", self._limits.rpm, len(self._taken)), ("tokens", self._limits.tpm, self._tokens))
        told = {}
        for what, limit, used in rows:
            if limit is not None:
                told[f"x-ratelimit-limit-{what}"] = str(limit)
                told[f"x-ratelimit-remaining-{what}"] = str(max(0, limit - used))
                told[f"x-ratelimit-reset-{what}"] = f"{self._until(1, now):.3f}s"
        return told

    def _forget(self, now: float) -> None:
        while self._taken and self._taken[0][0] + self._limits.window <= now:
            self._tokens -= self._taken.popleft()[1]

    def _until(self, tokens: int, now: float) -> float:
        """Seconds until *tokens* of those in use are free again."""
        freed = 0
        for at, used in self._taken:
            freed += used
            if freed >= tokens:
                return at + self._limits.window - now
        return self._limits.window if freed else 0.0


class Provider:
    """Answers, and writes the bill before it does."""

    def __init__(self, file: Path, limits: Limits, *, seconds: float, prices: tuple[Decimal, Decimal]) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._meter = Meter(limits)
        self._seconds = seconds
        self._prices = prices
        self.counts = Counter(billed=0, limited=0)

    async def handle(self, asked: Asked) -> Given:
        makers = {"/v1/chat/completions": _completion, "/v1/embeddings": _embeddings}
        if asked.path not in makers:
            return _error(404, "not_found", f"There is no {asked.path}.")
        try:
            request = asked.json()
            body, used, made = makers[asked.path](request)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            return _error(400, "invalid_request", f"This request cannot be read: {type(error).__name__}.")
        wait = self._meter.take(used + made)
        if wait is not None:
            self.counts["limited"] += 1
            return self._limited(wait)
        self._meter.running += 1
        try:
            await asyncio.sleep(self._seconds)
            body["usage"] = self._charge(request, body["model"], used, made)
        finally:
            self._meter.running -= 1
        return Given.json(body, headers={"x-request-id": body["id"], **self._meter.headers()})

    def _charge(self, request: Any, model: str, used: int, made: int) -> dict[str, Any]:
        cost = (used * self._prices[0] + made * self._prices[1]) / _MILLION
        line = {
            "at": time.time(),
            "request": request_hash(request),
            "model": model,
            "input_tokens": used,
            "output_tokens": made,
            "cost": f"{cost:f}",
        }
        os.write(self._file, f"{json.dumps(line)}\n".encode())
        os.fsync(self._file)
        self.counts["billed"] += 1
        return {"prompt_tokens": used, "completion_tokens": made, "total_tokens": used + made, "cost": float(cost)}

    def _limited(self, wait: float) -> Given:
        headers = {"retry-after": str(math.ceil(wait)), "retry-after-ms": str(math.ceil(wait * 1000))}
        answer = _error(429, "rate_limit_exceeded", f"Rate limit reached. Try again in {wait:.3f} s.")
        return Given(answer.body, 429, {**answer.headers, **self._meter.headers(), **headers})


def request_hash(request: Any) -> str:
    """Equal for equal requests, in whatever order of keys."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _completion(request: Mapping[str, Any]) -> tuple[dict[str, Any], int, int]:
    """The body of an answer, and the tokens in and out. It echoes, or follows the schema."""
    said = [str(message["content"]) for message in request["messages"]]
    shape = request.get("response_format", {}).get("json_schema", {}).get("schema")
    text = said[-1]
    if shape is not None:
        text = json.dumps(_fitting(shape, text, shape.get("$defs", {})), ensure_ascii=False)
    most = int(request.get("max_tokens") or request.get("max_completion_tokens") or _tokens(text))
    cut = _tokens(text) > most
    text = text[: 4 * most]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "length" if cut else "stop",
    }
    body = {"id": _id("chat", request), "object": "chat.completion", "model": request["model"], "choices": [choice]}
    return body, sum(_tokens(each) for each in said), _tokens(text)


def _embeddings(request: Mapping[str, Any]) -> tuple[dict[str, Any], int, int]:
    texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
    size = request.get("dimensions", _VECTOR)
    rows = [{"object": "embedding", "index": at, "embedding": _vector(text, size)} for at, text in enumerate(texts)]
    body = {"id": _id("embed", request), "object": "list", "model": request["model"], "data": rows}
    return body, sum(_tokens(text) for text in texts), 0


def _fitting(schema: Mapping[str, Any], text: str, named: Mapping[str, Any]) -> Any:
    """A value of *schema*: of several words the one that *text* has first, and for any other text its beginning."""
    if reference := schema.get("$ref"):
        schema = named[reference.rpartition("/")[2]]
    if choices := schema.get("anyOf"):
        schema = choices[0]
    if words := schema.get("enum"):
        places = {word: text.lower().find(str(word).lower()) for word in words}
        found = [word for word in words if places[word] >= 0]
        return min(found, key=lambda word: places[word]) if found else words[0]
    parts = schema.get("properties", {})
    values = {
        "object": {name: _fitting(part, text, named) for name, part in parts.items()},
        "array": [_fitting(schema["items"], text, named)] if schema.get("minItems") else [],
        "string": text[:60],
        "boolean": True,
        "integer": schema.get("minimum", 1),
        "number": schema.get("minimum", 1),
    }
    return values.get(schema.get("type", "null"))


def _tokens(text: str) -> int:
    return math.ceil(len(text) / 4)


def _id(kind: str, request: Any) -> str:
    return f"{kind}-{request_hash(request)[:24]}"


def _vector(text: str, size: int) -> list[float]:
    seed = hashlib.sha256(text.encode()).digest()
    raw = [byte - 127.5 for byte in (seed * math.ceil(size / len(seed)))[:size]]
    length = math.sqrt(sum(number * number for number in raw))
    return [number / length for number in raw]


def _error(status: int, code: str, message: str) -> Given:
    return Given.json({"error": {"code": code, "type": code, "message": message}}, status=status)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m retoma.testing.billing", description="A fake provider that bills.")
    parser.add_argument("--file", type=Path, required=True, help="where the bill is written")
    parser.add_argument("--port", type=int, default=0, help="0 chooses a free one; it is printed as JSON")
    parser.add_argument("--rpm", type=int, help="requests per window")
    parser.add_argument("--tpm", type=int, help="tokens per window")
    parser.add_argument("--at-once", type=int, help="calls at the same time")
    parser.add_argument("--window", type=float, default=60.0, help="seconds that a minute lasts")
    parser.add_argument("--seconds", type=float, default=0.0, help="how long an answer takes")
    parser.add_argument("--input-price", type=Decimal, default=Decimal("0.15"), help="dollars per million tokens in")
    parser.add_argument("--output-price", type=Decimal, default=Decimal("0.60"), help="dollars per million tokens out")
    given = parser.parse_args()
    limits = Limits(given.rpm, given.tpm, given.at_once, given.window)
    prices = (given.input_price, given.output_price)
    provider = Provider(given.file, limits, seconds=given.seconds, prices=prices)
    asyncio.run(Wire(provider.handle, told=provider.counts).serve(port=given.port))


if __name__ == "__main__":
    main()
