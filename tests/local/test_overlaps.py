"""Archives whose files share their bytes are refused, also by a Python that does not look for that itself."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from pathlib import Path

import pytest

from retoma.pipelines.files.content import FileRefused, kind_of
from retoma.providers.local.archives import Archive
from retoma.providers.local.errors import DocumentDamaged
from retoma.providers.local.kinds import KINDS
from retoma.providers.local.overlaps import refuse_overlaps

NAMES = ["[Content_Types].xml", "word/document.xml", *(f"word/{number}.xml" for number in range(50))]
TEXT = b"0" * 100_000


def overlapping(names: list[str] = NAMES) -> bytes:
    """An archive in which all *names* are one and the same stretch of bytes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(TEXT) + packer.flush()
    sizes = struct.pack("<III", zlib.crc32(TEXT), len(packed), len(TEXT))
    name = names[0].encode()
    local = b"PK\x03\x04" + struct.pack("<HHHHH", 20, 0, 8, 0, 0) + sizes + struct.pack("<HH", len(name), 0) + name
    listed = b""
    for each in names:
        called = each.encode()
        listed += b"PK\x01\x02" + struct.pack("<HHHHHH", 20, 20, 0, 8, 0, 0) + sizes
        listed += struct.pack("<HHHHHII", len(called), 0, 0, 0, 0, 0, 0) + called
    start = len(local) + len(packed)
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, len(names), len(names), len(listed), start, 0)
    return local + packed + listed + end


def test_an_archive_whose_files_share_their_bytes_is_refused() -> None:
    with zipfile.ZipFile(io.BytesIO(overlapping())) as archive, pytest.raises(zipfile.BadZipFile, match="shares"):
        refuse_overlaps(archive)


def test_one_that_reaches_into_the_list_of_files_is_refused() -> None:
    content = bytearray(overlapping(["a.txt"]))
    listed = content.index(b"PK\x01\x02")
    content[listed + 20 : listed + 24] = struct.pack("<I", 4000)

    with zipfile.ZipFile(io.BytesIO(bytes(content))) as archive, pytest.raises(zipfile.BadZipFile, match="shares"):
        refuse_overlaps(archive)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
@pytest.mark.parametrize("before", [b"", b"#!/bin/sh\n"], ids=["plain", "after a script"])
def test_ordinary_archives_pass(compression: int, before: bytes) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.mkdir("folder")
        for number in range(5):
            archive.writestr(f"folder/{number}.txt", b"x" * number)
    with zipfile.ZipFile(io.BytesIO(before + file.getvalue())) as archive:
        refuse_overlaps(archive)

        assert len(archive.infolist()) == 6


def test_a_document_of_that_kind_is_refused_when_it_comes_and_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.docx"
    path.write_bytes(overlapping())

    with path.open("rb") as file, pytest.raises(FileRefused):
        kind_of(file, "a.docx", KINDS)
    with pytest.raises(DocumentDamaged, match="shares its bytes"):
        Archive(path)
