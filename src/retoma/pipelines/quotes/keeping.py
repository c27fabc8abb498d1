"""Photographs of items on their way into the blob store, and what their names in a list lead to."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
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
from retoma.pipelines.quotes.images import (
    MOST_BYTES_OF_ITEM,
    MOST_IMAGES,
    MOST_OF_ITEM,
    ImageRefused,
    KeptImage,
    look_at,
)
from retoma.pipelines.quotes.lists import LONGEST_CODE, ItemList, ListedItem, ListRefused, Problem
from retoma.providers import BlobStore
from retoma.store.query import Query

T = TypeVar("T")

Opener = Callable[[str], Awaitable[bytes | None]]
"""The content of the file of a name; None when there is none."""
_FOLDER = "quotes/images"
_NUMBERED = re.compile(r"(.+?)[_ -]\(?[1-9]\)?")


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
        return KeptImage(blob=blob, sha256=stored.sha256, kind=seen.kind, filename=name, size=len(content))

    async def keep_images(
        self,
        images: Iterable[tuple[str, bytes]] | AsyncIterable[tuple[str, bytes]],
        *,
        most: int = MOST_IMAGES,
        item_of: Callable[[str], str] | None = None,
    ) -> ItemList:
        """A list with one item for each of *images* (file name, content), for ``create_batch``; its code is the name
        without its ending. With *item_of*, images whose names give the same item are of that item, up to five. Each is
        kept before the next is taken, so that one at a time is in memory. One that is refused is a problem of the
        list, and the others go on.
        """
        listed = ItemList()
        places: dict[str, int] = {}
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
            item = PurePath(kept.filename).stem if item_of is None else item_of(name)
            place = places.setdefault(item, len(listed.items)) if item_of else len(listed.items)
            if place == len(listed.items):
                code = item[:LONGEST_CODE] or None
                listed.items.append(ListedItem(line=line, text="", code=code, image=kept.filename, kept=(kept,)))
                continue
            try:
                known = listed.items[place]
                listed.items[place] = replace(known, kept=shown_by([*known.kept, kept]))
            except ImageRefused as error:
                await self.let_go(ItemList(items=[ListedItem(line=line, text="", kept=(kept,))]))
                listed.problems.append(_problem(line, error, name))
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
            kept: list[KeptImage] = []
            try:
                for name in names_in(item.image):
                    kept += [await self._opened(name, open_image)]
                items.append(replace(item, kept=shown_by(kept)))
            except ImageRefused as error:
                await self.let_go(ItemList(items=[replace(item, kept=tuple(kept))]))
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
        blobs = [image.blob for each in listed.items for image in each.kept]
        if not blobs:
            return
        for blob in blobs:
            await self._rows(unowned_blobs.disown(blob))
        gone = await deleted(self.app.provider(BlobStore), blobs)
        await self._rows(unowned_blobs.forget(gone))

    async def _own(self, images: Sequence[KeptImage], conn: object) -> None:
        """For the transaction that makes the quote: from then on the images stay."""
        for image in images:
            if not await self._rows(unowned_blobs.own(image.blob), conn):
                raise Conflict("The image is not kept any more, or a quote has it already.", next="Send it again.")


def shown_by(image: KeptImage | Sequence[KeptImage] | None) -> tuple[KeptImage, ...]:
    """The photographs of one item; ImageRefused when they are too many, or too large together."""
    images = () if image is None else (image,) if isinstance(image, KeptImage) else tuple(image)
    if len(images) > MOST_OF_ITEM:
        raise ImageRefused(
            "item_has_too_many_images", f"An item has at most {MOST_OF_ITEM} images.", next="Leave some out."
        )
    if sum(each.size for each in images) > MOST_BYTES_OF_ITEM:
        raise ImageRefused(
            "item_images_too_large",
            f"The images of an item have at most {MOST_BYTES_OF_ITEM:,} bytes together.",
            next="Send smaller ones.",
        )
    return images


def names_in(said: str) -> list[str]:
    """The files that a cell of a list names."""
    return [each for each in map(str.strip, said.split("|")) if each]


def of_numbered(name: str) -> str:
    """The item of a photograph by its file's name: "4711_2.jpg" shows 4711, as "4711_1.jpg" does."""
    stem = PurePath(name).stem
    found = _NUMBERED.fullmatch(stem)
    return found[1] if found else stem


def of_folder(name: str) -> str:
    """The item of a photograph by its path: each folder is one item, and a file that is in none is one, too."""
    path = PurePath(name)
    return path.parent.name or path.stem


def fingerprint_of(listed: ItemList) -> str | None:
    """What tells a list with images from any other: what it says, and what its images show."""
    if not any(each.kept for each in listed.items):
        return None
    told = hashlib.sha256()
    for item in listed.items:
        shown = [each.sha256 for each in item.kept]
        told.update(repr(replace(item, kept=())).encode() + repr(shown).encode())
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
