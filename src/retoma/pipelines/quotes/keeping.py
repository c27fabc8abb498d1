"""Photographs of items on their way into the blob store, and what their names in a list lead to."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from pathlib import PurePath
from typing import Any, TypeVar
from uuid import uuid4

from retoma.app.retoma import Retoma
from retoma.errors import Conflict
from retoma.pipelines.files import unowned_blobs
from retoma.pipelines.files.content import clean_name
from retoma.pipelines.files.ingest import deleted
from retoma.pipelines.quotes.images import MOST_IMAGES, ImageRefused, KeptImage, look_at
from retoma.pipelines.quotes.lists import LONGEST_CODE, ItemList, ListedItem, ListRefused, Problem
from retoma.providers import BlobStore
from retoma.store.query import Query

T = TypeVar("T")

Opener = Callable[[str], Awaitable[bytes | None]]
"""The content of the file of a name; None when there is none."""
_FOLDER = "quotes/images"


class Keeping:
    """Takes images in, on an open app."""

    def __init__(self, app: Retoma) -> None:
        self.app = app

    async def _rows(self, query: Query[T], conn: object = None) -> list[T]:
        return await self.app.fetch(query, conn=conn)

    def _within(self, conn: object) -> AbstractAsyncContextManager[Any]:
        return self.app.transaction() if conn is None else nullcontext(conn)

    async def keep_image(self, content: bytes, *, filename: str = "") -> KeptImage:
        """Check one image and keep it, for ``create(image=…)`` or an item of a list. ImageRefused says why it is not
        taken. The bytes are kept as they came; nothing is decoded.
        """
        seen = look_at(content)
        blob = f"{_FOLDER}/{uuid4().hex[:2]}/{uuid4().hex}"
        await self._rows(unowned_blobs.announce([blob]))

        async def once() -> AsyncIterator[bytes]:
            yield content

        stored = await self.app.provider(BlobStore).put(blob, once())
        name = clean_name(filename) if filename else ""
        return KeptImage(blob=blob, sha256=stored.sha256, kind=seen.kind, filename=name)

    async def keep_images(
        self, images: Iterable[tuple[str, bytes]] | AsyncIterable[tuple[str, bytes]], *, most: int = MOST_IMAGES
    ) -> ItemList:
        """A list with one item for each of *images* (file name, content), for ``create_batch``; its code is the name
        without its ending. Each is kept before the next is taken, so that one at a time is in memory. One that is
        refused is a problem of the list, and the others go on.
        """
        listed = ItemList()
        line = 0
        async for name, content in _each(images):
            line += 1
            if line > most:
                await self.let_go(listed)
                raise ListRefused(
                    "too_many_images", f"There are more than {most:,} images.", next="Send them in parts."
                )
            try:
                kept = await self.keep_image(content, filename=name)
            except ImageRefused as error:
                listed.problems.append(_problem(line, error, name))
                continue
            code = PurePath(kept.filename).stem[:LONGEST_CODE] or None
            listed.items.append(ListedItem(line=line, text="", code=code, image=kept.filename, kept=kept))
        return listed

    async def with_images(self, listed: ItemList, open_image: Opener) -> ItemList:
        """The same list with the images that its rows name; *open_image* gives the content of a name, or None. A row
        whose image is missing or refused is a problem of the list.
        """
        items: list[ListedItem] = []
        problems = list(listed.problems)
        for item in listed.items:
            if item.image is None:
                items.append(item)
                continue
            try:
                items.append(replace(item, kept=await self._opened(item.image, open_image)))
            except ImageRefused as error:
                problems.append(_problem(item.line, error, item.image))
        return replace(listed, items=items, problems=sorted(problems, key=lambda each: each.line))

    async def _opened(self, name: str, open_image: Opener) -> KeptImage:
        content = await open_image(name)
        if content is None:
            raise ImageRefused(
                "image_missing", f"There is no image {name[:200]!r} beside the list.", next="Put it there, by its name."
            )
        return await self.keep_image(content, filename=name)

    async def let_go(self, listed: ItemList) -> None:
        """Remove the images of a list that no quotes are made of; what cannot be removed now is swept later."""
        blobs = [each.kept.blob for each in listed.items if each.kept]
        if not blobs:
            return
        for blob in blobs:
            await self._rows(unowned_blobs.disown(blob))
        gone = await deleted(self.app.provider(BlobStore), blobs)
        await self._rows(unowned_blobs.forget(gone))

    async def _own(self, image: KeptImage | None, conn: object) -> None:
        """For the transaction that makes the quote: from then on the image stays."""
        if image is not None and not await self._rows(unowned_blobs.own(image.blob), conn):
            raise Conflict("The image is not kept any more, or a quote has it already.", next="Send it again.")


def fingerprint_of(listed: ItemList) -> str | None:
    """What tells a list with images from any other: what it says, and what its images show."""
    if not any(each.kept for each in listed.items):
        return None
    told = hashlib.sha256()
    for item in listed.items:
        shown = item.kept.sha256 if item.kept else None
        told.update(repr(replace(item, kept=None)).encode() + repr(shown).encode())
    for problem in listed.problems:
        told.update(repr((problem.line, problem.reason)).encode())
    return told.hexdigest()


def _problem(line: int, error: ImageRefused, name: str) -> Problem:
    return Problem(line=line, reason=error.code, message=error.message, text=name[:200].replace("\0", ""))


async def _each(
    images: Iterable[tuple[str, bytes]] | AsyncIterable[tuple[str, bytes]],
) -> AsyncIterator[tuple[str, bytes]]:
    if isinstance(images, AsyncIterable):
        async for each in images:
            yield each
        return
    left = iter(images)
    while (found := await asyncio.to_thread(next, left, None)) is not None:  # it may read files
        yield found
