"""Blobs in a bucket of S3, or of any service with the same protocol."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from obstore.exceptions import BaseError
from obstore.store import S3Store

from retoma.providers import Blob, ProviderError
from retoma.providers.blobs import LONGEST, PIECE, Measured, checked, missing
from retoma.providers.client import CONNECT_SECONDS, Line
from retoma.providers.http import Reply, down, late, misled

_PART = 8 * PIECE
_STATUS = re.compile(r"status: (\d{3})")
_BODY = "<Code>"
_BODY_END = re.compile(r"</(?:Message|Code)>")


class S3Blobs:
    """The blobs of *bucket*, which must exist, under *prefix*; *timeout* is how long the service may be silent.

    Without *key* and *secret*, credentials are found where AWS programs find them: in the environment, or in
    the role of the machine.
    """

    provider = "s3"

    def __init__(
        self,
        bucket: str,
        *,
        prefix: str = "",
        key: str | None = None,
        secret: str | None = None,
        token: str | None = None,
        region: str | None = None,
        endpoint: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        def make() -> S3Store:
            given = {
                "access_key_id": key,
                "secret_access_key": secret,
                "session_token": token,
                "region": region,
                "endpoint": endpoint,
            }
            options: dict[str, Any] = {name: value for name, value in given.items() if value}
            return S3Store(
                bucket,
                prefix=prefix or None,
                client_options={
                    "allow_http": bool(endpoint and endpoint.startswith("http:")),
                    "connect_timeout": timedelta(seconds=min(CONNECT_SECONDS, timeout)),
                    "read_timeout": timedelta(seconds=timeout),
                    "timeout": timedelta(seconds=LONGEST),
                },
                retry_config={"max_retries": 0},
                **options,
            )

        secrets = tuple(each for each in (key, secret, token) if each)
        self._line = _S3Line(self.provider, make, secrets=secrets, silence=timeout)

    async def put(self, name: str, content: AsyncIterable[bytes], *, most: int | None = None) -> Blob:
        """Store *content* atomically; refused when longer than *most* bytes."""
        checked(name, provider=self.provider)
        measured = Measured(content, name=name, most=most, provider=self.provider)
        parts = measured.blocks(_PART)
        first, second = await anext(parts), await anext(parts, None)
        if second is None:
            # One request instead of three, and it cannot leave an incomplete upload in the bucket.
            await self._line.ask(lambda store: store.put_async(name, first, use_multipart=False), timeout=LONGEST)
            return measured.blob
        # No time-out for the whole, because the source of the content decides how long it takes. One part at a time: an
        # upload that is cancelled while a part is in flight may stay in the bucket incomplete.
        whole = _joined([first, second], parts)
        try:
            await self._line.ask(
                lambda store: store.put_async(name, whole, chunk_size=_PART, max_concurrency=1), timeout=None
            )
        except ProviderError as error:
            if measured.broken is None or measured.broken is error:
                raise
            raise measured.broken from error
        return measured.blob

    @asynccontextmanager
    async def open(
        self, name: str, *, start: int = 0, length: int | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The content, in pieces."""
        checked(name, provider=self.provider)
        options: Any = {}
        if start or length is not None:
            options = {"range": {"offset": start} if length is None else (start, start + length)}
        try:
            found = await self._line.ask(lambda store: store.get_async(name, options=options), timeout=LONGEST)
        except FileNotFoundError:
            found = None
        if found is None:
            raise missing(name)
        stream = found.stream(min_chunk_size=PIECE)

        async def pieces() -> AsyncIterator[bytes]:
            while piece := await self._line.ask(lambda _: anext(stream, None), timeout=LONGEST):
                yield bytes(piece)

        yield pieces()

    async def delete(self, name: str) -> bool:
        """Delete it; returns whether it existed."""
        there = await self.exists(name)
        if there:
            await self._line.ask(lambda store: store.delete_async(name), timeout=LONGEST)
        return there

    async def exists(self, name: str) -> bool:
        """Whether it exists."""
        checked(name, provider=self.provider)
        try:
            await self._line.ask(lambda store: store.head_async(name), timeout=LONGEST)
        except FileNotFoundError:
            return False
        return True


async def _joined(first: list[bytes], rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    while first:
        yield first.pop(0)
    async for each in rest:
        yield each


class _S3Line(Line[S3Store]):
    def _told(self, error: Exception) -> ProviderError | None:
        """Our error. obstore puts all it knows into one text, of which only the status and the
        code are safe to repeat.
        """
        text = str(error)
        if "NoSuchBucket" in text:
            return misled(self.provider, "its bucket does not exist")
        if not isinstance(error, BaseError):
            return None
        if status := _STATUS.search(text):
            start = text.find(_BODY)
            end = _BODY_END.search(text, start) if start >= 0 else None
            return self.failure(Reply(int(status[1]), {}, text[start : end.end()] if end else ""))
        if "kind: Connect" in text:
            return down(self.provider, "cannot be reached", sent=False)
        if "kind: Timeout" in text:
            return late(self.provider, self._silence)
        return down(self.provider, "broke off in the middle of its answer", sent=True)
