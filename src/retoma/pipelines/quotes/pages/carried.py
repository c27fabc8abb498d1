"""A list between its preview and its start: the file goes back and forth in the form, and nobody keeps it meanwhile."""

from __future__ import annotations

import asyncio
import base64
import binascii
import zlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from fastapi import Request

from retoma.pipelines.quotes.lists import MOST_BYTES, NAMES, ItemList, ListRefused, read_list
from retoma.web.http.errors import Refusal
from retoma.web.http.multipart import Upload
from retoma.web.pages.forms import fields_of

LARGEST = 2 * MOST_BYTES
"""Bytes of a form that holds a file: the largest one, as text, and what is said beside it."""
COLUMN = "coluna_"
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """A file, and what the form says beside it."""

    content: bytes
    filename: str
    said: dict[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> Mapping[str, str] | None:
        """Which header is what, where somebody has chosen."""
        chosen = {part: self.said[COLUMN + part] for part in NAMES if COLUMN + part in self.said}
        return chosen or None

    @property
    def text(self) -> str:
        """The file as it stands in the form."""
        return base64.urlsafe_b64encode(zlib.compress(self.content, 6)).decode()

    async def read(self) -> ItemList:
        """Its items; the loop goes on meanwhile."""
        return await asyncio.to_thread(read_list, self.content, filename=self.filename, columns=self.columns)


async def carried(request: Request) -> Carried:
    """The file of a form, be it sent for the first time or brought back."""
    if request.headers.get("content-type", "").startswith("multipart/"):
        return await _uploaded(request)
    said = await fields_of(request, largest=LARGEST)
    return Carried(content=_opened(said.pop("arquivo", "")), filename=_name(said.pop("nome_arquivo", "")), said=said)


async def _uploaded(request: Request) -> Carried:
    upload, content, name = Upload(request), b"", ""
    async for filename, pieces in upload.files():
        if not name:
            name, content = filename, await _whole(pieces)
    if not name:
        raise Refusal("file_missing")
    said = {key: value.replace("\0", "") for key, value in upload.fields.items()}
    return Carried(content=content, filename=_name(name), said=said)


async def _whole(pieces: AsyncIterator[bytes]) -> bytes:
    found = bytearray()
    async for piece in pieces:
        found += piece
        if len(found) > MOST_BYTES:
            raise ListRefused(
                "list_too_large", f"The file has more than {MOST_BYTES:,} bytes.", next="Send it in parts."
            )
    return bytes(found)


def _opened(text: str) -> bytes:
    """The file, never more of it than a list may have: a few bytes could stand for very many."""
    if not text:
        raise Refusal("file_missing")
    opening = zlib.decompressobj()
    try:
        content = opening.decompress(base64.urlsafe_b64decode(text), MOST_BYTES)
    except (binascii.Error, ValueError, zlib.error):
        raise Refusal("validation_failed") from None
    if not opening.eof:
        raise Refusal("validation_failed")
    return content


def _name(filename: str) -> str:
    return "".join(each for each in filename if each.isprintable())[-_LONGEST_NAME:]
