"""Images for tests: small ones that are real, and one that claims to be enormous."""

from __future__ import annotations

import io
import struct
import zlib

from PIL import Image


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int = 3, height: int = 2, *, shade: int = 200) -> bytes:
    """A PNG that says it has so many pixels; its data is that of a small one."""
    rows = zlib.compress(b"".join(b"\0" + bytes((shade, 10, 10)) * min(width, 3) for _ in range(min(height, 2))))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def drawn(kind: str, size: tuple[int, int] = (40, 30), **options: object) -> bytes:
    """A real picture, written by Pillow."""
    out = io.BytesIO()
    Image.new("RGB", size, (180, 90, 30)).save(out, kind, **options)
    return out.getvalue()
