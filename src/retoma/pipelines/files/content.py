"""Of which kind a received file is, by its content, and whether it is whole; told in the words of who sent it."""

from __future__ import annotations

import asyncio
import shutil
import unicodedata
import zipfile
from collections.abc import Collection
from io import SEEK_END
from pathlib import Path, PurePosixPath
from typing import IO

from retoma.errors import RetomaError
from retoma.providers.local import limits
from retoma.providers.local.errors import DocumentDamaged, DocumentEmpty, DocumentEncrypted, DocumentUnreadable
from retoma.providers.local.extract import why_not
from retoma.providers.local.kinds import TEXTS, detect_in
from retoma.providers.local.listing import ListTooLong, opened
from retoma.system.tempfiles import named
from retoma.values.text import storable

MIME_TYPES = {
    "pdf": "application/pdf",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "odt": "application/vnd.oasis.opendocument.text",
    "rtf": "application/rtf",
    "epub": "application/epub+zip",
    "eml": "message/rfc822",
    "html": "text/html",
    "csv": "text/csv",
    "txt": "text/plain",
    "png": "image/png",
    "jpg": "image/jpeg",
    "tiff": "image/tiff",
}
_OTHER_ENDINGS = {"jpeg": "jpg", "tif": "tiff", "htm": "html", "text": "txt"}
_ARCHIVES = ("docx", "xlsx", "pptx", "odt", "epub")
_LONGEST_NAME = 200
_NAMELESS = "documento"
_END_OF_ARCHIVE = b"PK\x05\x06"
_TAIL = 66_000  # an archive ends with its record of 22 bytes and a comment of at most 65,535
_OPENING_SECONDS = 15.0
_SEND_AGAIN = "Send it again from where it is whole."


class FileRefused(RetomaError):
    """A file that is not taken; *code* says why and never changes, *limit* how many bytes it might have had."""

    def __init__(self, message: str, *, code: str, next: str = "", limit: int | None = None) -> None:
        super().__init__(message, next=next)
        self.code = code
        self.limit = limit


def clean_name(name: str) -> str:
    """*name* as people may see it: its last part, without what hides or turns letters. It is never a path."""
    kept = storable(name.replace("\0", "")).replace("\\", "/")
    kept = kept.rstrip("/").rpartition("/")[2]
    # Cc and Cf hold the control characters and the marks that turn the direction of what follows.
    kept = "".join(" " if unicodedata.category(sign) in ("Zl", "Zp", "Zs") else sign for sign in kept)
    kept = "".join(sign for sign in kept if unicodedata.category(sign) not in ("Cc", "Cf", "Co", "Cn"))
    kept = " ".join(unicodedata.normalize("NFC", kept).split()).strip(". ")
    if len(kept) > _LONGEST_NAME:
        ending = PurePosixPath(kept).suffix[:20]
        kept = kept[: _LONGEST_NAME - len(ending)].rstrip(". ") + ending
    return kept or _NAMELESS


def kind_of(file: IO[bytes], filename: str, kinds: Collection[str]) -> str:
    """The kind of *file*, one of *kinds*; raises FileRefused with *filename* in its words."""
    try:
        kind = detect_in(file, filename)
    except DocumentUnreadable as error:
        raise FileRefused(error.message, code=_code(file, error), next=error.next) from None
    said = PurePosixPath(filename).suffix.lstrip(".").lower()
    said = _OTHER_ENDINGS.get(said, said)
    if said in MIME_TYPES and said != kind and not (said in TEXTS and kind in TEXTS):
        raise FileRefused(
            f"{filename} is called {said} and is {kind}.",
            code="file_type_mismatch",
            next=f"If it is the right file, call it .{kind} and send it again.",
        )
    if kind not in kinds:
        allowed = ", ".join(sorted(kinds))
        raise FileRefused(f"{filename} is {kind}.", code="file_type_unsupported", next=f"Send one of {allowed}.")
    if kind in _ARCHIVES:
        _check_archive(file, filename)
    elif kind == "png" and b"IEND" not in _tail(file):
        raise _truncated(filename)
    return kind


async def refuse_closed(file: IO[bytes], filename: str, kind: str) -> None:
    """Refuse a PDF that asks for a password or lacks its end. It is opened, in a child process, only when it looks like
    one of these: some have a password for printing alone, and of some that were cut off all pages are there.
    """
    if kind != "pdf" or not _looks_closed(file):
        return
    with named(suffix=f".{kind}") as copy:  # a child finds it by its name
        file.seek(0)
        await asyncio.to_thread(shutil.copyfileobj, file, copy)
        copy.flush()
        found = await why_not(Path(copy.name), kind, timeout=_OPENING_SECONDS)
    match found:
        case DocumentEncrypted():
            raise _locked(filename)
        case DocumentDamaged():
            raise _truncated(filename)


def _looks_closed(file: IO[bytes]) -> bool:
    file.seek(0)
    head, tail = file.read(_TAIL), _tail(file)
    return b"%%EOF" not in tail or b"/Encrypt" in tail or b"/Encrypt" in head


def _code(file: IO[bytes], error: DocumentUnreadable) -> str:
    if isinstance(error, DocumentEmpty):
        return "file_empty"
    if isinstance(error, DocumentEncrypted):
        return "file_encrypted"
    file.seek(0)
    cut = file.read(4) == b"PK\x03\x04"
    return "file_truncated" if cut and _END_OF_ARCHIVE not in _tail(file) else "file_type_unsupported"


def _check_archive(file: IO[bytes], filename: str) -> None:
    """Refuse what says of itself that it is too much; what lies is counted when it is read, in a child process."""
    tail = _tail(file)
    end = tail.rfind(_END_OF_ARCHIVE)
    if end < 0 or len(tail) - end < 22:  # noqa: PLR2004 - the length of that record
        raise _truncated(filename)
    try:
        with opened(file) as archive:
            members = archive.infolist()
    except ListTooLong:
        raise _bomb(filename, "lists more files than any document has") from None
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        raise _truncated(filename) from None
    unpacked, packed = sum(each.file_size for each in members), max(1, file.seek(0, SEEK_END))
    if unpacked > limits.UNPACKED or (unpacked > limits.RATIO_FROM and unpacked > packed * limits.RATIO):
        raise _bomb(filename, f"unpacks to {unpacked:,} bytes")
    if any(each.flag_bits & 0x1 for each in members):
        raise _locked(filename)


def _tail(file: IO[bytes]) -> bytes:
    file.seek(max(0, file.seek(0, SEEK_END) - _TAIL))
    return file.read(_TAIL)


def _locked(filename: str) -> FileRefused:
    return FileRefused(
        f"{filename} has a password.", code="file_encrypted", next="Save it without the password and send it again."
    )


def _truncated(filename: str) -> FileRefused:
    return FileRefused(f"{filename} was cut off: its end is missing.", code="file_truncated", next=_SEND_AGAIN)


def _bomb(filename: str, what: str) -> FileRefused:
    return FileRefused(
        f"{filename} {what}.", code="archive_limits", next="No document needs that; find out where it comes from."
    )
