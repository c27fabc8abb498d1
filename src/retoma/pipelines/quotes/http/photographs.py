"""Photographs of items that come in: kept before the quote is made, and removed when it is not."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from fastapi import Request

from retoma.errors import Conflict, NotFound
from retoma.pipelines.quotes.http.forms import Given, fields_in, refusal, whole
from retoma.pipelines.quotes.images import MOST_BYTES, MOST_IMAGES, MOST_OF_ITEM, ImageRefused, KeptImage
from retoma.pipelines.quotes.keeping import of_numbered, shown_by
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.lists import ItemList, ListedItem, ListRefused
from retoma.providers import BlobStore
from retoma.web.http.auth import Visit
from retoma.web.http.errors import Refusal
from retoma.web.http.multipart import Upload

UNKEPT = ("store_unavailable", "store_full", "multipart_expected", "conflict")
"""Why an image cannot be kept, or belongs to nobody any more."""


async def kept_item(library: Quotes, came: Given) -> tuple[KeptImage, ...]:
    """The images of one item that a form brings; all of them, or none is kept."""
    if not came.files:
        return ()
    kept: list[KeptImage] = []
    try:
        with _store(library):
            for filename, content in came.files:
                kept += [await library.keep_image(content, filename=filename)]
            return shown_by(kept)
    except ImageRefused as error:
        await library.let_go(ItemList(items=[ListedItem(line=1, text="", kept=tuple(kept))]))
        raise refusal(error) from None


async def kept_images(library: Quotes, request: Request, *, grouped: bool) -> tuple[Given, ItemList]:
    """What a form says, and a list of its images: each is kept before the next is read. Where they are
    *grouped*, images called alike but for a number are of one item.
    """
    upload = Upload(request)

    async def images() -> AsyncIterator[tuple[str, bytes]]:
        async for filename, pieces in upload.files():
            yield filename, await whole(pieces, MOST_BYTES)

    try:
        with _store(library):
            most = MOST_IMAGES * (MOST_OF_ITEM if grouped else 1)
            listed = await library.keep_images(images(), most=most, item_of=of_numbered if grouped else None)
    except ListRefused as error:
        raise refusal(error) from None
    if not listed.items and not listed.problems:
        raise Refusal("file_missing")
    shown = hashlib.sha256()
    for each in listed.items:
        shown.update(repr((each.line, each.code, [image.sha256 for image in each.kept])).encode())
    return Given(said=fields_in(upload), shown=shown.hexdigest()), listed


@asynccontextmanager
async def released(library: Quotes, images: Sequence[KeptImage], visit: Visit) -> AsyncIterator[None]:
    """Remove *images* when the quotes are refused, or were made before. When nobody knows whether they were made, the
    images stay, and are swept a day later if they were not.
    """
    listed = ItemList(items=[ListedItem(line=1, text="", kept=tuple(images))])
    try:
        yield
    except (Refusal, NotFound, Conflict):
        await library.let_go(listed)
        raise
    if visit.unchanged:
        await library.let_go(listed)


@contextmanager
def _store(library: Quotes) -> Iterator[None]:
    if not library.app.provides(BlobStore):
        raise Refusal("store_unavailable")
    try:
        yield
    except OSError as error:  # where we keep things is nobody's business outside
        raise Refusal("store_full" if error.errno == errno.ENOSPC else "store_unavailable") from None
