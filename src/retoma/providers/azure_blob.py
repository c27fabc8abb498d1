"""Blobs in a container of Azure Storage."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterable, AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from functools import partial
from io import BytesIO
from typing import Any, TypeVar
from uuid import uuid4

from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import BlobBlock
from azure.storage.blob.aio import ContainerClient

from retoma.errors import ConfigurationError
from retoma.providers import Blob, ProviderError
from retoma.providers.azure import OPTIONS, AzureLine
from retoma.providers.blobs import LONGEST, PIECE, Measured, checked, missing
from retoma.providers.http import down, misled

T = TypeVar("T")

_BLOCK = 4 * PIECE  # a blob has 50,000 blocks at most
_SECRET = re.compile(r"(?:AccountKey|SharedAccessSignature)=([^;]+)")


class AzureBlobs:
    """The blobs of *container*, which must exist; *timeout* is how long the service may be silent."""

    provider = "azure-blob"

    def __init__(self, *, connection: str, container: str = "retoma", timeout: float = 60.0) -> None:
        def make() -> ContainerClient:
            options = {**OPTIONS, "read_timeout": timeout, "max_single_get_size": _BLOCK, "max_chunk_get_size": _BLOCK}
            return ContainerClient.from_connection_string(connection, container, **options)

        secrets = tuple(_SECRET.findall(connection))
        if not secrets:
            raise ConfigurationError(
                "The connection string of Azure Storage holds neither AccountKey nor SharedAccessSignature.",
                next="Copy it whole from the storage account's page of keys.",
            )
        self._line = _BlobLine(self.provider, make, secrets=secrets, silence=timeout)

    async def put(self, name: str, content: AsyncIterable[bytes], *, most: int | None = None) -> Blob:
        """Store *content* atomically; refused when longer than *most* bytes."""
        checked(name, provider=self.provider)
        measured = Measured(content, name=name, most=most, provider=self.provider)
        # Blocks become visible when they are committed. Their ids are random: with numbers, two writers of one name
        # would replace each other's blocks, as the SDK's own upload does.
        ours = uuid4().hex
        blocks: list[BlobBlock] = []
        async for block in measured.blocks(_BLOCK):
            staged = BlobBlock(base64.b64encode(f"{ours}{len(blocks):05}".encode()).decode())
            await self._line.ask(partial(_stage, name=name, id=staged.id, block=block), timeout=LONGEST)
            blocks.append(staged)
        await self._line.ask(lambda client: client.get_blob_client(name).commit_block_list(blocks), timeout=LONGEST)
        return measured.blob

    @asynccontextmanager
    async def open(
        self, name: str, *, start: int = 0, length: int | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The content in pieces. When the blob is replaced meanwhile, the next piece fails and can be retried.

        A read costs nothing, and the SDK tries it three times; that cannot be turned off.
        """
        checked(name, provider=self.provider)
        responses = _Responses()
        try:
            found = await self._line.ask(
                lambda client: _unless_missing(
                    client.get_blob_client(name).download_blob(
                        offset=start if start or length is not None else None,
                        length=length,
                        raw_response_hook=responses.hear,
                    )
                ),
                timeout=LONGEST,
            )
            if found is None:
                raise missing(name)
            chunks = found.chunks()

            async def pieces() -> AsyncIterator[bytes]:
                while piece := await self._line.ask(lambda _: anext(chunks, b""), timeout=LONGEST):
                    yield piece

            yield pieces()
        finally:
            responses.close()

    async def delete(self, name: str) -> bool:
        """Delete it; returns whether it existed."""
        checked(name, provider=self.provider)

        async def say(client: ContainerClient) -> bool:
            await client.get_blob_client(name).delete_blob(delete_snapshots="include")
            return True

        return await self._line.ask(lambda client: _unless_missing(say(client)), timeout=LONGEST) or False

    async def exists(self, name: str) -> bool:
        """Whether it exists."""
        checked(name, provider=self.provider)
        found = await self._line.ask(
            lambda client: _unless_missing(client.get_blob_client(name).get_blob_properties()), timeout=LONGEST
        )
        return found is not None

    async def aclose(self) -> None:
        await self._line.close()


class _Responses:
    """The response that is being read. After a time-out the SDK leaves it open, and its connection too."""

    _latest: Any = None

    def hear(self, heard: Any) -> None:
        self.close()
        self._latest = heard.http_response.internal_response

    def close(self) -> None:
        if self._latest is not None:
            self._latest.close()


class _BlobLine(AzureLine[ContainerClient]):
    def _told(self, error: Exception) -> ProviderError | None:
        match getattr(error, "error_code", None):
            case "ContainerNotFound":
                return misled(self.provider, "its container does not exist")
            case "InvalidBlockList":
                return down(self.provider, "was given another content of the same name meanwhile", sent=True)
        return super()._told(error)


async def _stage(client: ContainerClient, *, name: str, id: str, block: bytes) -> None:
    # As a file: bytes would be sent at once, and block the event loop.
    await client.get_blob_client(name).stage_block(id, BytesIO(block), len(block))


async def _unless_missing(asked: Awaitable[T]) -> T | None:
    try:
        return await asked
    except ResourceNotFoundError as error:
        if getattr(error, "error_code", None) == "ContainerNotFound":
            raise
        return None
