"""Detects the kind of a file by its content: first bytes, last bytes, names inside. Its name does not matter."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from pathlib import Path
from typing import IO

from retoma.providers.local.errors import DocumentEmpty, DocumentEncrypted, DocumentMissing, TypeUnknown
from retoma.providers.local.listing import opened

KINDS = ("pdf", "docx", "xlsx", "pptx", "odt", "rtf", "epub", "eml", "html", "csv", "txt", "png", "jpg", "tiff")
TEXTS = ("txt", "csv", "html")
"""A file of one of these kinds can be read as any other."""

_HEAD = 16_384
_TAIL = 1_048_576
_SAMPLE_LINES = 50
_SIGNS = (";", "\t", "|", ",")
_QUOTE = '"'

_OFFICE = {
    "word/document.xml": "docx",
    "xl/workbook.xml": "xlsx",
    "ppt/presentation.xml": "pptx",
    "META-INF/container.xml": "epub",
}
# The first file of an OpenDocument says what it is, and is not packed.
_OPEN_DOCUMENT = re.compile(rb"PK\x03\x04.{26}mimetypeapplication/vnd\.oasis\.opendocument\.([a-z-]{1,30})", re.DOTALL)
_OPEN_TEXT = (b"text", b"text-template", b"text-master")

# A name in the central directory of an archive, or in a local file header; 46 and 30 bytes from the signature. For
# archives whose directory cannot be read: in others, the files inside a document may be documents themselves.
_MEMBER = rb"(?:PK\x01\x02.{42}|PK\x03\x04.{26})"
_PARTS = {
    "docx": re.compile(_MEMBER + rb"word/document\.xml", re.DOTALL),
    "xlsx": re.compile(_MEMBER + rb"xl/workbook\.xml", re.DOTALL),
    "pptx": re.compile(_MEMBER + rb"ppt/presentation\.xml", re.DOTALL),
    "epub": re.compile(_MEMBER + rb"META-INF/container\.xml", re.DOTALL),
}

_FOREIGN = {
    b"PK\x03\x04": (
        "an archive that was cut off, or holds no document of ours",
        "Send it again, or send what is in it.",
    ),
    b"Rar!": ("a RAR archive", "Unpack it and send the documents in it."),
    b"7z\xbc\xaf": ("a 7-Zip archive", "Unpack it and send the documents in it."),
    b"\x1f\x8b": ("a gzip archive", "Unpack it and send the documents in it."),
    b"GIF8": ("a GIF picture", "Save it as .png."),
    b"RIFF": ("a sound, a film or a WebP picture", "Save pictures as .png."),
    b"\x7fELF": ("a program", "Send a document."),
    b"MZ": ("a program", "Send a document."),
}
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_MAGIC = {
    "png": re.compile(rb"\x89PNG\r\n\x1a\n.{4}IHDR", re.DOTALL),
    "jpg": re.compile(rb"\xff\xd8\xff"),
    "tiff": re.compile(rb"II\*\0|MM\0\*"),
}
_RTF = re.compile(rb"\s*\{\\rtf")
_HEADER = re.compile(r"([A-Za-z][A-Za-z0-9-]{0,40}):[ \t]?")
_ONLY_IN_MAIL = {"message-id", "received", "mime-version", "return-path", "delivered-to"}
_HTML = re.compile(r"<!doctype html|<html[\s>]", re.IGNORECASE)
_OPENED = re.compile(r"<(body|table|div|h1|p)[\s>]", re.IGNORECASE)
_CLOSED = re.compile(r"</(body|table|div|h1|p)\s*>", re.IGNORECASE)
_CONTROLS = bytes([*range(0x09), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F])


def detect(file: Path) -> str:
    """The kind of *file*, one of KINDS; raises when it is empty, locked or of an unknown kind."""
    if not file.is_file():  # a pipe or a device would block
        raise DocumentMissing(f"There is no file {file.name}.", next="Was it moved or removed? Send it again.")
    try:
        with file.open("rb") as content:
            return detect_in(content, file.name)
    except OSError as error:
        raise DocumentMissing(
            f"{file.name} cannot be opened: {error.strerror}.", next="Check who may read it."
        ) from error


def detect_in(file: IO[bytes], name: str) -> str:
    """The same for an open file; *name* is for error messages."""
    head, tail = _ends(file)
    if not head:
        raise DocumentEmpty(f"{name} has 0 bytes.", next="Was the upload or the copy cut off? Send it again.")
    if foreign := _OPEN_DOCUMENT.match(head):
        return _open_document(foreign[1], name)
    if kind := _by_directory(file, head) or _by_magic(head, tail) or _by_text(head):
        return kind
    if head.startswith(_OLE):
        raise _ole(name, head + tail)
    what, advice = next(
        (told for magic, told in _FOREIGN.items() if head.startswith(magic)),
        (f"of no kind that we know; it begins with {head[:8].hex(' ')}", f"We read {', '.join(KINDS)}."),
    )
    raise TypeUnknown(f"{name} is {what}.", next=advice)


def _ends(file: IO[bytes]) -> tuple[bytes, bytes]:
    """The first and the last bytes; the same ones when it is short."""
    file.seek(0)
    head = file.read(_HEAD)
    if len(head) < _HEAD:
        return head, head
    file.seek(max(0, file.seek(0, io.SEEK_END) - _TAIL))
    return head, file.read(_TAIL)


def _open_document(kind: bytes, name: str) -> str:
    if kind in _OPEN_TEXT:
        return "odt"
    raise TypeUnknown(
        f"{name} is an OpenDocument of the kind {kind.decode()}.", next="Save it as .odt, .xlsx, .pptx or .pdf."
    )


def _by_directory(file: IO[bytes], head: bytes) -> str | None:
    """The kind of an Office document by the directory of the outer archive; None when it has none that can be read."""
    if not head.startswith(b"PK\x03\x04"):
        return None
    try:
        with opened(file) as archive:
            names = archive.NameToInfo.keys()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return None
    return next((kind for part, kind in _OFFICE.items() if part in names), None)


def _by_magic(head: bytes, tail: bytes) -> str | None:
    if b"%PDF-" in head[:1024]:  # it may follow other bytes
        return "pdf"
    if _RTF.match(head):
        return "rtf"
    for kind, magic in _MAGIC.items():
        if magic.match(head):
            return kind
    # No text contains the third of these bytes, and a search for one byte is far faster than for four.
    if (b"\x01" in tail and b"PK\x01\x02" in tail) or head.startswith(b"PK\x03\x04"):
        for kind, part in _PARTS.items():
            if part.search(tail) or part.search(head):
                return kind
    # A PDF without its beginning can often be repaired; its end identifies it.
    if b"startxref" in tail[-2048:] and b"%%EOF" in tail[-2048:]:
        return "pdf"
    return None


def _by_text(head: bytes) -> str | None:
    text = decode(head, cut=len(head) == _HEAD)
    if text is None:
        return None
    if _is_mail(text):
        return "eml"
    if _is_html(text):
        return "html"
    return "csv" if delimiter(text) else "txt"


def _is_mail(text: str) -> bool:
    """Whether *text* begins with the headers of a mail. A letter may begin with "From" and "To" as well, but not with
    those that programs write.
    """
    found: set[str] = set()
    for line in text.splitlines():
        if not line.strip():
            break
        header = _HEADER.match(line)
        if header is not None:
            found.add(header[1].lower())
        elif not found or not line[0].isspace():  # a line that goes on begins with a blank
            return False
    return "from" in found and bool(found & _ONLY_IN_MAIL)


def _is_html(text: str) -> bool:
    """Whether *text* declares itself as HTML, or opens an element and closes it later. Two searches, one for openings
    and one for endings: a single pattern for both would scan the whole text again for each opening.
    """
    if _HTML.search(text):
        return True
    ends = {found[1].lower(): found.start() for found in _CLOSED.finditer(text)}  # the last of each
    return any(found.start() < ends.get(found[1].lower(), 0) for found in _OPENED.finditer(text))


def decode(content: bytes, *, cut: bool = False) -> str | None:
    """The text of *content*, or None when it is not text.

    A byte order mark decides (UTF-8, UTF-16). Without one it is UTF-8 when all of it is valid UTF-8, and else
    Windows-1252, which older Portuguese and English files use. Control characters mean that it is not text. *cut* says
    that the end is missing, so that an incomplete character there is no fault.
    """
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        encodings = ["utf-16"]
        content = content[: len(content) & ~1] if cut else content
    elif content.startswith(b"\xef\xbb\xbf"):
        encodings = ["utf-8-sig"]
    else:
        encodings = ["utf-8", "cp1252"]
    for encoding in encodings:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError as error:
            if not (cut and encoding.startswith("utf-8") and error.start > len(content) - 4):
                continue
            text = content[: error.start].decode(encoding)
        plain = content if encoding != "utf-16" else text.encode()
        # Each is one byte that is part of no other character, and deleting bytes is far faster than a pattern search.
        return text if len(plain.translate(None, _CONTROLS)) == len(plain) else None
    return None


def delimiter(text: str) -> str | None:
    """The column separator of *text*, when all its first lines have the same number of columns, two or more."""
    few = text.split("\n", _SAMPLE_LINES)[:_SAMPLE_LINES]  # not the whole of a long text
    first = next((line for line in few if line.strip()), "")
    if not any(sign in first for sign in (*_SIGNS, _QUOTE)):
        return None
    lines = [line for line in "\n".join(few).splitlines()[:_SAMPLE_LINES] if line.strip()]
    if len(lines) < 2:  # noqa: PLR2004  # one line is a table of nothing
        return None
    for sign in _SIGNS:
        # Prose has commas too, but rarely the same number in each of three lines.
        if sign == "," and len(lines) < 3:  # noqa: PLR2004  # as said
            continue
        if sign not in lines[0] and _QUOTE not in lines[0]:  # a first row of one column, unless it continues below
            continue
        try:
            widths = {len(row) for row in csv.reader(lines, delimiter=sign)}
        except csv.Error:
            continue
        if len(widths) == 1 and widths.pop() > 1:
            return sign
    return None


def _ole(name: str, content: bytes) -> DocumentEncrypted | TypeUnknown:
    if "EncryptedPackage".encode("utf-16-le") in content:
        return DocumentEncrypted(
            f"{name} is an Office document with a password.",
            next="Save it without the password and send it again.",
        )
    return TypeUnknown(
        f"{name} is of an Office before 2007, or a mail or a program set.", next="Save it as .docx, .xlsx or .pdf."
    )
