"""What a person points at on this machine: a list, with its photographs beside it, or a folder of photographs."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from pathlib import Path

from retoma.pipelines.quotes.images import MOST_BYTES, MOST_OF_ITEM
from retoma.pipelines.quotes.keeping import Keeping, of_folder
from retoma.pipelines.quotes.lists import MOST_ITEMS, ItemList, read_list

_MOST_FILES = MOST_ITEMS * MOST_OF_ITEM


async def listed_in(library: Keeping, place: Path) -> tuple[ItemList, str | None]:
    """The items at *place*, and the SHA-256 of a list that names no images: its bytes are all that it is."""
    if await asyncio.to_thread(place.is_dir):
        return await library.keep_images(_images(place), most=_MOST_FILES, item_of=of_folder), None
    content = await asyncio.to_thread(place.read_bytes)
    listed = await asyncio.to_thread(read_list, content, filename=place.name, images=True)
    if "image" not in listed.columns:
        return listed, hashlib.sha256(content).hexdigest()

    async def open_image(name: str) -> bytes | None:
        return await asyncio.to_thread(_beside, place.parent, name)

    return await library.with_images(listed, open_image), None


def _images(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file of *folder*, and of the folders in it, by its path from there; hidden ones are left out."""
    for file in sorted(folder.iterdir()):
        if file.name.startswith("."):
            continue
        within = sorted(file.iterdir()) if file.is_dir() and not file.is_symlink() else [file]
        for each in within:
            if each.is_file() and not each.name.startswith("."):
                yield str(each.relative_to(folder)), _start(each)


def _beside(folder: Path, name: str) -> bytes | None:
    """The file called *name* in *folder*, or below it; what leads elsewhere is not there."""
    try:
        file = (folder / name).resolve()
        return _start(file) if file.is_relative_to(folder.resolve()) and file.is_file() else None
    except (OSError, ValueError):
        return None


def _start(file: Path) -> bytes:
    """So much of *file* that it can be told to be too large."""
    with file.open("rb") as opened:
        return opened.read(MOST_BYTES + 1)
