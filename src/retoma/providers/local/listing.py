"""Reads the central directory of an archive only when it is short, whatever length the archive declares."""

from __future__ import annotations

import zipfile
from io import SEEK_SET
from typing import IO

from retoma.providers.local import limits
from retoma.providers.local.overlaps import refuse_overlaps

_ENTRY = b"PK\x01\x02"
_LONGEST_LIST = 8_000_000  # bytes, for as many files as we allow


class ListTooLong(zipfile.BadZipFile):
    """An archive that lists more files than any document has."""


class _Guarded:
    """A file that refuses reads longer than the central directory may be. An archive declares the length of its
    directory in two places, and a check of the first misses the second (ZIP64); every reader passes here in any case.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.tell, self.seekable = file.tell, file.seekable

    def seek(self, place: int, whence: int = SEEK_SET) -> int:
        return self._file.seek(place, whence)

    def read(self, size: int = -1) -> bytes:
        found = self._file.read(size) if 0 <= size <= _LONGEST_LIST else b""
        if size < 0:  # the end of the archive, which is short
            found = self._file.read(_LONGEST_LIST + 1)
        if max(size, len(found)) > _LONGEST_LIST:
            raise ListTooLong("it lists more files than any document has")
        # Each entry begins with this signature; entries are counted before they are parsed.
        if found.startswith(_ENTRY) and found.count(_ENTRY) > limits.MEMBERS:
            raise ListTooLong(f"it lists more than {limits.MEMBERS:,} files")
        return found


def opened(file: IO[bytes]) -> zipfile.ZipFile:
    """The archive in *file*, which the caller closes; raises BadZipFile, or ListTooLong before
    the parse gets expensive.
    """
    archive = zipfile.ZipFile(_Guarded(file))
    refuse_overlaps(archive)
    return archive
