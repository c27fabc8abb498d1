"""Photographs of items: which kind, how large, whether whole; told from their first bytes and their parts.

Nothing is decoded here: a file of a hundred bytes may claim to be 50,000 by 50,000 pixels, and costs no more than a
hundred bytes. The name of a file says nothing about it.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from retoma.errors import ConfigurationError

MOST_IMAGES = 500
"""Images of one request."""
MOST_OF_ITEM = 5
"""Images of one item."""
MOST_BYTES = 5_000_000
MOST_BYTES_OF_ITEM = 20_000_000
"""Of all images of one item together."""
MOST_SIDE = 8_000
MOST_PIXELS = 50_000_000

PNG, JPEG, WEBP = "image/png", "image/jpeg", "image/webp"
ENDINGS = {PNG: "png", JPEG: "jpg", WEBP: "webp"}

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_HEADER = 33  # the signature, and the first part: length, name, 13 bytes, checksum
_JPEG = b"\xff\xd8\xff"
_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})  # the markers that say the size
_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length
_FILL, _SCAN, _END = 0xFF, 0xDA, 0xD9
_SIZED = 9  # bytes from the marker of a frame to the end of its size
_WEBP_HEADER = 30
_LOSSLESS = 0x2F

Size = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Seen:
    """What an image is, and how many pixels it says it has."""

    kind: str
    width: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptImage:
    """An image in the blob store. Nothing owns it until a quote is made of it; one without a quote is removed after a
    day.
    """

    blob: str
    sha256: str
    kind: str
    filename: str = ""
    size: int = 0


class ImageRefused(ConfigurationError):
    """An image that is not taken; *code* never changes."""

    def __init__(self, code: str, message: str, *, next: str) -> None:
        super().__init__(message, next=next)
        self.code = code


def look_at(content: bytes) -> Seen:
    """What *content* is; ImageRefused when it is no PNG, JPEG or WebP, is cut off, or has too many bytes or pixels."""
    if not content:
        raise ImageRefused("image_empty", "The image is empty.", next="Send it again from where it is whole.")
    if len(content) > MOST_BYTES:
        raise ImageRefused(
            "image_too_large", f"The image has {len(content):,} bytes; at most {MOST_BYTES:,} are taken.",
            next="Send a smaller one.",
        )  # fmt: skip
    if content.startswith(_PNG):
        kind, size = PNG, _of_png(content)
    elif content.startswith(_JPEG):
        kind, size = JPEG, _of_jpeg(content)
    elif content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        kind, size = WEBP, _of_webp(content)
    else:
        raise ImageRefused("image_unsupported", "This is no PNG, JPEG or WebP image.", next="Send one of these kinds.")
    if size is None or 0 in size:
        raise ImageRefused(
            "image_damaged", "The image is damaged or was cut off.", next="Send it again from where it is whole."
        )
    width, height = size
    if max(size) > MOST_SIDE or width * height > MOST_PIXELS:
        raise ImageRefused(
            "image_too_many_pixels", f"The image says that it has {width:,} × {height:,} pixels; at most "
            f"{MOST_SIDE:,} a side and {MOST_PIXELS:,} in all are taken.", next="Send a smaller one.",
        )  # fmt: skip
    return Seen(kind, width, height)


def _of_png(content: bytes) -> Size | None:
    if len(content) < _PNG_HEADER or content[8:16] != b"\0\0\0\x0dIHDR":
        return None
    width, height, checksum = *struct.unpack(">II", content[16:24]), struct.unpack(">I", content[29:33])[0]
    if zlib.crc32(content[12:29]) != checksum:
        return None
    place = _PNG_HEADER
    while place + 12 <= len(content):
        length, name = struct.unpack(">I4s", content[place : place + 8])
        place += 12 + length
        if name == b"IEND":
            return (width, height) if place <= len(content) else None
    return None


def _of_jpeg(content: bytes) -> Size | None:
    """The size in the first frame; the data of the picture itself is not looked at, but for its end."""
    size: Size | None = None
    place = 2
    while place + 4 <= len(content) and content[place] == _FILL:
        marker = content[place + 1]
        if marker == _FILL or marker in _ALONE:
            place += 1 if marker == _FILL else 2
            continue
        if marker == _SCAN:
            return size if content.rfind(bytes((_FILL, _END))) > place else None
        (length,) = struct.unpack(">H", content[place + 2 : place + 4])
        if marker in _FRAMES:
            if place + _SIZED > len(content):
                return None
            height, width = struct.unpack(">HH", content[place + 5 : place + _SIZED])
            size = size or (width, height)
        place += 2 + max(length, 2)
    return None


def _of_webp(content: bytes) -> Size | None:
    (length,) = struct.unpack("<I", content[4:8])
    if len(content) < max(_WEBP_HEADER, length + 8):
        return None
    form, body = content[12:16], content[20:_WEBP_HEADER]
    if form == b"VP8X":
        return 1 + int.from_bytes(body[4:7], "little"), 1 + int.from_bytes(body[7:10], "little")
    if form == b"VP8L" and body[0] == _LOSSLESS:
        bits = int.from_bytes(body[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if form == b"VP8 " and body[3:6] == b"\x9d\x01\x2a":
        width, height = struct.unpack("<HH", body[6:10])
        return width & 0x3FFF, height & 0x3FFF
    return None
